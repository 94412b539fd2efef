/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * links_route.c - finds out which peers are functions or services of this host, and makes links to them.
 *
 * A link is made when the NIC asks for the route to a peer: then the path is known before the first packet is sent, and
 * no packet overtakes another on a different path. We do not wait for the peer's process: connecting to it and sending
 * the ring succeed even if it is stopped, and packets stay in the ring until it runs. If the peer does not claim the
 * ring, links_late.c gives it up. The only thing we wait for, with the engine locked, is another device's daemon: we
 * ask it whether its device owns an address. The answer takes until the daemon gets a CPU. If the daemon does not
 * answer, we have lost 200 ms, and count this. We do not ask about that address again for 10 s; during that time
 * packets to it go through the port.
 *
 * A service has a link of its own, even if there is a link to the function that serves it: this side does not know
 * which function that is, and another function may serve it later. The function ends the link when it stops serving; an
 * unused link ends soon.
 *
 * Owns: the caches of routes and of address owners.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "eal.h"
#include "links_priv.h"
#include "points.h"

#define WHOIS_TIMEOUT_MS 200
/* When to look again for a peer that was not found: soon, because the peer may be starting. */
#define NEGATIVE_NS	 100000000u
#define REFUSED_NS	 1000000000u  /* delay after a refused link, since packets in its ring were lost */
#define OWNER_NS	 1000000000u  /* how long a known owner is cached: the owner of an address may change */
#define OWNER_LATE_NS	 10000000000u /* pause before we ask again about an address whose daemon did not answer */

/* ---- owners of addresses ------------------------------------------------------------------------------------ */

static bool is_own(const struct pmd_links *l, const struct nic_gid *gid)
{
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++) {
		struct nic_gid own;

		if (nic_gid_get(l->host->nic, i, &own) == 0 && pmd_gid_equal(&own, gid))
			return true;
	}
	return false;
}

/** Ask the daemon listening under the address's name which device owns the address. The answer is stored in o->key.
 *  @return how long the answer is valid, ns. */
static uint64_t owner_ask(struct pmd_links *l, struct link_owner *o)
{
	const struct proto_whois whois = {.gid = o->gid};
	struct proto_owner owner;
	struct proto_name name;
	PROTO_MSG(m);
	int fd, rc;

	pmd_name_daemon(&o->gid, &name);
	fd = proto_connect(&name);
	if (fd < 0)
		return NEGATIVE_NS;
	rc = proto_peer_allowed(fd, pmd_control_policy(l->control), NULL) ? 0 : -EACCES;
	if (rc == 0)
		rc = proto_send(fd, PROTO_WHOIS, &whois, sizeof(whois), NULL, 0);
	if (rc == 0)
		rc = proto_recv_wait(fd, &m, WHOIS_TIMEOUT_MS);
	close(fd);
	if (rc == -ETIMEDOUT) {
		l->host->port->stats.link_whois_late++;
		return OWNER_LATE_NS;
	}
	if (rc != 1 || !proto_msg_is(&m, PROTO_OWNER, sizeof(owner), 0))
		return NEGATIVE_NS;
	memcpy(&owner, m.data, sizeof(owner));
	o->key = owner.key;
	return pmd_gid_is_none(&o->key) ? NEGATIVE_NS : OWNER_NS;
}

/** Find the device of this host that owns an address, in the cache or by asking a daemon. @return false: no device owns
 *  it. */
static bool owner_find(struct pmd_links *l, const struct nic_gid *gid, struct nic_gid *key)
{
	struct link_owner *o = &l->owners[0];

	if (is_own(l, gid)) {
		*key = l->self.key;
		return true;
	}
	for (unsigned i = 0; i < OWNERS; i++) {
		if (pmd_gid_equal(&l->owners[i].gid, gid)) {
			o = &l->owners[i];
			break;
		}
		if (l->owners[i].until_ns < o->until_ns)
			o = &l->owners[i];
	}
	if (!pmd_gid_equal(&o->gid, gid) || pmd_now_ns() >= o->until_ns) {
		*o = (struct link_owner){.gid = *gid};
		o->until_ns = owner_ask(l, o);
		o->until_ns += pmd_now_ns();
	}
	*key = o->key;
	return !pmd_gid_is_none(key);
}

