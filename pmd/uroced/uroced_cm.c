/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroced_cm.c - the daemon's part in the connection manager (CM, nic_cm.h): it acts for functions that have ended, and
 * for services that no function serves.
 *
 * A function passes us a file that lists its connections (its records). When the function ends, in whatever way, we
 * create a CM instance with the function's communication IDs, which disconnects these connections: it sends DREQs,
 * repeats them, and answers messages that the peers still send. The kernel steers messages for a number without a
 * function to us (uroced_steer.c).
 *
 * We also get the requests for services that the steering program in the kernel does not list. If a function serves the
 * service, we pass the request to the function over its connection. Otherwise we keep the request for EARLY_NS, in case
 * a function is about to listen: programs connect as soon as the other program says that it is ready (perftest does).
 * Then we refuse the request.
 *
 * Anyone can send any number of messages. We handle them at the limiter's rate (limiter.h), and drop and count those
 * beyond that rate. The exception is messages to a function that has ended, while we disconnect its connections: the
 * answers to our DREQs come all at once. For each of these messages we send at most one answer and keep no state.
 *
 * Owns: daemon.cm, daemon.cm_early.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "nic_cm.h"
#include "nic_gsi.h"
#include "points.h"
#include "uroced.h"

#define ID_BITS	    24	   /* the same as in engine_cm.c */
#define RECORDS_MAX 32768u /* as many connections as a function can have */
#define ADOPTED_MAX 65536u /* maximum number of adopted connections, over all functions that have ended */
#define CHUNK	    128u   /* records read at a time */
#define ADOPTED_NS                                                                                                     \
	60000000000u /* this long after a number's last function has ended, we forget the number's connections */
#define BUSY_NS	   10000000000u /* how long these connections keep an otherwise idle daemon running */
#define EARLY_NS   100000000u	/* how long a request waits for a function that serves its service */
#define MAD_OFFSET 20u		/* BTH and DETH come before the MAD */

/* ---- instances ---------------------------------------------------------------------------------------------- */

static uint64_t now(void *ctx)
{
	(void)ctx;
	return daemon_now_ns();
}

static uint32_t random_word(void *ctx)
{
	uint32_t word = 0;

	(void)ctx;
	if (getrandom(&word, sizeof(word), GRND_NONBLOCK) != sizeof(word))
		word = (uint32_t)daemon_now_ns();
	return word;
}

static void ignore(void *ctx, const struct nic_cm_event *event)
{
	(void)ctx;
	(void)event;
}

static void send_mad(void *ctx, const struct nic_cm_route *route, const uint8_t *mad)
{
	struct daemon *d = ctx;
	const struct nic_gsi_addr addr = {.own = route->own, .peer = route->peer, .flow_label = route->flow_label};
	int at = gids_find(d, &route->own);
	uint8_t packet[NIC_FRAME_MAX];
	struct sockaddr_in6 to;
	uint32_t len;
	uint16_t bth;
	bool sent;

	if (at < 0 || (d->gids[at].n_sockets == 0 && !uplink_is(d)) ||
	    pmd_gid_is_v4(&route->own) != pmd_gid_is_v4(&route->peer)) {
		d->stats.cm_unsent++;
		return;
	}
	len = nic_gsi_build(&addr, mad, packet, &bth);
	if (uplink_is(d))
		sent = uplink_send(d, packet, len);
	else
		sent = sendto(d->gids[at].sockets[0], packet + bth, len - bth, MSG_DONTWAIT | MSG_NOSIGNAL,
			      (struct sockaddr *)&to, pmd_gid_sockaddr(&route->peer, d->scope, &to)) >= 0;
	if (!sent)
		d->stats.cm_unsent++;
	else
		d->stats.cm_sent++;
	PMD_POINT(daemon_cm_mad_sent);
}

/** Get the CM instance for function n, which has ended; n = 0: the instance that refuses. The instance is created if
 *  necessary. Its IDs have n as their leading byte. @return NULL: out of memory. */
