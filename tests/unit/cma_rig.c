/* SPDX-License-Identifier: BSD-3-Clause */
/* cma_rig.c - see cma_rig.h. The functions of engine.h and engine_cm.h that connections use are defined here. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cma_rig.h"
#include "cma.h"
#include "device.h"
#include "nic.h"

#define QUEUE_MAX 4096
#define FDS_MAX	  64
#define STEP_MS	  50

struct pmd_engine {
	struct pmd_device device;
	struct nic *nic;
	struct nic_cm *cm;
	bool locked;
	pmd_cm_event_fn on_event;
	void *ctx;
};

struct pmd_cm_port {
	struct pmd_engine *engine;
	enum nic_cm_space space;
	struct nic_gid gid;
	uint16_t port;
	unsigned flags;
	bool listening, used;
};

static struct pmd_engine engines[RIG_DEVICES];
static struct pmd_cm_port ports[256];
static uint64_t now_ns;
static int fds[FDS_MAX];
static unsigned n_fds;
bool rig_deaf;
unsigned rig_messages;
void (*rig_progress)(void);

static struct message {
	struct nic_cm_route route;
	uint8_t mad[NIC_CM_MAD_LEN];
} queue[QUEUE_MAX];
static unsigned head, tail;

/* ---- engines ----------------------------------------------------------------------------------------- */

/** The devices, and an ethdev device, which another user has. It has no subnet, so by its own routes it reaches every
 * address of its family, IPv6. */
int pmd_devices(struct pmd_device *devices, unsigned max)
{
	assert_true(max > RIG_DEVICES);
	for (unsigned i = 0; i < RIG_DEVICES; i++)
		devices[i] = engines[i].device;
	devices[RIG_DEVICES] = (struct pmd_device){
		.name = "uroce9", .port = "ethdev", .node_guid = 9, .gid = {.raw = {0xfd, [15] = 1}}};
	return RIG_DEVICES + 1;
}

int cma_front_open(const struct pmd_device *device, struct pmd_engine **out)
{
	for (unsigned i = 0; i < RIG_DEVICES; i++) {
		if (strcmp(engines[i].device.name, device->name) == 0) {
			*out = &engines[i];
			return 0;
		}
	}
	return -EACCES;
}

void pmd_close(struct pmd_engine *engine)
{
	(void)engine;
}

void pmd_lock(struct pmd_engine *engine)
{
	assert_false(engine->locked);
	engine->locked = true;
}

void pmd_unlock(struct pmd_engine *engine)
{
	assert_true(engine->locked);
	engine->locked = false;
}

void pmd_doorbell(struct pmd_engine *engine)
{
	assert_true(engine->locked);
}

void pmd_expect_sleep(struct pmd_engine *engine)
{
	assert_true(engine->locked);
}

bool pmd_try_progress(struct pmd_engine *engine)
{
	assert_false(engine->locked);
	if (rig_progress)
		rig_progress();
	return false;
}

bool pmd_mcast_supported(const struct pmd_engine *engine)
{
	(void)engine;
	return true;
}

bool pmd_progress_is_inline(void)
{
	return rig_progress;
}

unsigned pmd_forks(void)
{
	return 0;
}

bool pmd_is_dead(const struct pmd_engine *e)
{
	(void)e;
	return false;
}

struct nic *pmd_engine_nic(struct pmd_engine *engine)
{
	return engine->nic;
}

int pmd_check_range(const void *addr, size_t len, bool write)
{
	(void)len;
	(void)write;
	return (uintptr_t)addr < 4096 ? -EFAULT : 0;
}

static uint64_t rig_now(void *ctx)
{
	(void)ctx;
	return now_ns;
}

static uint32_t rig_random(void *ctx)
{
	static uint32_t x = 1;

	(void)ctx;
	x = x * 1664525 + 1013904223;
	return x ^ x >> 13;
}

