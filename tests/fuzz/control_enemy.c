/* SPDX-License-Identifier: BSD-3-Clause */
/* control_enemy.c - see control_enemy.h. */
#include "control_enemy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "links.h"
#include "ring.h"
#include "udp_socket.h"

#define MESSAGE_MAX 4200

uint8_t enemy_byte(struct enemy *e)
{
	if (e->left == 0)
		return 0;
	e->left--;
	return *e->in++;
}

uint32_t enemy_word(struct enemy *e)
{
	uint32_t high = enemy_byte(e);

	return high << 8 | enemy_byte(e);
}

/* ---- descriptors ------------------------------------------------------------------------------------------ */

/** Make a keeper (a socket whose queue holds UDP sockets, see proto.h). The input decides how many messages are queued,
 * and how valid they are. @return the descriptor, or -1. */
static int keeper(struct enemy *e, int udp)
{
	struct proto_keeper message = {0};
	int ends[2], fds[2] = {udp, udp};

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0)
		return -1;
	for (unsigned i = 0; i < 2; i++) {
		message.entries[i].gid = e->gids[i];
		message.entries[i].index = (uint16_t)(enemy_byte(e) % 4);
		message.entries[i].entry = (uint16_t)(enemy_byte(e) % 20);
	}
	for (unsigned n = enemy_byte(e) % 4; n > 0; n--)
		proto_send(ends[0], enemy_byte(e) % 8 ? PROTO_KEEPER : PROTO_JOIN, &message, sizeof(message), fds, 2);
	close(ends[0]);
	return ends[1];
}