static struct nic_cm *instance(struct daemon *d, unsigned n)
{
	const struct nic_cm_config config = {.id_base = (uint32_t)n << ID_BITS,
					     .id_bits = ID_BITS,
					     .ctx = d,
					     .now = now,
					     .random = random_word,
					     .send = send_mad,
					     .event = ignore};

	if (!d->cm[n] && nic_cm_create(&d->cm[n], &config) == 0)
		d->n_cm++;
	return d->cm[n];
}

static void instance_end(struct daemon *d, unsigned n)
{
	if (!d->cm[n])
		return;
	nic_cm_destroy(d->cm[n]);
	d->cm[n] = NULL;
	d->n_cm--;
}

/* ---- functions that have ended -------------------------------------------------------------------------------- */

/** Let the CM instance of function n adopt the connections in the function's file. The function may have written
 *  anything to the file: nic_cm_adopt checks the records. @return how many connections were adopted. */
static unsigned records_adopt(struct daemon *d, unsigned n, int fd)
{
	struct nic_cm_record chunk[CHUNK];
	unsigned adopted = 0, all = 0;

	for (unsigned i = 0; i < DAEMON_SLOTS; i++)
		all += d->cm[i] ? nic_cm_ids(d->cm[i]) : 0;
	for (unsigned at = 0; at < RECORDS_MAX; at += CHUNK) {
		ssize_t len = pread(fd, chunk, sizeof(chunk), (off_t)(at * sizeof(chunk[0])));
		unsigned have = len > 0 ? (unsigned)((size_t)len / sizeof(chunk[0])) : 0, live = 0, done = 0;

		for (unsigned i = 0; i < have; i++)
			live += chunk[i].state != NIC_CM_IDLE;
		if (live > 0 && all + adopted + live <= ADOPTED_MAX && instance(d, n))
			done = nic_cm_adopt(d->cm[n], chunk, have);
		adopted += done;
		d->stats.cm_unadopted += live - done;
		if (have < CHUNK)
			break;
	}
	return adopted;
}

void cm_ended(struct daemon *d, unsigned n)
{
	struct slot *s = &d->slots[n];
	unsigned adopted;

	if (s->records_fd == 0)
		return;
	PMD_POINT(daemon_cm_ended);
	adopted = records_adopt(d, n, s->records_fd);
	close(s->records_fd);
	s->records_fd = 0;
	d->stats.cm_adopted += adopted;
	if (!d->cm[n])
		return;
	d->cm_ended_ns[n] = daemon_now_ns();
	if (nic_cm_ids(d->cm[n]) == 0)
		instance_end(d, n);
}

bool cm_records(struct daemon *d, unsigned n, struct proto_msg *m)
{
	struct slot *s = &d->slots[n];
	int fd;

	/* Accept only a file in memory, recognised by its seals: reading from any other file could take arbitrarily
	 * long. */
	if (!proto_msg_is(m, PROTO_RECORDS, 0, 1) || fcntl(m->fds[0], F_GET_SEALS) < 0)
		return false;
	fd = proto_msg_take(m, 0);
	if (fd == 0) {
		fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
		close(0);
	}
	PMD_POINT(daemon_records_come);
	if (s->records_fd != 0)
		close(s->records_fd);
	s->records_fd = fd > 0 ? fd : 0;
	return true;
}

/* ---- messages ------------------------------------------------------------------------------------------------- */

static const uint8_t *mad_of(const struct proto_mad *m)
{
	return m->packet + MAD_OFFSET;
}

static struct nic_cm_route route_of(const struct proto_mad *m)
{
	return (struct nic_cm_route){.own = m->own, .peer = m->peer};
}

static void instance_rx(struct nic_cm *cm, const struct proto_mad *m)
{
	const struct nic_cm_route route = route_of(m);

	nic_cm_rx(cm, &route, mad_of(m), NIC_CM_MAD_LEN);
}

/** Pass the packet to function n over the function's connection to us. The function's NIC checks the packet as if the
 * port had received it. If we cannot send the packet now, drop it. */
