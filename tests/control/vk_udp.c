/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vk_udp.c - UDP sockets of the virtual kernel, in groups that share the port of an address; and interfaces with their
 * addresses.
 *
 * A group keeps its sockets in an array, in the order of binding. When a socket is closed, the last socket of the array
 * takes its place. The group's program, classic BPF over the UDP payload, returns the index of the socket that gets a
 * datagram. If the index is out of range, Linux chooses a socket by a hash; here the first socket gets the datagram.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "address.h"
#include "vk_priv.h"

#define PAYLOAD 12 /* length of a datagram: only a BTH */
#define REQUEST 60 /* length of a connection manager's REQ, cut off after its service ID */

/* ---- interfaces ------------------------------------------------------------------------------------------- */

static struct vk_iface *iface_find(unsigned netns, const char *name)
{
	for (unsigned i = 0; i < VK_IFACES; i++)
		if (vk.ifaces[i].name[0] && vk.ifaces[i].netns == netns && strcmp(vk.ifaces[i].name, name) == 0)
			return &vk.ifaces[i];
	return NULL;
}

static void news(unsigned netns)
{
	for (struct vk_file *f = vk.files; f; f = f->next)
		if (f->kind == VK_NETLINK && f->u.netlink.netns == netns) {
			f->u.netlink.news = true;
			vk_notify(f);
		}
}

void vk_iface_set(unsigned netns, const char *name, unsigned index, bool up)
{
	struct vk_iface *i = iface_find(netns, name);

	for (unsigned k = 0; !i && k < VK_IFACES; k++)
		if (!vk.ifaces[k].name[0]) {
			i = &vk.ifaces[k];
			memset(i, 0, sizeof(*i));
		}
	if (!i)
		vk_bug("too many interfaces");
	i->netns = netns;
	i->index = index;
	i->up = up;
	snprintf(i->name, sizeof(i->name), "%s", name);
	news(netns);
}

void vk_iface_remove(unsigned netns, const char *name)
{
	struct vk_iface *i = iface_find(netns, name);

	if (i)
		i->name[0] = '\0';
	news(netns);
}

void vk_address_remove(unsigned netns, const char *iface, const struct nic_gid *gid)
{
	struct vk_iface *i = iface_find(netns, iface);

	for (unsigned k = 0; i && k < i->n; k++)
		if (pmd_gid_equal(&i->gids[k], gid)) {
			memmove(i->gids + k, i->gids + k + 1, (i->n - k - 1) * sizeof(*gid));
			i->n--;
			k--;
		}
	news(netns);
}

void vk_address_add(unsigned netns, const char *iface, const struct nic_gid *gid)
{
	struct vk_iface *i;

	vk_address_remove(netns, iface, gid);
	i = iface_find(netns, iface);
	if (i && i->n < VK_ADDRESSES)
		i->gids[i->n++] = *gid;
	news(netns);
}

void vk_addresses_silent(bool silent)
{
	vk.addresses_silent = silent;
}

/** Whether a socket can be bound to an address. @return 0, or a negative errno as Linux's for a link-local address
 *  without an interface (`scope` 0), or of an interface that has gone. */
static int local_check(unsigned netns, const struct nic_gid *gid, uint32_t scope)
{
	bool link_local = pmd_gid_is_link_local(gid), there = false;

	if (link_local && scope == 0)
		return -EINVAL;
	if (pmd_gid_is_v4(gid) && gid->raw[12] == 127)
		return 0;
	for (unsigned i = 0; i < VK_IFACES; i++) {
		const struct vk_iface *iface = &vk.ifaces[i];

		if (!iface->name[0] || iface->netns != netns || (link_local && iface->index != scope))
			continue;
		there = true;
		for (unsigned k = 0; k < iface->n; k++)
			if (pmd_gid_equal(&iface->gids[k], gid))
				return 0;
	}
	return link_local && !there ? -ENODEV : -EADDRNOTAVAIL;
}

/** @return the index of the interface that has the link-local address; 0: none, or another kind of address. */
static uint32_t scope_of(unsigned netns, const struct nic_gid *gid)
{
	for (unsigned i = 0; i < VK_IFACES && pmd_gid_is_link_local(gid); i++)
		if (vk.ifaces[i].name[0] && local_check(netns, gid, vk.ifaces[i].index) == 0)
			return vk.ifaces[i].index;
	return 0;
}