static void rig_send(void *ctx, const struct nic_cm_route *route, const uint8_t *mad)
{
	(void)ctx;
	rig_messages++;
	if (rig_deaf)
		return;
	assert_true(tail - head < QUEUE_MAX);
	queue[tail % QUEUE_MAX].route = *route;
	memcpy(queue[tail % QUEUE_MAX].mad, mad, NIC_CM_MAD_LEN);
	tail++;
}

static void rig_on_event(void *ctx, const struct nic_cm_event *event)
{
	struct pmd_engine *engine = ctx;

	assert_true(engine->locked);
	engine->on_event(engine->ctx, event);
}

static void cm_start(struct pmd_engine *engine, unsigned index)
{
	const struct nic_cm_config config = {.id_base = (index + 1) << 24,
					     .id_bits = 24,
					     .ca_guid = engine->device.node_guid,
					     .ctx = engine,
					     .now = rig_now,
					     .random = rig_random,
					     .send = rig_send,
					     .event = rig_on_event};

	assert_int_equal(nic_cm_create(&engine->cm, &config), 0);
}

/* Give each test the same connection manager: devices outlive a test. */
int pmd_cm_open(struct pmd_engine *engine, pmd_cm_event_fn on_event, void *ctx, struct nic_cm **out)
{
	engine->on_event = on_event;
	engine->ctx = ctx;
	*out = engine->cm;
	return 0;
}

/* ---- ports, with the rules of a kernel ------------------------------------------------------------------- */

static int port_conflict(const struct pmd_cm_port *want)
{
	static const struct nic_gid any;

	for (unsigned i = 0; i < 256; i++) {
		const struct pmd_cm_port *p = &ports[i];

		if (!p->used || p == want || p->engine != want->engine || p->space != want->space ||
		    p->port != want->port)
			continue;
		if (!p->listening && p->flags & want->flags & PMD_CM_REUSE)
			continue;
		if (!memcmp(&p->gid, &any, sizeof(any)) || !memcmp(&want->gid, &any, sizeof(any)))
			return -EADDRNOTAVAIL;
		if (!memcmp(&p->gid, &want->gid, sizeof(any)))
			return -EADDRINUSE;
	}
	return 0;
}

int pmd_cm_bind(struct pmd_engine *engine, enum nic_cm_space space, const struct nic_gid *address, int family,
		unsigned flags, uint16_t *port, struct pmd_cm_port **out)
{
	static uint16_t ephemeral = 40000;
	struct pmd_cm_port *p = ports;
	int err;

	(void)family;
	assert_false(engine->locked);
	assert_true(!(flags & PMD_CM_ACTIVE) || *port == 0);
	while (p->used)
		p++;
	*p = (struct pmd_cm_port){.engine = engine, .space = space, .gid = *address, .flags = flags, .port = *port};
	if (!p->port)
		p->port = ephemeral++;
	err = port_conflict(p);
	if (err)
		return err;
	p->used = true;
	*port = p->port;
	*out = p;
	return 0;
}

int pmd_cm_reuse(struct pmd_engine *engine, struct pmd_cm_port *port, bool on)
{
	(void)engine;
	port->flags = on ? port->flags | PMD_CM_REUSE : port->flags & ~(unsigned)PMD_CM_REUSE;
	return 0;
}

int pmd_cm_listen(struct pmd_engine *engine, struct pmd_cm_port *port)
{
	assert_false(engine->locked);
	port->listening = true;
	return 0;
}

void pmd_cm_unlisten(struct pmd_engine *engine, struct pmd_cm_port *port)
{
	assert_false(engine->locked);
	port->listening = false;
}

void pmd_cm_unbind(struct pmd_engine *engine, struct pmd_cm_port *port)
{
	assert_false(engine->locked);
	assert_true(port->used);
	port->used = false;
}

unsigned rig_ports(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < 256; i++)
		n += ports[i].used;
	return n;
}

unsigned rig_cm_ids(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < RIG_DEVICES; i++)
		n += nic_cm_ids(engines[i].cm);
	return n;
}

/* ---- messages and time ------------------------------------------------------------------------------- */