static void hand_on(struct daemon *d, unsigned n, const struct proto_mad *m)
{
	if (d->slots[n].state == SLOT_LIVE && proto_send(d->slots[n].fd, PROTO_MAD, m, sizeof(*m), NULL, 0) == 0)
		d->stats.cm_handed_on++;
	else
		d->stats.cm_dropped++;
	PMD_POINT(daemon_mad_handed_on);
}

/** A peer has given up a request before it learned our communication ID, so its REJ does not tell which function it is
 * for. Pass the REJ to every function whose file of records we have, and to the CM instances of functions that have
 * ended. A function that could not make its file does not get the REJ: it learns that the peer has given up only when
 * it answers the request. */
static void hand_to_all(struct daemon *d, const struct proto_mad *m)
{
	for (unsigned n = 1; n < DAEMON_SLOTS; n++)
		if (d->slots[n].records_fd != 0)
			hand_on(d, n, m);
		else if (d->cm[n])
			instance_rx(d->cm[n], m);
}

static void refuse(struct daemon *d, const struct proto_mad *m)
{
	if (!instance(d, 0)) {
		d->stats.cm_dropped++;
		return;
	}
	d->stats.cm_refused++;
	PMD_POINT(daemon_request_refused);
	instance_rx(d->cm[0], m);
}

/** Handle a request for a service that no function serves. While functions of an earlier daemon have not told us their
 *  services, drop the request: its sender repeats it. Otherwise refuse it. */
static void turn_away(struct daemon *d, const struct proto_mad *m)
{
	if (slots_services_known(d))
		refuse(d, m);
	else
		d->stats.cm_dropped++;
}

/** Whether the service ID can belong to a port of the connection manager. */
static bool is_port(uint64_t service_id)
{
	return service_id <= UINT32_MAX && proto_service_space((uint32_t)service_id) != 0 &&
	       proto_service_may_be((uint32_t)service_id);
}

/** Keep a request for a service that no function serves yet. @return false: no function can serve the service ID, or
 *  there is no room for the request. */
static bool early_keep(struct daemon *d, const struct proto_mad *m, uint64_t service_id)
{
	if (d->n_cm_early == CM_EARLY_MAX || !is_port(service_id))
		return false;
	d->cm_early[d->n_cm_early++] =
		(struct cm_early){.m = *m, .service = (uint32_t)service_id, .due_ns = daemon_now_ns() + EARLY_NS};
	d->stats.cm_early++;
	PMD_POINT(daemon_request_kept);
	return true;
}

/** Pass on the kept requests whose service a function serves by now, and turn away requests that have waited for
 *  EARLY_NS. */
static void early_tick(struct daemon *d)
{
	uint64_t now_ns = d->n_cm_early > 0 ? daemon_now_ns() : 0;

	for (unsigned i = d->n_cm_early; i-- > 0;) {
		const struct cm_early e = d->cm_early[i];
		unsigned n = services_owner(d, e.service);

		if (n == 0 && now_ns < e.due_ns)
			continue;
		d->cm_early[i] = d->cm_early[--d->n_cm_early];
		if (n != 0)
			hand_on(d, n, &e.m);
		else
			turn_away(d, &e.m);
	}
}

static void request(struct daemon *d, const struct proto_mad *m, uint64_t service_id)
{
	unsigned n = is_port(service_id) ? services_owner(d, (uint32_t)service_id) : 0;

	if (n != 0)
		hand_on(d, n, m);
	else if (!early_keep(d, m, service_id))
		turn_away(d, m);
}

/** Find the CM instance that answers for connection `local_id`. @return NULL: the connection's function has not ended,
 *  or has left no connections. */
static struct nic_cm *ended_of(const struct daemon *d, uint32_t local_id)
{
	unsigned n = local_id >> ID_BITS;

	return n > 0 && n < DAEMON_SLOTS && d->slots[n].state == SLOT_FREE ? d->cm[n] : NULL;
}

/** Handle a message for connection `local_id` that none of the daemon's CM instances answers. If the connection's
 *  function lives, pass the message to it: only the function may answer. Otherwise refuse the message. */
