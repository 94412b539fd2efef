/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uplink_steer.c - steers packets to functions by what uroced_steer.c has the kernel look at: the leading byte of the
 * destination QPN; for a service (QPN: 0xff, then a 16-bit port) the function that serves the port; for messages of the
 * connection manager (to queue pair 1) the receiver's communication ID or, in a request, the service ID.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nic_gsi.h"
#include "proto.h"
#include "roce_ip.h"
#include "uplink_steer.h"

#define BTH_DEST_QPN 5
#define SERVICES     0xff /* leading byte of the QPNs of services */

/* Offsets in a message to queue pair 1, from the BTH; and attribute IDs (12.6). */
enum { MAD = 20, ATTRIBUTE = MAD + 16, LOCAL_ID = MAD + 24, REMOTE_ID = MAD + 28, SERVICE_ID = MAD + 32 };
enum { REQ = 0x10, SIDR_REQ = 0x17, SIDR_REP = 0x18 };

static int service_compare(const void *a, const void *b)
{
	const struct uplink_service *x = a, *y = b;

	return x->service < y->service ? -1 : x->service > y->service;
}

int steering_set(struct steering *s, const struct uplink_service *services, unsigned n)
{
	struct uplink_service *ports = calloc(n + 1, sizeof(*ports));
	unsigned n_ports = 0;

	if (!ports)
		return -ENOMEM;
	memset(s->datagrams, 0, sizeof(s->datagrams));
	s->first = 0;
	for (unsigned i = 0; i < n; i++) {
		if (services[i].function == 0 || services[i].function >= UPLINK_FUNCTIONS)
			continue;
		if (proto_service_space(services[i].service) != 0) {
			ports[n_ports++] = services[i];
			continue;
		}
		s->datagrams[services[i].service & 0xffff] = (uint8_t)services[i].function;
		if (s->first == 0 || services[i].function < s->first)
			s->first = (uint8_t)services[i].function;
	}
	qsort(ports, n_ports, sizeof(*ports), service_compare);
	free(s->ports);
	s->ports = ports;
	s->n_ports = n_ports;
	return 0;
}

void steering_clear(struct steering *s)
{
	free(s->ports);
	s->ports = NULL;
	s->n_ports = 0;
}

static unsigned port_owner(const struct steering *s, const uint8_t *service_id)
{
	const struct uplink_service key = {.service = pmd_be32(service_id + 4)}, *found;

	if (pmd_be32(service_id) != 0 || s->n_ports == 0)
		return 0;
	found = bsearch(&key, s->ports, s->n_ports, sizeof(key), service_compare);
	return found ? found->function : 0;
}

/** Steer a packet whose QPN begins with 0: to queue pair 1, or to no function. */
static unsigned steer_message(const struct steering *s, const uint8_t *bth, uint32_t len)
{
	if (pmd_be16(bth + BTH_DEST_QPN + 1) != NIC_GSI_QPN || len < SERVICE_ID + 8)
		return 0;
	switch (pmd_be16(bth + ATTRIBUTE)) {
	case REQ:
	case SIDR_REQ:
		return port_owner(s, bth + SERVICE_ID);
	case SIDR_REP:
		return bth[LOCAL_ID]; /* the only ID in a SIDR_REP: the requester's */
	default:
		return bth[REMOTE_ID];
	}
}

unsigned uplink_steer(const struct steering *s, const uint8_t *ip, uint32_t len)
{
	uint32_t at = pmd_roce_payload(ip, len);
	const uint8_t *bth = ip + at;
	unsigned n;

	if (at == 0)
		return STEER_NOT_ROCE;
	n = bth[BTH_DEST_QPN];
	if (n == SERVICES) {
		n = s->datagrams[pmd_be16(bth + BTH_DEST_QPN + 1)];
		return n ? n : s->first; /* the first's NIC answers that the service does not exist */
	}
	n = n ? n : steer_message(s, bth, len - at);
	return n < UPLINK_FUNCTIONS ? n : 0;
}

bool uplink_may_send(const uint8_t *ip, uint32_t len, const struct nic_gid *own, struct nic_gid *dgid)
{
	struct nic_gid source;
	bool v4 = pmd_gid_is_v4(own);

	if (pmd_roce_payload(ip, len) == 0 || (ip[0] >> 4 == 4) != v4 ||
	    (v4 ? pmd_be16(ip + 2) : 40 + pmd_be16(ip + 4)) != len)
		return false;
	pmd_roce_addresses(ip, &source, dgid);
	return pmd_gid_equal(&source, own);
}