/* ---- groups ----------------------------------------------------------------------------------------------- */

static struct vk_group *group_find(unsigned netns, const struct nic_gid *gid, uint32_t scope)
{
	for (struct vk_group *g = vk.groups; g; g = g->next)
		if (g->netns == netns && g->scope == scope && pmd_gid_equal(&g->gid, gid))
			return g;
	return NULL;
}

static void group_free(struct vk_group *g)
{
	struct vk_group **at = &vk.groups;

	while (*at != g)
		at = &(*at)->next;
	*at = g->next;
	__real_free(g->code);
	__real_free(g);
}

static bool gid_of(const struct sockaddr *sa, socklen_t len, struct nic_gid *gid)
{
	return len >= sizeof(struct sockaddr_in) && pmd_gid_from_sockaddr(sa, gid);
}

int vk_udp_bind(struct vk_file *f, const struct sockaddr *sa, socklen_t len)
{
	struct vk_udp *u = &f->u.udp;
	struct vk_group *g;
	struct nic_gid gid;
	uint32_t scope = 0;
	int rc;

	if (u->bound || !gid_of(sa, len, &gid) || pmd_gid_is_v4(&gid) != u->v4)
		return -EINVAL;
	if (pmd_gid_is_link_local(&gid))
		scope = ((const struct sockaddr_in6 *)(const void *)sa)->sin6_scope_id;
	rc = local_check(u->netns, &gid, scope);
	if (rc != 0)
		return rc;
	g = group_find(u->netns, &gid, scope);
	if (g && (!u->shared || !g->socks[0]->u.udp.shared || g->socks[0]->u.udp.uid != u->uid))
		return -EADDRINUSE;
	if (!g) {
		g = vk_zalloc(sizeof(*g));
		g->netns = u->netns;
		g->gid = gid;
		g->scope = scope;
		g->next = vk.groups;
		vk.groups = g;
	}
	if (g->n == VK_GROUP_MAX)
		return -ENOMEM;
	g->socks[g->n++] = f;
	u->group = g;
	u->gid = gid;
	u->bound = true;
	memset(&u->self, 0, sizeof(u->self));
	memcpy(&u->self, sa, len < sizeof(u->self) ? len : sizeof(u->self));
	u->self_len = len;
	return 0;
}

void vk_udp_release(struct vk_file *f)
{
	struct vk_group *g = f->u.udp.group;
	unsigned i = 0;

	if (!g)
		return;
	while (g->socks[i] != f)
		i++;
	g->socks[i] = g->socks[--g->n];
	if (g->n == 0)
		group_free(g);
}

void vk_udp_stop(void)
{
	while (vk.groups)
		group_free(vk.groups);
}

int vk_udp_attach(struct vk_file *f, const void *value, socklen_t len)
{
	struct vk_group *g = f->u.udp.group;
	struct sock_fprog program;

	if (len != sizeof(program))
		return -EINVAL;
	memcpy(&program, value, sizeof(program));
	if (!g || program.len == 0 || program.len > BPF_MAXINSNS)
		return -EINVAL;
	if (program.len > vk.config.program_room)
		return -ENOMEM;
	__real_free(g->code);
	g->n_code = program.len;
	g->code = vk_zalloc(program.len * sizeof(*g->code));
	memcpy(g->code, program.filter, program.len * sizeof(*g->code));
	return 0;
}

