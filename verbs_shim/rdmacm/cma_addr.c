/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cma_addr.c - converts socket addresses to GIDs and back, and writes and reads them in the RDMA IP header of requests
 * (nic_cm_ip.h). Owns nothing.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "cma.h"

#define SOCKADDR_IB_LEN 48 /* sizeof(struct sockaddr_ib) */

bool cma_gid_is_v4(const struct nic_gid *gid)
{
	static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

	return !memcmp(gid->raw, prefix, sizeof(prefix));
}

unsigned cma_sockaddr_size(const void *sockaddr)
{
	sa_family_t family;

	memcpy(&family, sockaddr, sizeof(family));
	switch (family) {
	case AF_INET:
		return sizeof(struct sockaddr_in);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	case CMA_AF_IB:
		return SOCKADDR_IB_LEN;
	default:
		return 0;
	}
}

static void from_v4(const struct sockaddr_in *sin, struct cma_addr *out)
{
	*out = (struct cma_addr){.family = AF_INET, .port = ntohs(sin->sin_port)};
	if (sin->sin_addr.s_addr) {
		out->gid.raw[10] = out->gid.raw[11] = 0xff;
		memcpy(out->gid.raw + 12, &sin->sin_addr, 4);
	}
}

static void from_v6(const struct sockaddr_in6 *sin6, struct cma_addr *out)
{
	*out = (struct cma_addr){.family = AF_INET6,
				 .port = ntohs(sin6->sin6_port),
				 .scope = sin6->sin6_scope_id,
				 .flowinfo = sin6->sin6_flowinfo};
	memcpy(out->gid.raw, &sin6->sin6_addr, 16);
}

int cma_addr_from(const void *sockaddr, struct cma_addr *out)
{
	struct sockaddr_in6 sin6;
	struct sockaddr_in sin;
	sa_family_t family;

	memcpy(&family, sockaddr, sizeof(family));
	if (family == AF_INET) {
		memcpy(&sin, sockaddr, sizeof(sin));
		from_v4(&sin, out);
	} else if (family == AF_INET6) {
		memcpy(&sin6, sockaddr, sizeof(sin6));
		from_v6(&sin6, out);
	} else {
		return -EAFNOSUPPORT;
	}
	return 0;
}

unsigned cma_addr_to(const struct cma_addr *addr, void *sockaddr)
{
	if (addr->family == AF_INET) {
		struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(addr->port)};

		memcpy(&sin.sin_addr, addr->gid.raw + 12, 4);
		memcpy(sockaddr, &sin, sizeof(sin));
		return sizeof(sin);
	}
	if (addr->family == AF_INET6) {
		struct sockaddr_in6 sin6 = {.sin6_family = AF_INET6,
					    .sin6_port = htons(addr->port),
					    .sin6_scope_id = addr->scope,
					    .sin6_flowinfo = addr->flowinfo};

		memcpy(&sin6.sin6_addr, addr->gid.raw, 16);
		memcpy(sockaddr, &sin6, sizeof(sin6));
		return sizeof(sin6);
	}
	return 0;
}

bool cma_addr_is_any(const struct cma_addr *addr)
{
	static const struct nic_gid any;

	return !memcmp(&addr->gid, &any, sizeof(any));
}

bool cma_addr_is_loopback(const struct cma_addr *addr)
{
	static const struct nic_gid one = {.raw = {[15] = 1}};

	if (cma_gid_is_v4(&addr->gid))
		return addr->gid.raw[12] == 127;
	return !memcmp(&addr->gid, &one, sizeof(one));
}

/* ---- the RDMA IP CM service's header ------------------------------------------------------------------ */

void cma_header_write(uint8_t *out, const struct cma_addr *src, const struct cma_addr *dst)
{
	const struct nic_cm_ip ip = {.version = src->family == AF_INET ? 4 : 6,
				     .port = src->port,
				     .source = src->gid,
				     .destination = dst->gid};

	nic_cm_ip_build(&ip, out);
}

bool cma_header_read(const uint8_t *in, size_t len, struct cma_addr *remote, struct cma_addr *local)
{
	struct nic_cm_ip ip;
	uint16_t family;

	if (nic_cm_ip_parse(in, len, &ip) != NIC_CM_IP_OK)
		return false;
	family = ip.version == 4 ? AF_INET : AF_INET6;
	*remote = (struct cma_addr){.family = family, .port = ip.port, .gid = ip.source};
	*local = (struct cma_addr){.family = family, .gid = ip.destination};
	return true;
}
