/* SPDX-License-Identifier: BSD-3-Clause */
/* address.h - GIDs as IP addresses: text, socket addresses, kinds (pmd-internal). Needs nothing else of pmd/, and no
 * DPDK. */
#ifndef PMD_ADDRESS_H
#define PMD_ADDRESS_H

#include <netinet/in.h>

#include "nic.h"

#define PMD_GID_TEXT 48 /* bytes, enough for the text of any GID */

/** Whether the GID is an IPv4-mapped address; the IPv4 address is its last four bytes. */
static inline bool pmd_gid_is_v4(const struct nic_gid *gid)
{
	static const uint8_t prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

	return __builtin_memcmp(gid->raw, prefix, sizeof(prefix)) == 0;
}

static inline bool pmd_gid_equal(const struct nic_gid *a, const struct nic_gid *b)
{
	return __builtin_memcmp(a, b, sizeof(*a)) == 0;
}

/** Whether the GID is all zeroes, as in an empty entry of a GID table. */
static inline bool pmd_gid_is_none(const struct nic_gid *gid)
{
	static const struct nic_gid none;

	return pmd_gid_equal(gid, &none);
}

static inline bool pmd_gid_is_link_local(const struct nic_gid *gid)
{
	return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;
}

/** Whether the GID can be a device's address: neither a wildcard nor multicast, nor an IPv4 address above those. */
bool pmd_gid_is_unicast(const struct nic_gid *gid);

/** @return false: the text is not an IP address. */
bool pmd_gid_parse(const char *text, struct nic_gid *gid);

/** The GID as text, such as "10.0.0.1" or "fd00::1". @return buf. */
const char *pmd_gid_str(const struct nic_gid *gid, char *buf, size_t len);

/** @return false: the socket address is neither IPv4 nor IPv6. */
bool pmd_gid_from_sockaddr(const struct sockaddr *sa, struct nic_gid *gid);

/** Whether an address label ("eth0:1") belongs to the interface ("eth0"). */
bool pmd_label_is_of(const char *label, const char *iface);

/** Make the socket address of the RoCE UDP port at a GID's IP address. `scope`: interface index, used if the address is
 *  link-local. @return the length of *out. */
socklen_t pmd_gid_sockaddr(const struct nic_gid *gid, uint32_t scope, struct sockaddr_in6 *out);

#endif
