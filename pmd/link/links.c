/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * links.c - links to other functions of this host: accepting and ending links, waking consumers. links_route.c finds
 * routes and makes links, links_rx.c and links_tx.c move packets, links_late.c ends links that the consumer does not
 * claim.
 *
 * Owns: rings, connections, the consumers' bells.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "eal.h"
#include "links_priv.h"
#include "services.h"
#include "settings.h"
#include "tap.h"

/* ---- producing ---------------------------------------------------------------------------------------------- */

struct link_out *links_out_detach(struct pmd_links *l, uint32_t path)
{
	struct link_out *out = l->out[path];

	l->out[path] = NULL;
	l->targets[path] = 0;
	l->n_out--;
	l->full[path / 64] &= ~(1ull << path % 64);
	links_routes_end(l, out);
	links_revoke_all(out); /* the NIC retransmits over another path: the copies in flight must become invalid */
	PMD_POINT(reference_revoked);
	pmd_tap_path_gone(l->host, path);
	nic_path_close(l->host->nic, path);
	return out;
}

void links_drop_out(struct pmd_links *l, uint32_t path)
{
	struct link_out *out;
	int cancel_state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state); /* no cancellation while the engine is locked */
	out = links_out_detach(l, path);
	pmd_control_unwatch(l->control, &out->watch);
	close(out->watch.fd);
	if (out->bell_fd >= 0)
		close(out->bell_fd);
	ring_unmap(out->ring.memory);
	free(out);
	pthread_setcancelstate(cancel_state, NULL);
}

/** Whether a write to this bell is harmless: the bell was sent by a process of our own user, is an anonymous inode such
 *  as an eventfd, and does not block. */
static bool bell_is_good(int connection, int bell)
{
	struct stat st;

	return proto_peer_is_self(connection) && fstat(bell, &st) == 0 && (st.st_mode & S_IFMT) == 0 &&
	       (fcntl(bell, F_GETFL) & O_NONBLOCK);
}

/** Whether `rc` of proto_recv means an unexpected message or an error, and not just the end of the connection. */
static bool is_nonsense(int rc)
{
	return rc != 0 && rc != -ECONNRESET;
}

void links_out_ready(struct pmd_host *host, struct pmd_watch *w, uint32_t events)
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
		links_late_answered(host->links, out);
		if (m.n_fds == 1 && bell_is_good(w->fd, m.fds[0]))
			out->bell_fd = pmd_fd_high(proto_msg_take(&m, 0));
		proto_msg_close(&m);
		return;
	}
	proto_msg_close(&m);
	host->port->stats.link_broken += is_nonsense(rc);
	PMD_POINT(link_out_ended);
	links_drop_out(host->links, out->path);
}

void links_ring_bell(struct link_out *out)
{
	const uint64_t one = 1;

	if (out->bell_fd >= 0)
		syscall(SYS_write, out->bell_fd, &one, sizeof(one)); /* not write(), a cancellation point */
	else
		proto_send(out->watch.fd, PROTO_LINK_KNOCK, NULL, 0, NULL, 0);
	PMD_POINT(bell_rung);
}

/* ---- consuming ---------------------------------------------------------------------------------------------- */

void links_drop_in(struct pmd_links *l, uint32_t index)
{
	struct link_in *in = l->in[index];
	int cancel_state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state); /* no cancellation while the engine is locked */
	if (proto_link_is_peers(&in->peer) && !links_has_other(l, in))
		nic_peer_gone(l->host->nic, in->number, &in->peer.to);
	/* Do not move other links into the free slot: links and taps identify a link by its index. */
	l->in[index] = NULL;
	while (l->n_in > 0 && !l->in[l->n_in - 1])
		l->n_in--;
	pmd_control_unwatch(l->control, &in->watch);
	close(in->watch.fd);
	ring_unmap(in->ring.memory);
	free(in);
	pthread_setcancelstate(cancel_state, NULL);
}

/** The producer knocks, or the link ends: its connection has ended, or the producer has sent an unexpected message. If
 *  the link ends, first receive the packets that are left in its ring. */
static void in_ready(struct pmd_host *host, struct pmd_watch *w, uint32_t events)
{
	struct link_in *in = (struct link_in *)w;
	PROTO_MSG(m);
	int rc = proto_recv(w->fd, &m);

	(void)events;
	if (rc == -EAGAIN || (rc == 1 && proto_msg_is(&m, PROTO_LINK_KNOCK, 0, 0)))
		return;
	PMD_POINT(link_in_ended);
	if (!links_rx_rest(host->links, in) || is_nonsense(rc))
		host->port->stats.link_broken++;
	PMD_POINT(link_rest_received);
	links_drop_in(host->links, in->index);
}

/** Tell the producer that the link is accepted. A process of our own user gets the bell, if its descriptor
 *  can be passed; otherwise the producer has to knock. */
