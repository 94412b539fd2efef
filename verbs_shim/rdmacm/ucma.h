/* SPDX-License-Identifier: BSD-3-Clause */
/* ucma.h - the functions that execute commands (private to ucma_*.c). Each gets a copy of its command's structure, in
 * which members that the program did not pass are zero. */
#ifndef UCMA_H
#define UCMA_H

#include "cma.h"

struct ucma_call {
	struct cma_file *file;
	int fd;
	bool block;
	int cancel;   /* cancelability during the wait for an event */
	uint16_t out; /* bytes of room for the answer */
};

/** Copy from (ucma_read) or to (ucma_reply) the program's memory. ucma_room only checks that the memory is writable.
 *  @return 0, -EFAULT */
int ucma_read(void *to, uint64_t from, size_t len);
int ucma_reply(uint64_t to, const void *from, size_t len);
int ucma_room(uint64_t to, size_t len);
/** As cma_id_enter(), for the file of the call. ucma_enter_device also fails with -EINVAL if the id has no device. */
int ucma_enter(const struct ucma_call *call, uint32_t number, struct cma_id **out);
int ucma_enter_device(const struct ucma_call *call, uint32_t number, struct cma_id **out);
/** @return the name of a command; NULL: there is no such command */
const char *ucma_command_name(uint32_t number);

typedef int ucma_run(const struct ucma_call *call, const void *cmd);

ucma_run ucma_create_id, ucma_destroy_id, ucma_migrate_id, ucma_get_event, ucma_write_cm_event, ucma_set_option;
ucma_run ucma_bind_ip, ucma_bind, ucma_resolve_ip, ucma_resolve_addr, ucma_resolve_route, ucma_resolve_ib_service;
ucma_run ucma_query_route, ucma_query;
ucma_run ucma_connect, ucma_listen, ucma_accept, ucma_reject, ucma_disconnect, ucma_notify, ucma_init_qp_attr;
ucma_run ucma_join_ip_mcast, ucma_join_mcast, ucma_leave_mcast;

#endif
