/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * links.c - links to other functions of this host: how they come about, how they end, how they wake. Packets through them
 * are in links_io.c.
 *
 * A link is made when the NIC asks for the route to a peer: then the answer is known before the first packet goes, and no
 * packet overtakes another on another way. Nothing waits for the peer's process: connecting and handing over succeed
 * although it is stopped, and the ring holds what it has not seen.
 *
 * Owns: rings, connections, the bell, the cache of routes.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "eal.h"
#include "links_priv.h"
#include "tap.h"

#define WHOIS_TIMEOUT_MS  200
#define ROUTE_NEGATIVE_NS 100000000 /* a peer that is not here is not looked for again so soon */

/* ---- producing ---------------------------------------------------------------------------------------------- */

static void routes_forget(struct pmd_links *l, uint32_t path)
{
	for (unsigned i = 0; i < ROUTES; i++)
		if (l->routes[i].path == path)
			l->routes[i] = (struct link_route){0};
}

void links_drop_out(struct pmd_links *l, uint32_t path)
{
	struct link_out *out = l->out[path];

	l->out[path] = NULL;
	l->n_out--;
	l->full[path / 64] &= ~(1ull << path % 64);
	routes_forget(l, path);
	pmd_tap_path_gone(l->e, path);
	nic_path_close(l->e->nic, path);
	pmd_control_unwatch(l->control, &out->watch);
	close(out->watch.fd);
	if (out->bell_fd >= 0)
		close(out->bell_fd);
	ring_unmap(out->ring.memory);
	free(out);
}

/** Whether a write to it can do us no harm: it is an eventfd or does nothing, and does not wait. */
static bool bell_is_good(int connection, int bell)
{
	struct stat st;

	return proto_peer_is_self(connection) && fstat(bell, &st) == 0 && (st.st_mode & S_IFMT) == 0 &&
	       (fcntl(bell, F_GETFL) & O_NONBLOCK);
}

/** The consumer has answered, or ended. */
static void out_ready(struct pmd_engine *e, struct pmd_watch *w, uint32_t events)
{
	struct link_out *out = (struct link_out *)w;
	PROTO_MSG(m);
	int rc = proto_recv(w->fd, &m);

	(void)events;
	if (rc == -EAGAIN)
		return;
	if (rc == 1 && !out->taken && m.n_fds <= 1 && proto_msg_is(&m, PROTO_LINK_TAKEN, 0, m.n_fds)) {
		PMD_POINT(link_answer_come);
		out->taken = true;
		if (m.n_fds == 1 && bell_is_good(w->fd, m.fds[0]))
			out->bell_fd = pmd_fd_high(proto_msg_take(&m, 0));
		proto_msg_close(&m);
		return;
	}
	proto_msg_close(&m);
	PMD_POINT(link_out_ended);
	links_drop_out(e->links, out->path);
}

/** The device that owns an address of this host. @return false: none of ours. */
static bool find_owner(struct pmd_links *l, const struct nic_gid *gid, struct nic_gid *key)
{
	const struct proto_whois whois = {.gid = *gid};
	struct proto_owner owner;
	struct proto_name name;
	PROTO_MSG(m);
	int fd;
	bool found;

	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++) {
		struct nic_gid own;

		if (nic_gid_get(l->e->nic, i, &own) == 0 && memcmp(&own, gid, sizeof(own)) == 0) {
			*key = l->self.key;
			return true;
		}
	}
	pmd_name_daemon(gid, &name);
	fd = proto_connect(&name);
	if (fd < 0)
		return false;
	found = proto_peer_allowed(fd, pmd_control_policy(l->control), NULL) &&
		proto_send(fd, PROTO_WHOIS, &whois, sizeof(whois), NULL, 0) == 0 &&
		proto_recv_wait(fd, &m, WHOIS_TIMEOUT_MS) == 1 && proto_msg_is(&m, PROTO_OWNER, sizeof(owner), 0);
	close(fd);
	if (!found)
		return false;
	memcpy(&owner, m.data, sizeof(owner));
	*key = owner.key;
	return memcmp(key, &(struct nic_gid){0}, sizeof(*key)) != 0;
}

/** Connect to a function and hand a ring over. @return the connection or a negative errno. */
static int hand_over(struct pmd_links *l, const struct nic_gid *key, unsigned function, struct ring_producer *ring)
{
	struct proto_name name;
	int connection, memfd, rc;

	pmd_name_function(key, function, &name);
	connection = proto_connect(&name);
	if (connection < 0)
		return connection;
	if (!proto_peer_allowed(connection, pmd_control_policy(l->control), NULL)) {
		rc = -EACCES;
		goto no_ring;
	}
	PMD_POINT(link_connected);
	memfd = ring_create(ring);
	if (memfd < 0) {
		rc = memfd;
		goto no_ring;
	}
	PMD_POINT(link_ring_made);
	rc = proto_send(connection, PROTO_LINK, &l->self, sizeof(l->self), &memfd, 1);
	PMD_POINT(link_handed_over);
	close(memfd);
	if (rc == 0)
		return pmd_fd_high(connection);
	ring_unmap(ring->memory);
no_ring:
	close(connection);
	return rc;
}

