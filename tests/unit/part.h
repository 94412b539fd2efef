/* SPDX-License-Identifier: BSD-3-Clause */
/* part.h - processes that open devices and do with them what the test says, one thing after the other: a test that needs
 * several functions of a device. The test itself opens none. Failures, also theirs, are assertions of cmocka. */
#ifndef TEST_PART_H
#define TEST_PART_H

#include <stdint.h>
#include <sys/types.h>

#include "engine.h"

enum part_order {
	PART_OPEN,    /* (device, whether with rings) */
	PART_CLOSE,   /* () */
	PART_SERVE,   /* (port) @return the port or a negative errno */
	PART_UNSERVE, /* (port) */
	PART_SEND,    /* (device, port): a datagram. @return the path that it took */
	PART_ROUTE,   /* (device, QPN), twice. @return the path, -1: the second time another one */
	PART_FORWARD, /* (device, QPN): a datagram that has come here. @return whether it was not left to the NIC */
	PART_REST,    /* (): links are looked at as if they had not been used for long. @return how many go out then */
	PART_FORK,    /* (): a child, which does nothing. @return its number */
	PART_NUMBER,  /* (): of the function */
	PART_NO_QP,   /* (): packets to QPs that are not there */
	PART_BY_LINK, /* (): packets that came by links */
	PART_BY_PORT, /* (): packets that came by the port */
	PART_MISROUTED, /* (): packets that came by the port and were others' */
};

struct part {
	pid_t pid;
	int to, from;
};

void part_start(struct part *p, const struct pmd_device *devices);
/** Have it do something, and wait until it has. */
int64_t part_do(const struct part *p, enum part_order order, int64_t a, int64_t b);
/** The same in two steps. */
void part_order(const struct part *p, enum part_order order, int64_t a, int64_t b);
int64_t part_answer(const struct part *p);
void part_kill(struct part *p);
/** It has died, and been waited for. */
void part_gone(struct part *p);
/** It closes what it has opened, and ends. */
void part_end(struct part *p);

#endif
