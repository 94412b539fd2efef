/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cma_addr.c - socket addresses as GIDs, and the header of the RDMA IP CM service (IBTA annex A11). Owns nothing.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "cma.h"

#define SOCKADDR_IB_LEN 48 /* of struct sockaddr_ib */

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

/* ---- the header: version, IP version, port, both addresses; IPv4 in the last 4 of 16 bytes ---------------- */

#define HEADER_IP   1
#define HEADER_PORT 2
#define HEADER_SRC  4
#define HEADER_DST  20

static void address_write(uint8_t *out, const struct cma_addr *addr, bool v4)
{
	memcpy(out, addr->gid.raw, 16);
	if (v4)
		memset(out, 0, 12);
}

void cma_header_write(uint8_t *out, const struct cma_addr *src, const struct cma_addr *dst)
{
	bool v4 = src->family == AF_INET;

	memset(out, 0, CMA_HEADER_LEN);
	out[HEADER_IP] = v4 ? 4 << 4 : 6 << 4;
	out[HEADER_PORT] = (uint8_t)(src->port >> 8);
	out[HEADER_PORT + 1] = (uint8_t)src->port;
	address_write(out + HEADER_SRC, src, v4);
	address_write(out + HEADER_DST, dst, v4);
}

static void address_read(const uint8_t *in, int family, struct cma_addr *out)
{
	*out = (struct cma_addr){.family = (uint16_t)family};
	memcpy(out->gid.raw, in, 16);
	if (family == AF_INET) {
		memset(out->gid.raw, 0, 10);
		out->gid.raw[10] = out->gid.raw[11] = 0xff;
	}
}

bool cma_header_read(const uint8_t *in, size_t len, struct cma_addr *remote, struct cma_addr *local)
{
	int family;

	if (len < CMA_HEADER_LEN || in[0])
		return false;
	switch (in[HEADER_IP] >> 4) {
	case 4:
		family = AF_INET;
		break;
	case 6:
		family = AF_INET6;
		break;
	default:
		return false;
	}
	address_read(in + HEADER_SRC, family, remote);
	address_read(in + HEADER_DST, family, local);
	remote->port = (uint16_t)(in[HEADER_PORT] << 8 | in[HEADER_PORT + 1]);
	return true;
}
