/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cma_rig.h - fixture for tests of librdmacm's commands, which the test writes to a device file as librdmacm does. The
 * engines are fakes. Each device has a real connection manager, and each message goes straight to the device that has
 * its destination address.
 */
#ifndef CMA_RIG_H
#define CMA_RIG_H

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "nic_cm.h"
#include "ucma_abi.h"

#define RIG_DEVICES 2
#define RIG_ADDRESS "127.0.83.1" /* of device 0; that of device 1 ends in .2 */
#define RIG_PORT    7471

/** Begin a test without open files. The devices are created by the first call, and outlive the test. */
void rig_start(void);
/** Close what is open, and check that nothing is left. */
void rig_stop(void);
/** Deliver messages until there are none. */
void rig_pump(void);
/** Let time pass, in steps, and deliver. */
void rig_wait_ms(unsigned ms);
/** Drop messages instead of delivering them. */
extern bool rig_deaf;
/** How many messages the connection managers have sent so far. */
extern unsigned rig_messages;
/** If not NULL, the engines have no threads, and each call that makes progress calls this function. */
extern void (*rig_progress)(void);
/** How many ports are bound; how many ids all connection managers have. */
unsigned rig_ports(void);
unsigned rig_cm_ids(void);

int rig_open(int flags);
/** Close a file before the end of the test; rig_stop closes those that are still open. */
void rig_close(int fd);
/** Write a command. @return 0 or a negative errno */
int rig_write(int fd, const void *buf, size_t len);
int rig_command(int fd, uint32_t number, const void *body, size_t in, size_t out);
#define RIG_COMMAND(fd, number, body, out) rig_command(fd, number, &(body), sizeof(body), out)

/** Fetch the next event, which must have come and be of this type. */
struct rdma_ucm_event_resp rig_event(int fd, uint32_t type);
/** @return whether the descriptor is readable */
bool rig_readable(int fd);

struct sockaddr_in rig_v4(const char *text, uint16_t port);
uint32_t rig_create(int fd, uint16_t space, uint64_t uid);
int rig_destroy(int fd, uint32_t id, uint32_t *reported);
int rig_bind(int fd, uint32_t id, const char *address, uint16_t port);
int rig_listen(int fd, uint32_t id, int backlog);
int rig_resolve(int fd, uint32_t id, const char *address, uint16_t port);
int rig_route(int fd, uint32_t id);
int rig_connect(int fd, uint32_t id, const void *data, uint8_t len);
/** As rig_connect, for another QPN: a connection manager refuses a second connection of one QP. */
int rig_connect_qp(int fd, uint32_t id, uint32_t qpn, const void *data, uint8_t len);
int rig_accept(int fd, uint32_t id, uint64_t uid, const void *data, uint8_t len);
/** The active side confirms the connection: it sends the RTU. */
int rig_establish(int fd, uint32_t id);
int rig_reject(int fd, uint32_t id, uint8_t reason, const void *data, uint8_t len);
int rig_disconnect(int fd, uint32_t id);
int rig_notify(int fd, uint32_t id, uint32_t event);
int rig_qp_attr(int fd, uint32_t id, uint32_t state, struct ib_uverbs_qp_attr *out);
int rig_option(int fd, uint32_t id, uint32_t level, uint32_t name, const void *value, uint32_t len);
int rig_query_route(int fd, uint32_t id, struct rdma_ucm_query_route_resp *out);

/** A listener on device 0, and an id with a resolved route to it. */
struct rig_pair {
	int server, client; /* descriptors */
	uint32_t listener, active, passive;
};
void rig_pair_start(struct rig_pair *p, uint16_t space);
/** Connect, accept and confirm the connection; consumes the events of both sides. */
void rig_pair_connect(struct rig_pair *p);

#endif
