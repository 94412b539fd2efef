/* SPDX-License-Identifier: BSD-3-Clause */
/* runner.h - a test scenario with a partner process, repeated with a different call failing each time; see runner.c. */
#ifndef RUNNER_H
#define RUNNER_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PHASE_OPEN, PHASE_CONNECT, PHASE_TRANSFER, PHASE_CLOSE, PHASES };

/** Where and how a scenario failed. */
struct failure {
	int phase;
	char what[120]; /* the call or the condition that failed */
	int error;	/* errno, or a status of the interface */
	bool lost;	/* no call failed: the connection was lost, or an answer did not come */
};

struct scenario {
	/** The victim's side: open, connect, transfer and close; after a failure, undo what was done. `fd`: socket to
	 * the partner; -1: there is no partner. @return whether all went well. */
	bool (*victim)(int fd, struct failure *failure);
	/** The partner's side: open the device once. @return false: failed. */
	bool (*partner_open)(void);
	/** Serve one victim until it has ended. */
	void (*partner_serve)(int fd);
};

extern const struct scenario scenario;

/** Send or receive bytes over the socket to the other side, in bounded time. @return false: the other side has gone. */
bool say(int fd, const void *buf, size_t len);
bool hear(int fd, void *buf, size_t len);

/** Note a failure, unless one has been noted already. @return false */
bool failed(struct failure *failure, int phase, const char *what, int error);
/** Like failed(), if no call failed but the connection was lost, or an answer did not come. */
bool lost(struct failure *failure, int phase, const char *what, int error);

/** Fill a message with bytes that depend on `seed`, or compare it with them. */
void fill(uint8_t *to, uint32_t len, uint32_t seed);
bool holds(const uint8_t *at, uint32_t len, uint32_t seed);

/** Return false from a function with a `struct failure *f` unless the call, which sets errno, is true. */
#define MUST_TRUE(phase, call)                                                                                         \
	do {                                                                                                           \
		errno = 0;                                                                                             \
		if (!(call))                                                                                           \
			return failed(f, phase, #call, errno);                                                         \
	} while (0)

#endif