static struct pmd_engine *engine_of(const struct nic_gid *gid)
{
	for (unsigned i = 0; i < RIG_DEVICES; i++)
		if (!memcmp(&engines[i].device.gid, gid, sizeof(*gid)))
			return &engines[i];
	return NULL;
}

void rig_pump(void)
{
	while (head != tail) {
		struct message m = queue[head++ % QUEUE_MAX];
		struct pmd_engine *engine = engine_of(&m.route.peer);
		struct nic_cm_route route = m.route;

		if (!engine)
			continue;
		route.own = m.route.peer;
		route.peer = m.route.own;
		pmd_lock(engine);
		nic_cm_rx(engine->cm, &route, m.mad, sizeof(m.mad));
		pmd_unlock(engine);
	}
}

void rig_wait_ms(unsigned ms)
{
	for (unsigned t = 0; t < ms; t += STEP_MS) {
		now_ns += STEP_MS * UINT64_C(1000000);
		for (unsigned i = 0; i < RIG_DEVICES; i++) {
			pmd_lock(&engines[i]);
			nic_cm_advance(engines[i].cm);
			pmd_unlock(&engines[i]);
		}
		rig_pump();
	}
}

static void nic_random(void *ctx, void *buf, size_t len)
{
	(void)ctx;
	memset(buf, 0x5a, len);
}

static void engine_start(unsigned i)
{
	const struct nic_config config = {.active_mtu = NIC_MTU_4096, .random = nic_random};
	struct pmd_engine *e = &engines[i];

	snprintf(e->device.name, sizeof(e->device.name), "uroce%u", i);
	snprintf(e->device.port, sizeof(e->device.port), "udp");
	e->device.node_guid = 0x0200000000830100 + i;
	e->device.gid = (struct nic_gid){.raw = {[10] = 0xff, 0xff, 127, 0, 83, (uint8_t)(1 + i)}};
	assert_int_equal(nic_create(&config, &e->nic), 0);
	assert_int_equal(nic_gid_set(e->nic, 1, &e->device.gid), 0);
	cm_start(e, i);
}

void rig_start(void)
{
	if (!engines[0].cm)
		for (unsigned i = 0; i < RIG_DEVICES; i++)
			engine_start(i);
	rig_deaf = false;
	n_fds = 0;
}

void rig_stop(void)
{
	rig_deaf = false;
	for (unsigned i = 0; i < n_fds; i++)
		if (fds[i] >= 0)
			rig_close(fds[i]);
	rig_pump();
	rig_wait_ms(200000);
	assert_int_equal(rig_ports(), 0);
	assert_int_equal(rig_cm_ids(), 0);
}

/* ---- commands ---------------------------------------------------------------------------------------- */

int rig_open(int flags)
{
	int fd = rdmacm_device()->open(flags);

	assert_true(fd >= 0);
	assert_true(n_fds < FDS_MAX);
	fds[n_fds++] = fd;
	return fd;
}

void rig_close(int fd)
{
	rdmacm_device()->closing(fd);
	close(fd);
	rig_pump();
	for (unsigned i = 0; i < n_fds; i++)
		if (fds[i] == fd)
			fds[i] = -1;
}

int rig_write(int fd, const void *buf, size_t len)
{
	ssize_t result;

	errno = 0;
	assert_true(rdmacm_device()->write(fd, buf, len, &result));
	if (result < 0)
		return -errno;
	assert_int_equal(result, len);
	rig_pump();
	return 0;
}

int rig_command(int fd, uint32_t number, const void *body, size_t in, size_t out)
{
	struct {
		struct rdma_ucm_cmd_hdr hdr;
		uint8_t body[2048];
	} cmd = {.hdr = {.cmd = number, .in = (uint16_t)in, .out = (uint16_t)out}};

	assert_true(in <= sizeof(cmd.body));
	memcpy(cmd.body, body, in);
	return rig_write(fd, &cmd, sizeof(cmd.hdr) + in);
}

