/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostile.c - hostile processes, which connect to daemons, functions and services and abuse the protocol: other
 * versions, garbage, unexpected descriptors, too many connections, unread answers. Also well-behaved tools.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "ctl.h"
#include "udp_socket.h"

#define CONNECTIONS 400
#define MOVES	    120

struct hostile {
	struct rng rng;
	unsigned how;
	int fds[CONNECTIONS];
	unsigned n;
	int toys[6]; /* descriptors to attach to messages */
};

/* ---- messages --------------------------------------------------------------------------------------------- */

static size_t body_of(struct hostile *h, unsigned type, uint8_t *body, size_t room)
{
	static const char *const texts[] = {"status",	"stats", "fault set loss=1", "fault clear", "make way",
					    "nonsense", "qps"};
	const struct ctl_open *open = &ctl_opens[rng_below(&h->rng, CTL_OPENS)];
	struct proto_join join = {.gid = ctl_gid(open->address)};
	const char *text;
	size_t len = 0;

	memset(body, 0, room);
	switch (type) {
	case PROTO_JOIN:
		if (rng_chance(&h->rng, 300)) {
			join.follow = PROTO_FOLLOW_ALL;
			snprintf(join.iface, sizeof(join.iface), CTL_IFACE);
		}
		memcpy(body, &join, len = sizeof(join));
		break;
	case PROTO_WHOIS:
		memcpy(body, &join.gid, len = sizeof(join.gid));
		break;
	case PROTO_TOOL:
		text = texts[rng_below(&h->rng, sizeof(texts) / sizeof(texts[0]))];
		memcpy(body, text, len = strlen(text));
		break;
	case PROTO_SERVICES:
		len = 4 * rng_below(&h->rng, 8);
		rng_bytes(&h->rng, body, len);
		for (size_t i = 0; i < len; i += 4) /* the port space: 0 (reliable datagrams) or NIC_CM_PS_TCP */
			memcpy((uint8_t *)body + i + 2, &(uint16_t){rng_chance(&h->rng, 500) ? 0 : 0x0106}, 2);
		break;
	case PROTO_LINK:
		len = sizeof(struct proto_link);
		((struct proto_link *)(void *)body)->function = 1;
		break;
	default:
		len = rng_below(&h->rng, 64);
		rng_bytes(&h->rng, body, len);
	}
	if ((h->how & CTL_GARBAGE) && rng_chance(&h->rng, 300)) {
		len = rng_below(&h->rng, room);
		rng_bytes(&h->rng, body, len < 64 ? len : 64);
	}
	return len;
}