/** Run the program on a payload. An unknown instruction is a bug of the program or of this interpreter. */
static uint32_t program_run(const struct vk_group *g, const uint8_t *payload, uint32_t len)
{
	uint32_t a = 0;

	for (unsigned at = 0; at < g->n_code; at++) {
		const struct sock_filter *i = &g->code[at];

		switch (i->code) {
		case BPF_LD | BPF_B | BPF_ABS:
			if (i->k + 1 > len)
				return 0;
			a = payload[i->k];
			break;
		case BPF_LD | BPF_H | BPF_ABS:
			if (i->k + 2 > len)
				return 0;
			a = (uint32_t)payload[i->k] << 8 | payload[i->k + 1];
			break;
		case BPF_LD | BPF_W | BPF_ABS:
			if (i->k + 4 > len)
				return 0;
			a = (uint32_t)payload[i->k] << 24 | (uint32_t)payload[i->k + 1] << 16 |
			    (uint32_t)payload[i->k + 2] << 8 | payload[i->k + 3];
			break;
		case BPF_JMP | BPF_JA:
			at += i->k;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			at += a == i->k ? i->jt : i->jf;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			at += a >= i->k ? i->jt : i->jf;
			break;
		case BPF_RET | BPF_K:
			return i->k;
		case BPF_RET | BPF_A:
			return a;
		default:
			vk_bug("an instruction that it does not know");
		}
	}
	vk_bug("a program without an end");
}

static struct vk_file *choose(unsigned netns, const struct nic_gid *gid, const uint8_t *payload, uint32_t len)
{
	struct vk_group *g = group_find(netns, gid, scope_of(netns, gid));
	uint32_t index;

	if (!g)
		return NULL;
	index = g->n_code ? program_run(g, payload, len) : 0;
	return g->socks[index < g->n ? index : 0];
}

struct vk_file *vk_udp_choose(unsigned netns, const struct nic_gid *gid, uint32_t qpn)
{
	const uint8_t payload[PAYLOAD] = {[5] = (uint8_t)(qpn >> 16), [6] = (uint8_t)(qpn >> 8), [7] = (uint8_t)qpn};

	return choose(netns, gid, payload, sizeof(payload));
}

struct vk_file *vk_udp_choose_request(unsigned netns, const struct nic_gid *gid, uint32_t service)
{
	uint8_t payload[REQUEST] = {[7] = 1, [37] = 0x10};

	for (unsigned i = 0; i < 4; i++)
		payload[56 + i] = (uint8_t)(service >> (24 - 8 * i));
	return choose(netns, gid, payload, sizeof(payload));
}

unsigned vk_udp_group(unsigned netns, const struct nic_gid *gid)
{
	const struct vk_group *g = group_find(netns, gid, scope_of(netns, gid));

	return g ? g->n : 0;
}

void vk_udp_list(FILE *to, unsigned netns, bool v4)
{
	unsigned line = 0;

	fputs("   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n",
	      to);
	for (const struct vk_group *g = vk.groups; g; g = g->next) {
		if (g->netns != netns || pmd_gid_is_v4(&g->gid) != v4)
			continue;
		for (unsigned i = 0; i < g->n; i++) {
			fprintf(to, "%5u: ", line++);
			for (unsigned at = v4 ? 12 : 0; at < 16; at += 4) {
				uint32_t word;

				memcpy(&word, g->gid.raw + at, sizeof(word));
				fprintf(to, "%08X", word);
			}
			fprintf(to, ":%04X 00000000:0000 07 00000000:00000000 00:00000000 00000000 %u 0 %llu\n",
				NIC_UDP_PORT, g->socks[i]->u.udp.uid, (unsigned long long)g->socks[i]->id);
		}
	}
}

void vk_udp_send(unsigned netns, const struct nic_gid *gid, uint32_t qpn)
{
	bool local = local_check(netns, gid, scope_of(netns, gid)) == 0;
	struct vk_file *f = local ? vk_udp_choose(netns, gid, qpn) : NULL;
	struct vk_udp *u;

	if (!f)
		return;
	u = &f->u.udp;
	if (u->count == VK_DATAGRAMS) {
		u->dropped++;
		return;
	}
	u->queue[(u->first + u->count++) % VK_DATAGRAMS] = (struct vk_datagram){*gid, qpn, vk.now_ns};
	vk_notify(f);
}

bool vk_udp_take(int fd, struct vk_datagram *out)
{
	struct vk_file *f;

	vk_enter();
	f = vk_fd(fd);
	if (!f || f->kind != VK_UDP || f->u.udp.count == 0)
		return false;
	*out = f->u.udp.queue[f->u.udp.first];
	f->u.udp.first = (f->u.udp.first + 1) % VK_DATAGRAMS;
	f->u.udp.count--;
	return true;
}