struct rdma_ucm_event_resp rig_event(int fd, uint32_t type)
{
	struct rdma_ucm_event_resp resp = {0};
	const struct rdma_ucm_get_event cmd = {.response = (uintptr_t)&resp};

	assert_true(rig_readable(fd));
	assert_int_equal(RIG_COMMAND(fd, RDMA_USER_CM_CMD_GET_EVENT, cmd, sizeof(resp)), 0);
	assert_int_equal(resp.event, type);
	return resp;
}

bool rig_readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

struct sockaddr_in rig_v4(const char *text, uint16_t port)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(port)};

	assert_int_equal(inet_pton(AF_INET, text, &sin.sin_addr), 1);
	return sin;
}

uint32_t rig_create(int fd, uint16_t space, uint64_t uid)
{
	struct rdma_ucm_create_id_resp resp;
	const struct rdma_ucm_create_id cmd = {
		.uid = uid, .response = (uintptr_t)&resp, .ps = space, .qp_type = UCMA_QPT_RC};

	assert_int_equal(RIG_COMMAND(fd, RDMA_USER_CM_CMD_CREATE_ID, cmd, sizeof(resp)), 0);
	return resp.id;
}

int rig_destroy(int fd, uint32_t id, uint32_t *reported)
{
	struct rdma_ucm_destroy_id_resp resp = {0};
	const struct rdma_ucm_destroy_id cmd = {.response = (uintptr_t)&resp, .id = id};
	int err = RIG_COMMAND(fd, RDMA_USER_CM_CMD_DESTROY_ID, cmd, sizeof(resp));

	if (reported)
		*reported = resp.events_reported;
	return err;
}

int rig_bind(int fd, uint32_t id, const char *address, uint16_t port)
{
	struct sockaddr_in sin = rig_v4(address, port);
	struct rdma_ucm_bind_ip cmd = {.id = id};

	memcpy(&cmd.addr, &sin, sizeof(sin));
	return RIG_COMMAND(fd, RDMA_USER_CM_CMD_BIND_IP, cmd, 0);
}

int rig_listen(int fd, uint32_t id, int backlog)
{
	const struct rdma_ucm_listen cmd = {.id = id, .backlog = (uint32_t)backlog};

	return RIG_COMMAND(fd, RDMA_USER_CM_CMD_LISTEN, cmd, 0);
}

int rig_resolve(int fd, uint32_t id, const char *address, uint16_t port)
{
	struct sockaddr_in sin = rig_v4(address, port);
	struct rdma_ucm_resolve_ip cmd = {.id = id, .timeout_ms = 1000};

	memcpy(&cmd.dst_addr, &sin, sizeof(sin));
	return RIG_COMMAND(fd, RDMA_USER_CM_CMD_RESOLVE_IP, cmd, 0);
}

int rig_route(int fd, uint32_t id)
{
	const struct rdma_ucm_resolve_route cmd = {.id = id, .timeout_ms = 1000};

	return RIG_COMMAND(fd, RDMA_USER_CM_CMD_RESOLVE_ROUTE, cmd, 0);
}

static void param_fill(struct rdma_ucm_conn_param *p, uint32_t qpn, const void *data, uint8_t len)
{
	*p = (struct rdma_ucm_conn_param){.qp_num = qpn,
					  .responder_resources = 3,
					  .initiator_depth = 5,
					  .retry_count = 6,
					  .rnr_retry_count = 7,
					  .valid = 1,
					  .private_data_len = len};
	if (len)
		memcpy(p->private_data, data, len);
}

int rig_connect_qp(int fd, uint32_t id, uint32_t qpn, const void *data, uint8_t len)
{
	struct rdma_ucm_connect cmd = {.id = id};

	param_fill(&cmd.conn_param, qpn, data, len);
	return RIG_COMMAND(fd, RDMA_USER_CM_CMD_CONNECT, cmd, 0);
}

int rig_connect(int fd, uint32_t id, const void *data, uint8_t len)
{
	return rig_connect_qp(fd, id, 0x1234, data, len);
}