static int answer(struct pmd_host *host, const struct link_in *in)
{
	int fd = in->watch.fd, rc;

	if (proto_peer_is_self(fd)) {
		rc = proto_send(fd, PROTO_LINK_TAKEN, NULL, 0, &host->bell_fd, 1);
		host->port->stats.link_in_flight += rc == -ETOOMANYREFS;
		if (rc == 0 || rc == -EPIPE || rc == -ECONNRESET)
			return rc;
	}
	return proto_send(fd, PROTO_LINK_TAKEN, NULL, 0, NULL, 0);
}

static void link_visit(struct pmd_host *host, int connection, struct proto_msg *m)
{
	struct pmd_links *l = host->links;
	struct link_in *in = NULL;
	uint32_t index = 0;
	int memfd, rc;

	while (index < l->n_in && l->in[index])
		index++;
	if (index >= LINKS_IN_MAX || !proto_msg_is(m, PROTO_LINK, sizeof(struct proto_link), 1) ||
	    !links_peer_allowed(l, connection) || !(in = calloc(1, sizeof(*in))))
		goto refuse;
	memcpy(&in->peer, m->data, sizeof(in->peer));
	if (in->peer.service != 0 && !pmd_services_have(host, in->peer.service))
		goto refuse; /* we no longer serve this port */
	if (!links_prove(l, connection, &in->peer)) {
		host->port->stats.link_unproved++;
		goto refuse;
	}
	if (!links_may_take(l, &in->peer))
		goto refuse;
	in->number = links_number(l, &in->peer);
	memfd = proto_msg_take(m, 0);
	if (ring_map(&in->ring, memfd) != 0) {
		close(memfd);
		goto refuse;
	}
	close(memfd);
	PMD_POINT(link_mapped);
	if (!ring_take(&in->ring)) {
		host->port->stats.link_withdrawn++;
		ring_unmap(in->ring.memory);
		goto drop;
	}
	PMD_POINT(link_claimed);
	in->index = index;
	in->watch = (struct pmd_watch){.fd = pmd_fd_high(connection), .ready = in_ready};
	links_welcome(l, in);
	rc = answer(host, in);
	/* A producer that has already exited does not get the answer, but the packets in its ring are received. */
	if ((rc != 0 && rc != -EPIPE && rc != -ECONNRESET) || pmd_control_watch(l->control, &in->watch, EPOLLIN) != 0) {
		ring_unmap(in->ring.memory);
		connection = in->watch.fd;
		goto refuse;
	}
	PMD_POINT(link_answered);
	l->in[index] = in;
	if (index == l->n_in)
		l->n_in++;
	if (proto_link_is_peers(&in->peer))
		nic_peer_came(host->nic, in->number, &in->peer.to);
	/* If the serving thread sleeps, and another thread has accepted this link, the producer has to wake the serving
	 * thread from now on, and the ring may already have packets. */
	if (l->asleep) {
		ring_set_asleep(&in->ring, true);
		__atomic_thread_fence(__ATOMIC_SEQ_CST); /* (S) in ring.h */
		if (ring_has_entry(&in->ring))
			host->ops->wake(host);
	}
	PMD_POINT(link_taken);
	return;

refuse:
	host->port->stats.link_refused++;
drop:
	free(in);
	proto_msg_close(m);
	close(connection);
}

void pmd_links_unserve(struct pmd_links *l, uint16_t port)
{
	for (uint32_t i = 0; l && i < LINKS_IN_MAX; i++) {
		if (!l->in[i] || l->in[i]->peer.service != port)
			continue;
		if (!links_rx_rest(l, l->in[i]))
			l->host->port->stats.link_broken++;
		links_drop_in(l, i);
	}
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
	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* (S) in ring.h */
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

/* ---- opening and closing ------------------------------------------------------------------------------------ */

int pmd_links_open(struct pmd_host *host, struct pmd_control *control, struct pmd_links **out, const char **wrong)
{
	bool ring, one_copy;
	struct pmd_links *l;

	*out = NULL;
	if (!pmd_setting_switch(getenv(*wrong = "UROCE_RING"), true, &ring) ||
	    !pmd_setting_switch(getenv(*wrong = "UROCE_ONE_COPY"), true, &one_copy))
		return -EINVAL;
	if (!ring)
		return 0;
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->host = host;
	l->pending = nic_paths_pending(host->nic);
	l->trim_ns = l->retry_ns = l->answer_ns = UINT64_MAX;
	l->control = control;
	l->one_copy = one_copy;
	l->pid = getpid();
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
	for (uint32_t i = 0; i < LINKS_IN_MAX; i++)
		if (l->in[i])
			links_drop_in(l, i);
	links_late_close(l);
	l->host->links = NULL; /* the NIC is destroyed later; by now it has nothing in flight on links */
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
	for (uint32_t i = 0; i < LINKS_IN_MAX; i++)
		if (l->in[i])
			close(l->in[i]->watch.fd);
	for (const struct link_out *out = l->withdrawn; out; out = out->next_withdrawn)
		close(out->watch.fd);
}