/** @return the path, 0: no link can be made. Full of cancellation points. */
static uint32_t link_make(struct pmd_links *l, const struct nic_gid *dgid, unsigned function)
{
	struct link_out *out;
	struct nic_gid key;
	int path;

	if (function == 0 || l->n_out >= LINKS_MAX || !find_owner(l, dgid, &key))
		return 0;
	out = calloc(1, sizeof(*out));
	if (!out)
		return 0;
	out->bell_fd = -1;
	out->watch = (struct pmd_watch){.fd = hand_over(l, &key, function, &out->ring), .ready = out_ready};
	if (out->watch.fd < 0)
		goto no_connection;
	if (pmd_control_watch(l->control, &out->watch, EPOLLIN) != 0)
		goto no_watch;
	path = nic_path_open(l->e->nic, NIC_PATH_NO_ICRC | NIC_PATH_LOSSLESS);
	if (path < 0)
		goto no_path;
	out->path = (uint32_t)path;
	out->dgid = *dgid;
	out->function = function;
	l->out[path] = out;
	l->n_out++;
	PMD_POINT(link_out_open);
	return out->path;

no_path:
	pmd_control_unwatch(l->control, &out->watch);
no_watch:
	ring_unmap(out->ring.memory);
	close(out->watch.fd);
no_connection:
	free(out);
	return 0;
}

/** The slot of the cache may have been another's since: the link is still there. */
static uint32_t link_find(const struct pmd_links *l, const struct nic_gid *dgid, unsigned function)
{
	for (uint32_t path = 1; path < NIC_PATHS_MAX; path++) {
		const struct link_out *out = l->out[path];

		if (out && out->function == function && memcmp(&out->dgid, dgid, sizeof(*dgid)) == 0)
			return path;
	}
	return 0;
}

uint32_t pmd_links_route(struct pmd_links *l, const struct nic_gid *dgid, uint32_t dest_qpn)
{
	unsigned function = dest_qpn >> 16;
	uint32_t hash = function * 31u + dgid->raw[15] + dgid->raw[14] * 7u + dgid->raw[13] * 17u + dgid->raw[7] * 3u;
	struct link_route *route;
	uint64_t now_ns;
	int cancel_state;

	if (!l)
		return 0;
	route = &l->routes[hash % ROUTES];
	if (route->function == function && memcmp(&route->dgid, dgid, sizeof(*dgid)) == 0 && route->path)
		return route->path;
	now_ns = pmd_now_ns();
	if (route->function == function && memcmp(&route->dgid, dgid, sizeof(*dgid)) == 0 && now_ns < route->until_ns)
		return 0;
	*route = (struct link_route){.dgid = *dgid, .function = function, .until_ns = now_ns + ROUTE_NEGATIVE_NS};
	route->path = link_find(l, dgid, function);
	if (route->path)
		return route->path;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	route->path = link_make(l, dgid, function);
	pthread_setcancelstate(cancel_state, NULL);
	return route->path;
}

void links_ring_bell(struct link_out *out)
{
	const uint64_t one = 1;

	if (out->bell_fd >= 0)
		syscall(SYS_write, out->bell_fd, &one, sizeof(one)); /* not write(): a cancellation point */
	else
		proto_send(out->watch.fd, PROTO_LINK_KNOCK, NULL, 0, NULL, 0);
	PMD_POINT(bell_rung);
}

/* ---- consuming ---------------------------------------------------------------------------------------------- */

void links_drop_in(struct pmd_links *l, uint32_t index)
{
	struct link_in *in = l->in[index];

	/* Numbers of others must not change: events that wait name them. */
	l->in[index] = NULL;
	while (l->n_in > 0 && !l->in[l->n_in - 1])
		l->n_in--;
	pmd_control_unwatch(l->control, &in->watch);
	close(in->watch.fd);
	ring_unmap(in->ring.memory);
	free(in);
}

/** The producer knocks, or has ended: what it has left in the ring still counts. */
static void in_ready(struct pmd_engine *e, struct pmd_watch *w, uint32_t events)
{
	struct link_in *in = (struct link_in *)w;
	PROTO_MSG(m);
	int rc = proto_recv(w->fd, &m);

	(void)events;
	if (rc == -EAGAIN || (rc == 1 && proto_msg_is(&m, PROTO_LINK_KNOCK, 0, 0)))
		return;
	PMD_POINT(link_in_ended);
	links_rx_rest(e->links, in);
	PMD_POINT(link_rest_received);
	links_drop_in(e->links, in->index);
}