int rig_accept(int fd, uint32_t id, uint64_t uid, const void *data, uint8_t len)
{
	struct rdma_ucm_accept cmd = {.id = id, .uid = uid};

	param_fill(&cmd.conn_param, 0x5678, data, len);
	cmd.conn_param.responder_resources = 2;
	cmd.conn_param.initiator_depth = 1;
	return RIG_COMMAND(fd, RDMA_USER_CM_CMD_ACCEPT, cmd, 0);
}

int rig_establish(int fd, uint32_t id)
{
	const struct rdma_ucm_accept cmd = {.id = id};

	return RIG_COMMAND(fd, RDMA_USER_CM_CMD_ACCEPT, cmd, 0);
}

int rig_reject(int fd, uint32_t id, uint8_t reason, const void *data, uint8_t len)
{
	struct rdma_ucm_reject cmd = {.id = id, .reason = reason, .private_data_len = len};

	if (len)
		memcpy(cmd.private_data, data, len);
	return RIG_COMMAND(fd, RDMA_USER_CM_CMD_REJECT, cmd, 0);
}

int rig_disconnect(int fd, uint32_t id)
{
	const struct rdma_ucm_disconnect cmd = {.id = id};

	return RIG_COMMAND(fd, RDMA_USER_CM_CMD_DISCONNECT, cmd, 0);
}

int rig_notify(int fd, uint32_t id, uint32_t event)
{
	const struct rdma_ucm_notify cmd = {.id = id, .event = event};

	return RIG_COMMAND(fd, RDMA_USER_CM_CMD_NOTIFY, cmd, 0);
}

int rig_qp_attr(int fd, uint32_t id, uint32_t state, struct ib_uverbs_qp_attr *out)
{
	const struct rdma_ucm_init_qp_attr cmd = {.response = (uintptr_t)out, .id = id, .qp_state = state};

	return RIG_COMMAND(fd, RDMA_USER_CM_CMD_INIT_QP_ATTR, cmd, sizeof(*out));
}

int rig_option(int fd, uint32_t id, uint32_t level, uint32_t name, const void *value, uint32_t len)
{
	const struct rdma_ucm_set_option cmd = {
		.optval = (uintptr_t)value, .id = id, .level = level, .optname = name, .optlen = len};

	return RIG_COMMAND(fd, RDMA_USER_CM_CMD_SET_OPTION, cmd, 0);
}

int rig_query_route(int fd, uint32_t id, struct rdma_ucm_query_route_resp *out)
{
	const struct rdma_ucm_query cmd = {.response = (uintptr_t)out, .id = id};

	return RIG_COMMAND(fd, RDMA_USER_CM_CMD_QUERY_ROUTE, cmd, sizeof(*out));
}

void rig_pair_start(struct rig_pair *p, uint16_t space)
{
	p->server = rig_open(0);
	p->client = rig_open(0);
	p->listener = rig_create(p->server, space, 100);
	assert_int_equal(rig_bind(p->server, p->listener, RIG_ADDRESS, RIG_PORT), 0);
	assert_int_equal(rig_listen(p->server, p->listener, 8), 0);
	p->active = rig_create(p->client, space, 200);
	assert_int_equal(rig_resolve(p->client, p->active, RIG_ADDRESS, RIG_PORT), 0);
	rig_event(p->client, UCMA_ADDR_RESOLVED);
	assert_int_equal(rig_route(p->client, p->active), 0);
	rig_event(p->client, UCMA_ROUTE_RESOLVED);
}

void rig_pair_connect(struct rig_pair *p)
{
	assert_int_equal(rig_connect(p->client, p->active, NULL, 0), 0);
	p->passive = rig_event(p->server, UCMA_CONNECT_REQUEST).id;
	assert_int_equal(rig_accept(p->server, p->passive, 300, NULL, 0), 0);
	rig_event(p->client, UCMA_CONNECT_RESPONSE);
	assert_int_equal(rig_establish(p->client, p->active), 0);
	rig_event(p->server, UCMA_ESTABLISHED);
}
