/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_mads.c - libFuzzer target: datagrams to queue pair 1 that reach the daemon of a device (uroced_cm.c). The input
 * is a sequence of steps: a byte that selects the step, then the bytes that the step takes. The sender is one of three
 * hosts, one of which is the peer of all records.
 * Function 1 lives, and serves a service or not. Function 2 ends again and again, and leaves records of connections,
 * which the daemon ends for it.
 *
 * Checked in addition to what the sanitizers find: a message causes at most one answer, to the address that it came
 * from or to the peer of a record; what is sent is well-formed; what the daemon keeps is bounded, and in the end it
 * keeps nothing.
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cm_mad.h"
#include "fuzz_check.h"
#include "fuzz_util.h"
#include "nic_cm.h"
#include "nic_cm_ip.h"
#include "nic_gsi.h"
#include "uroced.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
bool uplink_send(struct daemon *daemon, const uint8_t *packet, uint32_t len)
{
	(void)daemon, (void)packet, (void)len;
	return false; /* the device has none */
}

ssize_t __wrap_getrandom(void *buf, size_t len, unsigned flags);
ssize_t __wrap_sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *to, socklen_t to_len);

#define LIVE	 1u /* function that lives */
#define ENDING	 2u /* function that ends */
#define SERVICE	 (NIC_CM_PS_TCP << 16 | 7u)
#define RECORDS	 4
#define SEEN	 8 /* the last MADs sent or received, from which a step can take header and IDs */
#define MERGED	 4 /* most messages in a datagram */
#define SECOND	 1000000000u
#define LONG_NS	 (1000u * (uint64_t)SECOND)
#define ID_SHIFT 24

enum step { STEP_MAD, STEP_RAW, STEP_TIME, STEP_SERVE, STEP_END, STEP_KNOWN, STEPS };