static void link_visit(struct pmd_engine *e, int connection, struct proto_msg *m)
{
	struct pmd_links *l = e->links;
	struct link_in *in = NULL;
	uint32_t index = 0;
	int memfd;

	while (index < l->n_in && l->in[index])
		index++;
	if (index >= LINKS_MAX || !proto_msg_is(m, PROTO_LINK, sizeof(struct proto_link), 1) ||
	    !(in = calloc(1, sizeof(*in))))
		goto refuse;
	memcpy(&in->peer, m->data, sizeof(in->peer));
	memfd = proto_msg_take(m, 0);
	if (ring_map(&in->ring, memfd) != 0) {
		close(memfd);
		goto refuse;
	}
	close(memfd);
	PMD_POINT(link_mapped);
	in->index = index;
	in->watch = (struct pmd_watch){.fd = pmd_fd_high(connection), .ready = in_ready};
	if (proto_send(in->watch.fd, PROTO_LINK_TAKEN, NULL, 0, &e->bell_fd, proto_peer_is_self(in->watch.fd)) != 0 ||
	    pmd_control_watch(l->control, &in->watch, EPOLLIN) != 0) {
		ring_unmap(in->ring.memory);
		connection = in->watch.fd;
		goto refuse;
	}
	PMD_POINT(link_answered);
	l->in[index] = in;
	if (index == l->n_in)
		l->n_in++;
	/* An application thread polls while the engine's thread sleeps: for this ring too, and it may hold something. */
	if (l->asleep) {
		ring_set_asleep(&in->ring, true);
		__atomic_thread_fence(__ATOMIC_SEQ_CST); /* (S) of ring.h */
		if (ring_has_entry(&in->ring))
			pmd_engine_call(e);
	}
	PMD_POINT(link_taken);
	return;

refuse:
	free(in);
	proto_msg_close(m);
	close(connection);
}

/* ---- sleep -------------------------------------------------------------------------------------------------- */

bool pmd_links_sleep(struct pmd_links *l)
{
	bool entry = false;

	if (!l)
		return true;
	l->asleep = true;
	for (uint32_t i = 0; i < l->n_in; i++)
		if (l->in[i])
			ring_set_asleep(&l->in[i]->ring, true);
	PMD_POINT(links_asleep);
	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* (S) of ring.h */
	for (uint32_t i = 0; i < l->n_in; i++)
		entry |= l->in[i] && ring_has_entry(&l->in[i]->ring);
	if (entry)
		pmd_links_awake(l);
	else
		PMD_POINT(links_quiet);
	return !entry;
}

void pmd_links_awake(struct pmd_links *l)
{
	if (!l || !l->asleep)
		return;
	PMD_POINT(links_woken);
	l->asleep = false;
	for (uint32_t i = 0; i < l->n_in; i++)
		if (l->in[i])
			ring_set_asleep(&l->in[i]->ring, false);
}

/* ---- life --------------------------------------------------------------------------------------------------- */

int pmd_links_open(struct pmd_engine *e, struct pmd_control *control, struct pmd_links **out)
{
	const char *ring = getenv("UROCE_RING");
	struct pmd_links *l;

	*out = NULL;
	if (ring && strcmp(ring, "off") == 0)
		return 0;
	if (ring && ring[0] && strcmp(ring, "on") != 0)
		return -EINVAL;
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->e = e;
	l->trim_ns = l->retry_ns = UINT64_MAX;
	l->control = control;
	l->self = (struct proto_link){.key = *pmd_control_key(control), .function = pmd_control_function(control)};
	pmd_control_serve(control, PROTO_LINK, link_visit);
	*out = l;
	return 0;
}

void pmd_links_close(struct pmd_links *l)
{
	if (!l)
		return;
	for (uint32_t i = 0; i < NIC_PATHS_MAX; i++)
		if (l->out[i])
			links_drop_out(l, i);
	for (uint32_t i = 0; i < LINKS_MAX; i++)
		if (l->in[i])
			links_drop_in(l, i);
	free(l);
}

void pmd_links_abandon(struct pmd_links *l)
{
	if (!l)
		return;
	for (uint32_t i = 0; i < NIC_PATHS_MAX; i++) {
		if (l->out[i]) {
			close(l->out[i]->watch.fd);
			if (l->out[i]->bell_fd >= 0)
				close(l->out[i]->bell_fd);
		}
	}
	for (uint32_t i = 0; i < LINKS_MAX; i++)
		if (l->in[i])
			close(l->in[i]->watch.fd);
}