static void says(struct hostile *h, int fd)
{
	/* Message types to send. PROTO_ADOPT is left out, because processes of the daemon's user may send it; likewise
	 * the tool commands "stay" and "leave", which the device's user may send. */
	static const unsigned types[] = {PROTO_JOIN,
					 PROTO_JOIN,
					 PROTO_WHOIS,
					 PROTO_TOOL,
					 PROTO_SERVICES,
					 PROTO_LINK,
					 PROTO_WELCOME,
					 PROTO_DEVICE,
					 PROTO_ADOPTED,
					 PROTO_FAULT,
					 PROTO_KEEPER,
					 63,
					 999};
	uint64_t room[128];
	union {
		char bytes[CMSG_SPACE(PROTO_FDS_MAX * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct proto_header header = {.magic_version = PROTO_MAGIC,
				      .type = (uint16_t)types[rng_below(&h->rng, sizeof(types) / sizeof(types[0]))]};
	size_t len = body_of(h, header.type, (uint8_t *)room, sizeof(room));
	struct iovec iov[2] = {{&header, sizeof(header)}, {room, len}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};

	header.len = (uint16_t)len;
	if (h->how & CTL_SKEW)
		header.magic_version += (uint32_t)rng_below(&h->rng, 3) - 1;
	if ((h->how & CTL_GARBAGE) && rng_chance(&h->rng, 100))
		header.len += 8;
	if ((h->how & CTL_GARBAGE) && rng_chance(&h->rng, 50))
		iov[0].iov_len = rng_below(&h->rng, 8);
	if (h->how & CTL_DESCRIPTORS && rng_chance(&h->rng, 700)) {
		unsigned n = 1 + (unsigned)rng_below(&h->rng, PROTO_FDS_MAX);
		struct cmsghdr *c = &control.align;

		memset(&control, 0, sizeof(control));
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n * sizeof(int));
		for (unsigned i = 0; i < n; i++)
			memcpy(CMSG_DATA(c) + i * sizeof(int), &h->toys[rng_below(&h->rng, 6)], sizeof(int));
	}
	syscall(SYS_sendmsg, fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* ---- actions ---------------------------------------------------------------------------------------------- */

static void connects(struct hostile *h)
{
	const struct nic_gid gid = ctl_gid(ctl_opens[rng_below(&h->rng, CTL_OPENS)].address);
	struct proto_name name;
	int fd;

	if (h->n == CONNECTIONS)
		return;
	switch (rng_below(&h->rng, 4)) {
	case 0:
		pmd_name_function(&gid, 1 + (unsigned)rng_below(&h->rng, 4), &name);
		break;
	case 1:
		pmd_name_service(&gid, 1000 + (unsigned)rng_below(&h->rng, 4), &name);
		break;
	default:
		pmd_name_daemon(&gid, &name);
	}
	fd = proto_connect(&name);
	if (fd >= 0)
		h->fds[h->n++] = fd;
}

static void ends(struct hostile *h, unsigned i)
{
	close(h->fds[i]);
	h->fds[i] = h->fds[--h->n];
}

static void reads(struct hostile *h, unsigned i)
{
	uint64_t room[PROTO_TEXT_MAX / 8];
	struct proto_msg m = {.data = room, .room = sizeof(room)};
	int rc = proto_recv(h->fds[i], &m);

	if (rc == 1)
		proto_msg_close(&m);
	else if (rc != -EAGAIN)
		ends(h, i);
}

static void moves(struct hostile *h)
{
	unsigned what = (unsigned)rng_below(&h->rng, 10), i = (unsigned)rng_below(&h->rng, h->n);

	if (h->n == 0 || what < 3)
		connects(h);
	else if (what < 7)
		says(h, h->fds[i]);
	else if (what < 9 && !(h->how & CTL_DEAF))
		reads(h, i);
	else if (what == 9)
		ends(h, i);
	if (rng_chance(&h->rng, 300))
		vk_sleep(rng_below(&h->rng, 30 * VK_MS));
}

static void hostile_main(void *arg)
{
	struct hostile *h = arg;
	struct nic_gid elsewhere = ctl_gid("127.0.0.77");
	char err[256];

	h->toys[0] = memfd_create("toy", 0);
	h->toys[1] = eventfd(0, 0);
	h->toys[2] = epoll_create1(0);
	h->toys[3] = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	h->toys[4] = pmd_udp_socket_open(&elsewhere, 0, true, err, sizeof(err));
	h->toys[5] = eventfd(0, EFD_NONBLOCK);
	for (unsigned i = 0; i < 6; i++)
		if (h->toys[i] < 0)
			h->toys[i] = h->toys[1];
	if (h->how & CTL_FLOODS) {
		for (unsigned i = 0; i < CONNECTIONS; i++) {
			unsigned before = h->n;

			connects(h);
			if (h->n > before && rng_chance(&h->rng, 500))
				says(h, h->fds[before]);
		}
	}
	for (unsigned i = 0; i < MOVES; i++)
		moves(h);
	if (rng_chance(&h->rng, 500)) /* keep the connections open for a while */
		vk_sleep(rng_below(&h->rng, 8 * VK_S));
}

/* Where a hostile process starts. It works on a copy of its state in its own memory, which is freed when the process
 * ends. */
static void hostile_first(void *arg)
{
	struct hostile *from = arg, *h = malloc(sizeof(*h));

	if (!h)
		abort();
	memcpy(h, from, sizeof(*h));
	hostile_main(h);
	free(h);
}

struct vk_proc *ctl_hostile_start(const struct vk_identity *who, unsigned how, uint64_t seed)
{
	static struct hostile all[64];
	static unsigned next;
	struct hostile *h = &all[next++ % 64];

	memset(h, 0, sizeof(*h));
	rng_init(&h->rng, seed, 1, 0);
	h->how = how;
	ctl_log("a hostile process: %#x", how);
	return vk_spawn(who, "hostile", hostile_first, h);
}

/* ---- tools ------------------------------------------------------------------------------------------------ */

struct tool {
	struct nic_gid gid;
	char command[32];
};

static void tool_main(void *arg)
{
	const struct tool t = *(const struct tool *)arg;
	uint64_t room[PROTO_TEXT_MAX / 8];
	struct proto_msg m = {.data = room, .room = sizeof(room)};
	struct proto_name name;
	int fd;

	pmd_name_daemon(&t.gid, &name);
	fd = proto_connect(&name);
	if (fd < 0)
		return;
	proto_send(fd, PROTO_TOOL, t.command, strlen(t.command), NULL, 0);
	while (proto_recv_wait(fd, &m, 3000) == 1 && m.type == PROTO_TEXT)
		;
	close(fd);
}

struct vk_proc *ctl_tool_start(const struct vk_identity *who, const struct nic_gid *gid, const char *command)
{
	static struct tool all[64];
	static unsigned next;
	struct tool *t = &all[next++ % 64];

	t->gid = *gid;
	snprintf(t->command, sizeof(t->command), "%s", command);
	return vk_spawn(who, "tool", tool_main, t);
}
