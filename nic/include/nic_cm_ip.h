/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_cm_ip.h - IP addressing for the connection manager (IBTA annex A11): service IDs that stand for a port, and the
 * RDMA IP header. In a REQ or SIDR_REQ, this header precedes the application's private data, and holds the connection's
 * IP addresses and source port. These functions keep no state. IPv4 addresses are mapped into GIDs (::ffff:a.b.c.d), as
 * everywhere in the NIC.
 */
#ifndef NIC_NIC_CM_IP_H
#define NIC_NIC_CM_IP_H

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
#define NIC_CM_IP_LEN 36

struct nic_cm_ip {
	uint8_t version; /* of IP: 4 or 6 */
	uint16_t port;	 /* source port; can be 0 */
	struct nic_gid source, destination;
};

enum nic_cm_ip_verdict {
	NIC_CM_IP_OK,
	NIC_CM_IP_TOO_SHORT,
	NIC_CM_IP_BAD_VERSION, /* the header's own version is not 0 */
	NIC_CM_IP_BAD_FAMILY,  /* neither IPv4 nor IPv6 */
	NIC_CM_IP_VERDICTS,
};

/** Check a header and split it into its fields. *out is all zeroes unless the verdict is NIC_CM_IP_OK. @param data
 *  `len` bytes of private data; the bytes after the header belong to the application */
enum nic_cm_ip_verdict nic_cm_ip_parse(const uint8_t *data, size_t len, struct nic_cm_ip *out);
/** Write a header. @param in version is 4 or 6; with 4, both addresses are IPv4-mapped */
void nic_cm_ip_build(const struct nic_cm_ip *in, uint8_t data[NIC_CM_IP_LEN]);
/** A name such as "bad_version"; never NULL. */
const char *nic_cm_ip_verdict_name(enum nic_cm_ip_verdict v);

/* ---- service IDs: 00 00 00 00 01, IP protocol 8 bits, port 16 bits ---------------------------------------- */

/** Port spaces, numbered as in <rdma/rdma_user_cm.h>. A service ID consists of this number and the port. */
enum nic_cm_space {
	NIC_CM_PS_IPOIB = 0x0002, /* outside the range that A11 defines */
	NIC_CM_PS_TCP = 0x0106,
	NIC_CM_PS_UDP = 0x0111,
	NIC_CM_PS_IB = 0x013f, /* programs may choose any service ID; IDs that a program does not choose itself
				* contain this number */
};

static inline uint64_t nic_cm_service_id(enum nic_cm_space space, uint16_t port)
{
	return (uint64_t)space << 16 | port;
}

/** Split a service ID into port space and port. @return false: the ID is outside the range of A11, for example in
 *  NIC_CM_PS_IPOIB. */
bool nic_cm_service_split(uint64_t service_id, uint16_t *space, uint16_t *port);

#endif