bool links_key_of(struct pmd_links *l, const struct nic_gid *gid, struct nic_gid *key)
{
	for (uint32_t path = 1; path < NIC_PATHS_MAX && !is_own(l, gid); path++) {
		if (!l->out[path] || !pmd_gid_equal(&l->out[path]->dgid, gid))
			continue;
		*key = l->out[path]->key;
		return true;
	}
	return owner_find(l, gid, key);
}

/** No link to the address could be made: remove its owner from the cache, because the owner may have changed. */
static void owner_forget(struct pmd_links *l, const struct nic_gid *gid)
{
	for (unsigned i = 0; i < OWNERS; i++)
		if (pmd_gid_equal(&l->owners[i].gid, gid))
			l->owners[i].until_ns = 0;
}

/* ---- making ------------------------------------------------------------------------------------------------- */

/** Connect to a function, by its own name or that of its service, and send it a ring. @return the connection or a
 *  negative errno. */
static int hand_over(struct pmd_links *l, const struct link_out *out, struct ring_producer *ring)
{
	const struct nic_gid *key = &out->key;
	uint32_t target = out->target;
	struct proto_link self = l->self;
	struct proto_name name;
	int connection, memfd, rc;

	self.to = out->dgid;
	self.strays = out->for_strays;
	if (link_is_to_service(target)) {
		self.service = target - NIC_SERVICE_QPN;
		pmd_name_service(key, self.service, &name);
	} else {
		pmd_name_function(key, target, &name);
	}
	connection = proto_connect(&name);
	if (connection == -EMFILE || connection == -ENFILE)
		l->host->port->stats.link_no_memory++;
	if (connection < 0)
		return connection;
	if (!links_peer_allowed(l, connection)) {
		rc = -EACCES;
		goto no_ring;
	}
	PMD_POINT(link_connected);
	memfd = ring_create(ring);
	if (memfd < 0) {
		l->host->port->stats.link_no_memory++;
		rc = memfd;
		goto no_ring;
	}
	PMD_POINT(link_ring_made);
	rc = l->one_copy ? links_introduce(connection, ring, &self) : 0;
	if (rc == 0)
		rc = proto_send(connection, PROTO_LINK, &self, sizeof(self), &memfd, 1);
	PMD_POINT(link_handed_over);
	close(memfd);
	if (rc == 0)
		return pmd_fd_high(connection);
	ring_unmap(ring->memory);
no_ring:
	close(connection);
	return rc;
}

/** Whether the target is valid, and the limits permit one more link to it. */
static bool link_may_be(const struct pmd_links *l, uint32_t target)
{
	unsigned services = 0;

	if (l->n_out + l->n_withdrawn >= LINKS_MAX)
		return false;
	if (!link_is_to_service(target))
		return target >= 1 && target <= PROTO_FUNCTION_MAX;
	for (uint32_t path = 1; path < NIC_PATHS_MAX; path++)
		services += l->out[path] && link_is_to_service(l->out[path]->target);
	return services < LINKS_SERVICE_MAX && target > NIC_SERVICE_QPN &&
	       target <= NIC_SERVICE_QPN + NIC_SERVICE_PORT_MAX;
}

/** Make a link to a target of the device with this key. Has many cancellation points. @return the path, or a negative
 *  errno. */
