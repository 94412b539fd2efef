/* SPDX-License-Identifier: BSD-3-Clause */
/* runner.h - a scenario with a partner process, in which one call after the other is made to fail; see runner.c. */
#ifndef RUNNER_H
#define RUNNER_H

#include <stdbool.h>
#include <stddef.h>

enum { PHASE_OPEN, PHASE_CONNECT, PHASE_TRANSFER, PHASE_CLOSE, PHASES };

/** Where and how a scenario failed. */
struct failure {
	int phase;
	char what[120]; /* the call or the condition */
	int error;	/* errno, or a status of the interface */
};

struct scenario {
	/** The victim's side: open, connect, transfer and close, or undo what was done. `fd`: to the partner, -1:
	 * there is none. @return whether all went well. */
	bool (*victim)(int fd, struct failure *failure);
	/** The partner's side: opens once. @return false: it could not. */
	bool (*partner_open)(void);
	/** Serve one victim until it has ended. */
	void (*partner_serve)(int fd);
};

extern const struct scenario scenario;

/** Exchange bytes with the other side, in bounded time. @return false: it has gone. */
bool say(int fd, const void *buf, size_t len);
bool hear(int fd, void *buf, size_t len);

bool failed(struct failure *failure, int phase, const char *what, int error);

#endif
