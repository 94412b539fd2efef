/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucma_abi.h - the commands that librdmacm writes to /dev/infiniband/rdma_cm: declarations that older releases of
 * <rdma/rdma_user_cm.h> lack, and the entry point. A command is a header {number, bytes in, bytes out} and a structure,
 * which can contain the address of memory for the answer.
 */
#ifndef UCMA_ABI_H
#define UCMA_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/rdma_user_cm.h>

/* Numbers of the events, enum rdma_cm_event_type of librdmacm. */
enum ucma_event_type {
	UCMA_ADDR_RESOLVED,
	UCMA_ADDR_ERROR,
	UCMA_ROUTE_RESOLVED,
	UCMA_ROUTE_ERROR,
	UCMA_CONNECT_REQUEST,
	UCMA_CONNECT_RESPONSE,
	UCMA_CONNECT_ERROR,
	UCMA_UNREACHABLE,
	UCMA_REJECTED,
	UCMA_ESTABLISHED,
	UCMA_DISCONNECTED,
	UCMA_DEVICE_REMOVAL,
	UCMA_MULTICAST_JOIN,
	UCMA_MULTICAST_ERROR,
	UCMA_ADDR_CHANGE,
	UCMA_TIMEWAIT_EXIT,
	UCMA_ADDRINFO_RESOLVED,
	UCMA_ADDRINFO_ERROR,
	UCMA_USER,
	UCMA_INTERNAL,
};

/* QP types, and the event that a program passes to rdma_notify(), with the values of verbs.h. */
enum { UCMA_QPT_RC = 2, UCMA_QPT_UC = 3, UCMA_QPT_UD = 4, UCMA_QPT_XRC_SEND = 9, UCMA_QPT_XRC_RECV = 10 };
#define UCMA_EVENT_COMM_EST 4

/* The header of rdma-core 44 does not have these yet. */
#define UCMA_CMD_RESOLVE_IB_SERVICE 23
#define UCMA_CMD_WRITE_CM_EVENT	    24
#define UCMA_QUERY_IB_SERVICE	    3

struct ucma_resolve_ib_service {
	uint32_t id, reserved;
	uint64_t service_id;
	uint8_t name[64];
	uint32_t flags, reserved2;
};

struct ucma_write_cm_event {
	uint32_t id, reserved, event, status;
	union {
		struct rdma_ucm_conn_param conn;
		struct rdma_ucm_ud_param ud;
		uint64_t arg;
	} param;
};

struct ucma_query_ib_service_resp {
	uint32_t n, reserved;
};

struct cma_file;

/**
 * Execute a command that was written to a file.
 * @param fd the descriptor that the command was written to; a wait for an event sleeps on this descriptor.
 * @param block whether the command that gets an event waits for one. @param cancel the thread's cancelability during
 * that wait; cancellation is disabled otherwise.
 * @return 0: all bytes were consumed; or the negative errno that the kernel would return.
 */
int ucma_command(struct cma_file *file, int fd, bool block, int cancel, const void *buf, size_t len);

#endif