static int link_make(struct pmd_links *l, const struct nic_gid *dgid, const struct nic_gid *key, uint32_t target,
		     bool for_strays)
{
	struct link_out *out;
	uint64_t now_ns;
	int path, rc;

	if (links_late_waits(l, key, target))
		return -EAGAIN;
	out = calloc(1, sizeof(*out));
	if (!out)
		return -ENOMEM;
	out->bell_fd = -1;
	out->dgid = *dgid;
	out->key = *key;
	out->target = target;
	out->for_strays = for_strays;
	out->watch = (struct pmd_watch){.fd = hand_over(l, out, &out->ring), .ready = links_out_ready};
	rc = out->watch.fd;
	l->host->port->stats.link_in_flight += rc == -ETOOMANYREFS;
	if (rc < 0)
		goto no_connection;
	rc = pmd_control_watch(l->control, &out->watch, EPOLLIN);
	if (rc != 0)
		goto no_watch;
	rc = path = nic_path_open(l->host->nic, NIC_PATH_NO_ICRC | NIC_PATH_LOSSLESS | NIC_PATH_REFERENCES);
	if (path < 0)
		goto no_path;
	out->path = (uint32_t)path;
	out->seen_tail = UINT64_MAX;
	out->refers = proto_peer_is_self(out->watch.fd);
	l->out[path] = out;
	l->targets[path] = target;
	l->n_out++;
	now_ns = pmd_now_ns();
	if (l->trim_ns == UINT64_MAX)
		l->trim_ns = now_ns + LINKS_TRIM_NS;
	links_late_begin(l, out, now_ns);
	PMD_POINT(link_out_open);
	/* From now on the peer accepts our packets to its QPs only over this link. */
	if (!link_is_to_service(target) && !for_strays)
		nic_path_take(l->host->nic, out->path, dgid, target << 16, 0xff0000);
	return path;

no_path:
	pmd_control_unwatch(l->control, &out->watch);
no_watch:
	ring_unmap(out->ring.memory);
	close(out->watch.fd);
no_connection:
	free(out);
	return rc;
}

int pmd_links_make(struct pmd_links *l, const struct nic_gid *dgid, uint32_t target)
{
	if (!l || !link_may_be(l, target) || !is_own(l, dgid))
		return -EADDRNOTAVAIL;
	return link_make(l, dgid, &l->self.key, target, true);
}

/* ---- routes ------------------------------------------------------------------------------------------------- */

void links_routes_end(struct pmd_links *l, const struct link_out *out)
{
	for (unsigned i = 0; i < ROUTES; i++) {
		struct link_route *route = &l->routes[i];

		if (route->path != out->path)
			continue;
		route->path = 0;
		route->until_ns = out->taken ? 0 : pmd_now_ns() + REFUSED_NS;
	}
}

uint32_t pmd_links_target(uint32_t qpn)
{
	return qpn >= NIC_SERVICE_QPN ? qpn : qpn >> 16;
}

uint32_t pmd_links_find(const struct pmd_links *l, const struct nic_gid *dgid, uint32_t target)
{
	for (uint32_t path = 1; l && path < NIC_PATHS_MAX; path++)
		if (l->targets[path] == target && l->out[path] && pmd_gid_equal(&l->out[path]->dgid, dgid))
			return path;
	return 0;
}

/** Find or make the link to a target. The link may exist even if it is not in the route cache, whose slots are reused.
 *  @return the link's path; 0: there is no link. */
static uint32_t link_get(struct pmd_links *l, const struct nic_gid *dgid, uint32_t target)
{
	uint32_t path = pmd_links_find(l, dgid, target);
	int cancel_state, made = 0;
	struct nic_gid key;

	if (path && !l->out[path]->for_strays)
		return path;
	if (path) /* a link for strays: the peer would not accept our own packets over it */
		links_drop_out(l, path);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	if (link_may_be(l, target) && owner_find(l, dgid, &key)) {
		made = link_make(l, dgid, &key, target, false);
		if (made < 0 && made != -EAGAIN) /* -EAGAIN: a withdrawn ring is still queued */
			owner_forget(l, dgid);
	}
	pthread_setcancelstate(cancel_state, NULL);
	return made > 0 ? (uint32_t)made : 0;
}

uint32_t pmd_links_route(struct pmd_links *l, const struct nic_gid *dgid, uint32_t dest_qpn)
{
	uint32_t target = pmd_links_target(dest_qpn);
	uint32_t hash = target * 31u + dgid->raw[15] + dgid->raw[14] * 7u + dgid->raw[13] * 17u + dgid->raw[7] * 3u;
	struct link_route *route;

	if (!l)
		return 0;
	route = &l->routes[hash % ROUTES];
	if (route->target == target && pmd_gid_equal(&route->dgid, dgid) &&
	    (route->path || pmd_now_ns() < route->until_ns))
		return route->path;
	*route = (struct link_route){.dgid = *dgid, .target = target};
	route->path = link_get(l, dgid, target);
	if (!route->path)
		route->until_ns = pmd_now_ns() + NEGATIVE_NS;
	return route->path;
}
