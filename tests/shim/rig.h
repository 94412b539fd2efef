/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rig.h - the fixture of the shim's tests, which are ordinary verbs programs that run with the drop-in library or with
 * the preload library. The process opens two devices, 127.0.9.1 and 127.0.9.2, each with a PD, a CQ and a registered
 * buffer, and connects pairs of QPs between them.
 */
#ifndef RIG_H
#define RIG_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka.h needs the headers before it. */
#include <cmocka.h>

#define RIG_BUF	  65536
#define RIG_DEPTH 64
#define RIG_QKEY  0x1234
#define RIG_ACCESS                                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

struct rig_end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *buf;
	union ibv_gid gid;
	struct ibv_qp *qp;
};

struct rig {
	struct rig_end end[2];
};

/** Set UROCE_DEVICES to two addresses that only this process uses, because all processes that use an address share
 * its device. */
void rig_devices(void);
/** cmocka's setup and teardown functions: *state is a struct rig. */
int rig_setup(void **state);
/** As rig_setup(), on the devices that are set: in a forked child, those of its parent. */
int rig_setup_again(void **state);
/** As rig_setup(), but both ends are on one device, ::1. *state is NULL if the host has no IPv6. */
int rig_setup_ipv6(void **state);
/** As rig_setup(), but the engines have no threads: they work only during the calls that the test makes. */
int rig_setup_inline(void **state);
int rig_teardown(void **state);

/** Create a QP at each end and connect the two; for UD only change both to RTS. */
void rig_connect(struct rig *rig, enum ibv_qp_type type);
/** Connect two QPs that the caller has created; for UD only change both to RTS. */
void rig_connect_qps(struct rig *rig, struct ibv_qp *a, struct ibv_qp *b);
/** Destroy the QPs at both ends. */
void rig_disconnect(struct rig *rig);

struct ibv_qp_init_attr rig_qp_init(struct rig_end *end, enum ibv_qp_type type);
/** An SGE in the registered buffer of an end. */
struct ibv_sge rig_sge(struct rig_end *end, size_t offset, uint32_t length);
/** Wait for one completion; fails after some seconds. */
struct ibv_wc rig_wait(struct ibv_cq *cq);
void rig_post_recv(struct rig_end *end, uint64_t wr_id, size_t offset, uint32_t length);
/** Create an address handle at end 0 that leads to end 1. */
struct ibv_ah *rig_ah(struct rig *rig);

/** @return a counter of the device, from `hw_counters` in sysfs; -1: those files are not there, as with a sanitizer. */
long rig_counter(const struct rig_end *end, const char *name);

/** SEND some bytes with this value from end 0 to end 1, whose QPs are connected, and check what has arrived. */
void rig_send_checked(struct rig *rig, int value);
/** Make a call in a forked child, which exits with the call's value. A failed assertion ends the child with SIGABRT,
 * and a call of more than 60 s with SIGALRM. @return the child's wait status. */
int rig_in_child(int (*call)(void *arg), void *arg);

#endif