static int ring(bool sealed)
{
	struct ring_producer p;
	int fd;

	if (sealed) {
		fd = ring_create(&p);
		if (fd >= 0)
			ring_unmap(p.memory);
		return fd;
	}
	fd = memfd_create("not a ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd >= 0 && ftruncate(fd, RING_MAP_BYTES) != 0)
		return -1;
	return fd;
}

void enemy_toys(struct enemy *e)
{
	const struct nic_gid elsewhere = ctl_gid("127.0.0.77");
	char err[256];

	e->toys[0] = ring(true);
	e->toys[1] = ring(false);
	e->toys[2] = eventfd(0, EFD_NONBLOCK);
	e->toys[3] = eventfd(0, 0);
	e->toys[4] = epoll_create1(0);
	e->toys[5] = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	e->toys[6] = pmd_udp_socket_open(&elsewhere, 0, true, err, sizeof(err));
	e->toys[7] = pmd_udp_socket_open(&e->gids[0], 0, true, err, sizeof(err));
	e->toys[8] = keeper(e, e->toys[6]);
	e->toys[9] = keeper(e, e->toys[7]);
	for (unsigned i = 0; i < ENEMY_TOYS; i++)
		if (i > 9 || e->toys[i] < 0)
			e->toys[i] = e->toys[2];
}

static unsigned toys_choose(struct enemy *e, int *fds)
{
	unsigned n = enemy_byte(e) % 16;

	n = n < 8 ? 0 : n == 15 ? PROTO_FDS_MAX : n - 8;
	for (unsigned i = 0; i < n; i++)
		fds[i] = e->toys[enemy_byte(e) % ENEMY_TOYS];
	return n;
}

/* ---- connections ------------------------------------------------------------------------------------------ */

void enemy_keep(struct enemy *e, int fd)
{
	if (fd < 0)
		return;
	if (e->n == ENEMY_CONNECTIONS)
		enemy_ends(e, 0);
	e->fds[e->n++] = fd;
}

void enemy_ends(struct enemy *e, unsigned i)
{
	if (i >= e->n)
		return;
	close(e->fds[i]);
	e->fds[i] = e->fds[--e->n];
}

int enemy_any(struct enemy *e)
{
	unsigned i = enemy_byte(e);

	return e->n ? e->fds[i % e->n] : -1;
}

void enemy_connects(struct enemy *e)
{
	uint8_t what = enemy_byte(e);
	struct proto_name name;

	if (what % 4 == 0)
		pmd_name_function(&e->gids[0], what / 4 % 5, &name);
	else if (what % 4 == 1)
		pmd_name_service(&e->gids[0], 1000 + what / 4 % 3, &name);
	else
		pmd_name_daemon(&e->gids[what / 4 % 2], &name);
	enemy_keep(e, proto_connect(&name));
}

void enemy_listens(struct enemy *e, const struct proto_name *name)
{
	int fd = e->n_listeners < 4 ? proto_listen(name) : -1;

	if (fd >= 0)
		e->listeners[e->n_listeners++] = fd;
}

void enemy_accepts(struct enemy *e)
{
	for (unsigned i = 0; i < e->n_listeners; i++)
		enemy_keep(e, proto_accept(e->listeners[i]));
}

/* ---- messages --------------------------------------------------------------------------------------------- */

static size_t device_of(struct enemy *e, struct proto_device *d)
{
	uint8_t what = enemy_byte(e);

	d->key = e->gids[0];
	d->gids[0] = e->gids[0];
	if (what & 1)
		d->gids[what / 2 % NIC_GID_TABLE_LEN] = e->gids[1];
	if (what & 2)
		d->gids[0] = (struct nic_gid){0};
	d->sockets = what & 4 ? 1 : what & 8 ? (uint16_t)enemy_word(e) : 0;
	d->keeper = what >> 4 & 1;
	d->port_up = what >> 5 & 1;
	return sizeof(*d);
}

/** Write a well-formed message body of this type. @return its length. */
static size_t body_of(struct enemy *e, unsigned type, uint8_t *body)
{
	static const char *const texts[] = {
		"status",      "stats",	  "stay", "leave",	"make way",	     "fault set loss=1",
		"fault clear", "capture", "qps",  "fault show", "set dir=rx loss=1", "clear"};
	struct proto_welcome *welcome = (void *)body;
	struct proto_join *join = (void *)body;
	struct proto_adopted *adopted = (void *)body;
	struct proto_link *link = (void *)body;
	const char *text;
	size_t len;

	switch (type) {
	case PROTO_JOIN:
		join->gid = e->gids[enemy_byte(e) % 2];
		join->follow = enemy_byte(e) % 4;
		snprintf(join->iface, sizeof(join->iface), enemy_byte(e) % 2 ? "eth0" : "lo");
		return sizeof(*join);
	case PROTO_WELCOME:
		welcome->function = e->function;
		return offsetof(struct proto_welcome, device) + device_of(e, &welcome->device);
	case PROTO_DEVICE:
		return device_of(e, (void *)body);
	case PROTO_REFUSED:
		((struct proto_refused *)(void *)body)->error = (int)enemy_word(e);
		memset(body + sizeof(int), 'x', sizeof(struct proto_refused) - sizeof(int));
		return sizeof(struct proto_refused);
	case PROTO_WHOIS:
	case PROTO_ADOPT:
		memcpy(body, &e->gids[enemy_byte(e) % 2], sizeof(struct nic_gid));
		return sizeof(struct nic_gid);
	case PROTO_OWNER:
		memcpy(body, &e->gids[enemy_byte(e) % 2], sizeof(struct nic_gid));
		return sizeof(struct proto_owner);
	case PROTO_ADOPTED:
		adopted->function = e->function;
		adopted->keeper = enemy_byte(e) % 2;
		adopted->join.gid = e->gids[0];
		return sizeof(*adopted);
	case PROTO_TOOL:
	case PROTO_FAULT:
		text = texts[enemy_byte(e) % 12];
		len = strlen(text);
		memcpy(body, text, len);
		return len;
	case PROTO_SERVICES:
		len = enemy_byte(e) % 4 * 4u;
		for (size_t i = 0; i < len; i += 4) {
			uint8_t byte = enemy_byte(e);
			uint32_t service =
				proto_service(byte & 4 ? NIC_CM_PS_TCP : byte & 8, (uint16_t)(1000 + byte % 4));

			memcpy(body + i, &service, sizeof(service));
		}
		return len;
	case PROTO_LINK:
		link->key = e->gids[0];
		link->function = e->function;
		link->service = enemy_byte(e) % 2 ? 1000 : 0;
		link->number_at = enemy_byte(e) % 2 ? (uintptr_t)e : enemy_word(e);
		return sizeof(*link);
	default:
		return enemy_byte(e);
	}
}

void enemy_says(struct enemy *e, int fd, unsigned type)
{
	static const unsigned types[] = {PROTO_JOIN,	   PROTO_WELCOME,    PROTO_REFUSED,  PROTO_DEVICE,
					 PROTO_WHOIS,	   PROTO_OWNER,	     PROTO_ADOPT,    PROTO_ADOPTED,
					 PROTO_TOOL,	   PROTO_FAULT,	     PROTO_SERVICES, PROTO_LINK,
					 PROTO_LINK_TAKEN, PROTO_LINK_KNOCK, PROTO_END,	     PROTO_KEEPER};
	uint64_t room[MESSAGE_MAX / 8] = {0};
	uint8_t *body = (uint8_t *)room, change;
	int fds[PROTO_FDS_MAX];
	unsigned n;
	size_t len;

	if (type == 0)
		type = types[enemy_byte(e) % 16];
	len = body_of(e, type, body);
	n = toys_choose(e, fds);
	change = enemy_byte(e);
	for (unsigned i = change % 4 > 1 ? change % 4 - 1 : 0; i > 0; i--) {
		uint32_t at = enemy_word(e);

		body[at % (len + 1)] = enemy_byte(e);
	}
	if (change / 4 % 8 == 1)
		len = len > 8 ? len - 8 : 0;
	else if (change / 4 % 8 == 2)
		len += 8;
	else if (change / 4 % 8 == 3)
		len = enemy_word(e) % (MESSAGE_MAX - 8);
	proto_send(fd, type, body, len, fds, n);
}

void enemy_babbles(struct enemy *e, int fd)
{
	uint8_t bytes[64];
	struct iovec iov = {bytes, enemy_byte(e) % sizeof(bytes)};
	union {
		char bytes[CMSG_SPACE(PROTO_FDS_MAX * sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	struct proto_header header = {.magic_version = PROTO_MAGIC + (uint32_t)(enemy_byte(e) % 3) - 1,
				      .type = enemy_byte(e),
				      .len = enemy_byte(e)};
	int fds[PROTO_FDS_MAX];
	unsigned n = toys_choose(e, fds);

	memset(bytes, enemy_byte(e), sizeof(bytes));
	memcpy(bytes, &header, sizeof(header));
	if (n) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(&control.align), fds, n * sizeof(int));
	}
	syscall(SYS_sendmsg, fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

int enemy_hears(struct enemy *e, unsigned i)
{
	uint64_t room[PROTO_TEXT_MAX / 8];
	struct proto_msg m = {.data = room, .room = sizeof(room)};
	int rc;

	if (i >= e->n)
		return 0;
	rc = proto_recv(e->fds[i], &m);
	if (rc == -EAGAIN)
		return 0;
	if (rc != 1) {
		enemy_ends(e, i);
		return -1;
	}
	if (m.type == PROTO_WELCOME && m.len == sizeof(struct proto_welcome)) {
		e->function = ((const struct proto_welcome *)(const void *)room)->function;
		if (m.n_fds > 0 && e->n_listeners < 4) {
			e->listeners[e->n_listeners] = proto_msg_take(&m, 0);
			listen(e->listeners[e->n_listeners++], 64);
		}
	}
	for (unsigned k = 0; k < m.n_fds; k++)
		if (m.fds[k] >= 0 && 10 + k < ENEMY_TOYS) {
			if (e->toys[10 + k] != e->toys[2])
				close(e->toys[10 + k]);
			e->toys[10 + k] = proto_msg_take(&m, k);
		}
	proto_msg_close(&m);
	return m.type;
}

/* ---- targets ---------------------------------------------------------------------------------------------- */

void fuzz_control_expect(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "expected: %s\n", what);
	vk_print(stderr);
	abort();
}

void fuzz_control_begin(void)
{
	const struct vk_config config = {.seed = 1, .sndbuf = 32768, .nofile = 512, .fuzz = true};

	ctl_failed = false;
	vk_start(&config);
	ctl_daemons_begin();
}

void fuzz_control_wait(const struct vk_proc *p, uint64_t most_ns)
{
	uint64_t end_ns = vk_now_ns() + most_ns;

	while (!vk_is_gone(p) && vk_now_ns() < end_ns) {
		vk_run(vk_now_ns() + 10 * VK_MS, 200000);
		ctl_check();
		fuzz_expect(!ctl_failed);
	}
}
