/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cm_ip.h - IP addressing for the connection manager (IBTA annex A11): service IDs that encode a port, and the header
 * in front of the private data of REQ and SIDR_REQ, which has the addresses and the source port of the connection.
 * Stateless. IPv4 addresses are mapped to GIDs as ::ffff:a.b.c.d, as in all of the NIC.
 */
#ifndef NIC_CM_IP_H
#define NIC_CM_IP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nic_types.h"

/* ---- RDMA IP header, 36 bytes (annex A11) ----------------------------------------------------------------
 *
 *     |31           24|23           16|15            8|7             0|
 *   0 | version 0     | IP ver| rsvd  | source port                   |   IP version 4 or 6
 *   4 | source address, 16 bytes                                      |   IPv4: in the last 4 of the 16, the
 *  20 | destination address, 16 bytes                                 |   others are reserved
 */
#define CM_IP_LEN 36

struct cm_ip {
	uint8_t version; /* of IP: 4 or 6 */
	uint16_t port;	 /* source port; can be 0 */
	struct nic_gid source, destination;
};

enum cm_ip_verdict {
	CM_IP_OK,
	CM_IP_TOO_SHORT,
	CM_IP_BAD_VERSION, /* the header's version is not 0 */
	CM_IP_BAD_FAMILY,  /* the IP version is neither 4 nor 6 */
	CM_IP_VERDICTS,
};

/** Check an RDMA IP header and extract its fields. Changes nothing but *out, which is all zeroes unless the verdict
 *  is CM_IP_OK. @param data `len` bytes of private data; bytes after the header belong to the application */
enum cm_ip_verdict cm_ip_parse(const uint8_t *data, size_t len, struct cm_ip *out);
/** Write an RDMA IP header. @param in version is 4, with IPv4-mapped addresses, or 6 */
void cm_ip_build(const struct cm_ip *in, uint8_t data[CM_IP_LEN]);
/** Name of a verdict, such as "bad_version"; never NULL. */
const char *cm_ip_verdict_name(enum cm_ip_verdict v);

/* ---- service IDs: 00 00 00 00 01, IP protocol 8 bits, port 16 bits ---------------------------------------- */

/** Port spaces, numbered as in <rdma/rdma_user_cm.h>. A service ID is this number followed by the 16-bit port. */
enum cm_port_space {
	CM_PS_IPOIB = 0x0002, /* outside the range of service IDs that A11 defines */
	CM_PS_TCP = 0x0106,
	CM_PS_UDP = 0x0111,
	CM_PS_IB = 0x013f, /* programs choose the whole service ID; this is the prefix if they leave the choice to
			    * the CM */
};

static inline uint64_t cm_ip_service_id(enum cm_port_space space, uint16_t port)
{
	return (uint64_t)space << 16 | port;
}

/** Split a service ID that A11 defines into port space and port. @return false: not such a service ID; CM_PS_IPOIB
 *  is none */
bool cm_ip_service_split(uint64_t service_id, uint16_t *space, uint16_t *port);

#endif
