/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucma_abi.h - the commands that librdmacm writes to /dev/infiniband/rdma_cm: what <rdma/rdma_user_cm.h> of older
 * releases lacks, and the entry point. A command is a header {number, bytes in, bytes out}, its structure, and in that
 * the address of memory for the answer.
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

/* Types of queue pairs and the event, as in verbs.h. */
enum { UCMA_QPT_RC = 2, UCMA_QPT_UC = 3, UCMA_QPT_UD = 4, UCMA_QPT_XRC_SEND = 9, UCMA_QPT_XRC_RECV = 10 };
#define UCMA_EVENT_COMM_EST 4

/* Newer than the header of rdma-core 44. */
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

/** Copy the header of a command of at least its size. @return 0, -EFAULT */
int ucma_read_header(const void *buf, struct rdma_ucm_cmd_hdr *out);

/**
 * Execute what was written to a file.
 * @param fd the descriptor it was written to: an event is waited for on it.
 * @param block whether to wait for an event. A cancellation point then, and only then.
 * @return 0: the write took all of it; a negative errno, the kernel's
 */
int ucma_command(struct cma_file *file, int fd, bool block, const void *buf, size_t len);

#endif
