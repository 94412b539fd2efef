/* SPDX-License-Identifier: BSD-3-Clause */
/* part.h - child processes that open devices and execute the test's orders one by one, for tests that need several
 * functions of a device. The test process itself opens none. Failures, also in children, are assertions of cmocka. */
#ifndef TEST_PART_H
#define TEST_PART_H

#include <stdint.h>
#include <sys/types.h>

#include "engine.h"

enum part_order {
	PART_OPEN,	/* (device, whether with rings): open the device */
	PART_CLOSE,	/* (): close the device */
	PART_SERVE,	/* (port): serve the port. @return the port or a negative errno */
	PART_UNSERVE,	/* (port): stop serving the port */
	PART_SEND,	/* (device, port): send a datagram. @return the path that it took */
	PART_ROUTE,	/* (device, QPN): look up the route twice. @return the path, -1: the results differ */
	PART_FORWARD,	/* (device, QPN): receive a datagram for QPN. @return whether the engine kept it from the NIC */
	PART_REST,	/* (): trim links as if long unused. @return how many outgoing links are left */
	PART_FORK,	/* (): fork a child that does nothing, and wait until it runs. @return its PID */
	PART_NUMBER,	/* (): @return the number of the function */
	PART_NO_QP,	/* (): @return packets received for unknown QPNs */
	PART_BY_LINK,	/* (): @return packets received by links */
	PART_BY_PORT,	/* (): @return packets received by the port */
	PART_MISROUTED, /* (): @return packets received by the port that belong to other functions */
};

struct part {
	pid_t pid;
	int to, from;
};

void part_start(struct part *p, const struct pmd_device *devices);
/** Give an order and wait for its result. */
int64_t part_do(const struct part *p, enum part_order order, int64_t a, int64_t b);
/** part_do() in two steps: give the order; wait for its result. */
void part_order(const struct part *p, enum part_order order, int64_t a, int64_t b);
int64_t part_answer(const struct part *p);
void part_kill(struct part *p);
/** Clean up after a part that has died and been waited for. */
void part_gone(struct part *p);
/** Have the part close its device, then end the part. */
void part_end(struct part *p);

#endif