static void answer(struct daemon *d, const struct proto_mad *m, uint32_t local_id)
{
	unsigned n = local_id >> ID_BITS;

	if (n > 0 && n < DAEMON_SLOTS && d->slots[n].state != SLOT_FREE)
		hand_on(d, n, m);
	else
		refuse(d, m);
}

static void message(struct daemon *d, const struct proto_mad *m)
{
	struct nic_cm_peek what;

	if (nic_cm_peek(mad_of(m), NIC_CM_MAD_LEN, &what) != 0 || (!what.request && !what.rej && what.local_id == 0))
		d->stats.cm_dropped++;
	else if (!what.request && ended_of(d, what.local_id))
		instance_rx(ended_of(d, what.local_id), m);
	else if (!pmd_limiter_take(&d->cm_limiter, daemon_now_ns()))
		d->stats.cm_limited++;
	else if (what.request)
		request(d, m, what.service_id);
	else if (what.local_id != 0)
		answer(d, m, what.local_id);
	else /* a REJ from a peer that never learned our ID: one of the functions knows the peer's ID */
		hand_to_all(d, m);
}

bool cm_datagram(struct daemon *d, unsigned entry, const uint8_t *data, size_t len, const struct sockaddr_in6 *from)
{
	struct nic_rx_frame frame = {.flags = NIC_RX_UDP_PAYLOAD, .dgid = d->gids[entry].gid};
	struct proto_mad m = {.own = frame.dgid};
	bool v4 = pmd_gid_is_v4(&frame.dgid), any = false;

	if (v4)
		frame.flags |= NIC_RX_IP_ID_UNKNOWN;
	if (!pmd_gid_from_sockaddr((const struct sockaddr *)from, &frame.sgid))
		return false;
	frame.udp_sport = ntohs(v4 ? ((const struct sockaddr_in *)(const void *)from)->sin_port : from->sin6_port);
	m.peer = frame.sgid;
	m.udp_sport = frame.udp_sport;
	/* The kernel may have merged several messages of one sender (GRO): each is PROTO_MAD_LEN bytes long. */
	for (; len >= PROTO_MAD_LEN; data += PROTO_MAD_LEN, len -= PROTO_MAD_LEN) {
		frame.data = data;
		frame.len = PROTO_MAD_LEN;
		if (!nic_gsi_parse(&frame)) {
			d->stats.cm_dropped += any;
			break;
		}
		memcpy(m.packet, data, PROTO_MAD_LEN);
		any = true;
		message(d, &m);
	}
	return any;
}

/* ---- time ----------------------------------------------------------------------------------------------------- */

void cm_tick(struct daemon *d)
{
	uint64_t now_ns = d->n_cm > 0 ? daemon_now_ns() : 0;

	early_tick(d);
	for (unsigned n = 0, left = d->n_cm; left > 0 && n < DAEMON_SLOTS; n++) {
		if (!d->cm[n])
			continue;
		left--;
		if (nic_cm_deadline(d->cm[n]) <= now_ns)
			nic_cm_advance(d->cm[n]);
		if (n > 0 && (nic_cm_ids(d->cm[n]) == 0 || now_ns - d->cm_ended_ns[n] > ADOPTED_NS))
			instance_end(d, n);
	}
}

uint64_t cm_due_ns(const struct daemon *d)
{
	uint64_t due_ns = UINT64_MAX;

	for (unsigned i = 0; i < d->n_cm_early; i++)
		if (d->cm_early[i].due_ns < due_ns)
			due_ns = d->cm_early[i].due_ns;
	for (unsigned n = 0, left = d->n_cm; left > 0 && n < DAEMON_SLOTS; n++) {
		if (!d->cm[n])
			continue;
		left--;
		if (nic_cm_deadline(d->cm[n]) < due_ns)
			due_ns = nic_cm_deadline(d->cm[n]);
	}
	return due_ns == UINT64_MAX ? 0 : due_ns;
}

bool cm_is_busy(const struct daemon *d)
{
	for (unsigned n = 1; n < DAEMON_SLOTS; n++)
		if (d->cm[n] && daemon_now_ns() - d->cm_ended_ns[n] < BUSY_NS)
			return true;
	return false;
}