static const struct nic_gid own = {{[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}};
static const struct nic_gid peer = {{[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 2}}; /* of records */
static const struct nic_gid hosts[] = {{{[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 2}},
				       {{[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 3}},
				       {{[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 4}}};
#define HOSTS (sizeof(hosts) / sizeof(hosts[0]))

static struct daemon d;
static struct {
	uint64_t now_ns;
	uint8_t seen[SEEN][CM_MAD_LEN];
	unsigned n_seen;
	unsigned sent;		      /* messages sent in this step */
	const struct nic_gid *sender; /* of the datagram that is handled; NULL: none */
	bool served, known;
	int function; /* the live function's end of its connection */
} f;

/* ---- what uroced_cm.c asks of the daemon and of the kernel ------------------------------------------------------- */

uint64_t daemon_now_ns(void)
{
	return f.now_ns;
}

int gids_find(const struct daemon *daemon, const struct nic_gid *gid)
{
	(void)daemon;
	return memcmp(gid, &own, sizeof(own)) == 0 ? 0 : -1;
}

unsigned services_owner(const struct daemon *daemon, uint32_t service)
{
	(void)daemon;
	return f.served && service == SERVICE ? LIVE : 0;
}

bool slots_services_known(const struct daemon *daemon)
{
	(void)daemon;
	return f.known;
}

ssize_t __wrap_getrandom(void *buf, size_t len, unsigned flags)
{
	(void)flags;
	fixed_random(NULL, buf, len);
	return (ssize_t)len;
}

static void remember(const uint8_t *mad)
{
	memcpy(f.seen[f.n_seen++ % SEEN], mad, CM_MAD_LEN);
}

static bool may_get_answer(const struct nic_gid *host)
{
	if (f.sender)
		return memcmp(host, f.sender, sizeof(*host)) == 0 || memcmp(host, &peer, sizeof(*host)) == 0;
	for (unsigned i = 0; i < HOSTS; i++) /* a request that has waited is refused */
		if (memcmp(host, &hosts[i], sizeof(*host)) == 0)
			return true;
	return false;
}

ssize_t __wrap_sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *to, socklen_t to_len)
{
	struct nic_rx_frame frame = {.flags = NIC_RX_UDP_PAYLOAD | NIC_RX_IP_ID_UNKNOWN,
				     .sgid = own,
				     .udp_sport = NIC_UDP_PORT,
				     .data = buf,
				     .len = (uint32_t)len};
	struct cm_mad parsed;
	const uint8_t *mad;

	(void)flags, (void)to_len;
	CHECK(fd == d.gids[0].sockets[0]);
	CHECK(pmd_gid_from_sockaddr(to, &frame.dgid) && may_get_answer(&frame.dgid));
	mad = nic_gsi_parse(&frame);
	CHECK(mad);
	CHECK(cm_mad_parse(mad, CM_MAD_LEN, &parsed) == CM_MAD_OK);
	remember(mad);
	f.sent++;
	return (ssize_t)len;
}

/* ---- steps ------------------------------------------------------------------------------------------------------ */

static void arrive(unsigned host, const uint8_t *data, size_t len)
{
	struct sockaddr_in from = {.sin_family = AF_INET, .sin_port = htons(NIC_UDP_PORT)};
	struct sockaddr_in6 space = {0};

	f.sender = &hosts[host % HOSTS];
	memcpy(&from.sin_addr, f.sender->raw + 12, sizeof(from.sin_addr));
	memcpy(&space, &from, sizeof(from));
	f.sent = 0;
	cm_datagram(&d, 0, data, len, &space);
	f.sender = NULL;
	CHECK(f.sent <= len / PROTO_MAD_LEN);
	CHECK(d.n_cm_early <= CM_EARLY_MAX);
}

/** A MAD of a type that the input chooses. Header and IDs are those of a MAD that was seen, in the order of an answer,
 * unless the input says otherwise. Up to seven bytes more come from the input. */
static void mad_make(uint8_t *mad)
{
	static const uint8_t header[] = {1, 7, 2, 3};
	uint8_t attr = byte(), which = byte(), id[4];

	memcpy(mad, f.seen[which % SEEN], CM_MAD_LEN);
	memcpy(mad, header, sizeof(header));
	mad[16] = 0;
	mad[17] = (uint8_t)(CM_REQ + attr % (CM_APR - CM_REQ + 1));
	memcpy(id, mad + 24, sizeof(id));
	if (!(which & 0x80)) {
		memcpy(mad + 24, mad + 28, sizeof(id));
		memcpy(mad + 28, id, sizeof(id));
	}
	if (which & 0x40) { /* for a function: the leading byte of the receiver's ID names it */
		mad[28] = attr >> 4 & 3;
		mad[31] = attr >> 6;
	}
	for (unsigned n = which >> 3 & 7; n > 0; n--) {
		unsigned at = 8 + byte() % (CM_MAD_LEN - 8u);

		mad[at] = byte();
	}
	if (mad[17] == CM_REQ && !(attr & 0x80)) {
		memset(mad + 24 + 8, 0, 8);
		mad[24 + 13] = NIC_CM_PS_TCP & 0xff;
		mad[24 + 12] = NIC_CM_PS_TCP >> 8;
		mad[24 + 15] = 7;
	}
	remember(mad);
}

static void step_mad(void)
{
	unsigned how = byte(), n = 1 + how % MERGED, host = how / MERGED % HOSTS;
	const struct nic_gsi_addr addr = {.own = hosts[host], .peer = own};
	uint8_t packets[MERGED][PROTO_MAD_LEN], packet[NIC_FRAME_MAX], mad[CM_MAD_LEN];
	size_t cut = byte();
	uint16_t bth;

	for (unsigned i = 0; i < n; i++) {
		mad_make(mad);
		CHECK(nic_gsi_build(&addr, mad, packet, &bth) - bth == PROTO_MAD_LEN);
		memcpy(packets[i], packet + bth, PROTO_MAD_LEN);
	}
	arrive(host, packets[0], n * PROTO_MAD_LEN - (cut < 8 ? cut : 0));
}

static void step_raw(void)
{
	uint32_t how = word();
	size_t len = how % 600;
	uint8_t *exact = malloc(len + 1);

	CHECK(exact);
	for (size_t i = 0; i < len; i++)
		exact[1 + i] = byte();
	arrive(how / 600, exact + 1, len);
	free(exact);
}

static void step_time(void)
{
	f.now_ns += UINT64_C(1) << byte() % 37;
	cm_tick(&d);
	CHECK(cm_due_ns(&d) == 0 || cm_due_ns(&d) > f.now_ns);
}

/** Function 2 ends, and has left records: well-formed ones, or with bytes from the input. */
static void step_end(void)
{
	struct nic_cm_record records[RECORDS];
	unsigned n = 1 + byte() % RECORDS;
	int fd = memfd_create("records", MFD_CLOEXEC);

	CHECK(fd > 0);
	for (unsigned i = 0; i < n; i++) {
		records[i] = (struct nic_cm_record){.state = byte(),
						    .local_id = ENDING << ID_SHIFT | (i + 1),
						    .remote_id = word(),
						    .local_qpn = 77,
						    .remote_qpn = 88,
						    .own = own,
						    .peer = peer,
						    .service_id = SERVICE,
						    .response_timeout = 14,
						    .max_retries = 3,
						    .ack_timeout = 12};
		for (unsigned more = byte() % 4; more > 0; more--) {
			size_t at = byte() % offsetof(struct nic_cm_record, own);

			((uint8_t *)&records[i])[at] = byte();
		}
	}
	CHECK(write(fd, records, n * sizeof(records[0])) == (ssize_t)(n * sizeof(records[0])));
	d.slots[ENDING].records_fd = fd;
	cm_ended(&d, ENDING);
	CHECK(d.slots[ENDING].records_fd == 0);
}

static void step(void)
{
	uint8_t buf[2048];

	switch (byte() % STEPS) {
	case STEP_MAD:
		step_mad();
		break;
	case STEP_RAW:
		step_raw();
		break;
	case STEP_TIME:
		step_time();
		break;
	case STEP_SERVE:
		f.served = !f.served;
		break;
	case STEP_END:
		step_end();
		break;
	default:
		f.known = !f.known;
	}
	while (recv(f.function, buf, sizeof(buf), MSG_DONTWAIT) > 0)
		;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int sv[2];

	memset(&d, 0, sizeof(d));
	memset(&f, 0, sizeof(f));
	fuzz_begin(data, size);
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv) == 0);
	f.now_ns = LONG_NS;
	f.function = sv[1];
	d.gids[0].gid = own;
	d.gids[0].n_sockets = 1;
	d.gids[0].sockets[0] = 1000; /* only __wrap_sendto uses it */
	d.slots[LIVE].state = SLOT_LIVE;
	d.slots[LIVE].fd = sv[0];
	while (fuzz_left > 0)
		step();
	f.known = true;
	for (unsigned i = 0; i < 1000 && cm_due_ns(&d) != 0; i++) {
		f.now_ns = cm_due_ns(&d);
		cm_tick(&d);
	}
	f.now_ns += LONG_NS;
	cm_tick(&d);
	CHECK(d.n_cm_early == 0 && !d.cm[ENDING] && !cm_is_busy(&d) && d.n_cm <= 1);
	if (d.cm[0]) {
		CHECK(nic_cm_ids(d.cm[0]) == 0);
		nic_cm_destroy(d.cm[0]);
	}
	close(sv[0]);
	close(sv[1]);
	return 0;
}
