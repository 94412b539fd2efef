/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * address.c - endpoint addresses in the forms that applications use: struct sockaddr_in and sockaddr_in6, host and
 * service names, text. Internally an address is a GID and a port (nic_rdm.h).
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>

#include "provider.h"

static const uint8_t ipv4_prefix[12] = {[10] = 0xff, [11] = 0xff};

bool ufi_gid_is_ipv4(const struct nic_gid *gid)
{
	return memcmp(gid->raw, ipv4_prefix, sizeof(ipv4_prefix)) == 0;
}

socklen_t ufi_addr_to_sockaddr(const struct nic_rdm_addr *addr, union ufi_sockaddr *out)
{
	memset(out, 0, sizeof(*out));
	if (ufi_gid_is_ipv4(&addr->gid)) {
		out->in.sin_family = AF_INET;
		out->in.sin_port = htons(addr->port);
		memcpy(&out->in.sin_addr, addr->gid.raw + sizeof(ipv4_prefix), sizeof(out->in.sin_addr));
		return sizeof(out->in);
	}
	out->in6.sin6_family = AF_INET6;
	out->in6.sin6_port = htons(addr->port);
	memcpy(&out->in6.sin6_addr, addr->gid.raw, sizeof(out->in6.sin6_addr));
	return sizeof(out->in6);
}

bool ufi_addr_from_sockaddr(const void *sockaddr, size_t len, struct nic_rdm_addr *out)
{
	union ufi_sockaddr in = {0};

	if (!sockaddr || len < sizeof(in.sa.sa_family))
		return false;
	memcpy(&in, sockaddr, len < sizeof(in) ? len : sizeof(in));
	memset(out, 0, sizeof(*out));
	if (in.sa.sa_family == AF_INET && len >= sizeof(in.in)) {
		memcpy(out->gid.raw, ipv4_prefix, sizeof(ipv4_prefix));
		memcpy(out->gid.raw + sizeof(ipv4_prefix), &in.in.sin_addr, sizeof(in.in.sin_addr));
		out->port = ntohs(in.in.sin_port);
		return true;
	}
	if (in.sa.sa_family == AF_INET6 && len >= sizeof(in.in6)) {
		memcpy(out->gid.raw, &in.in6.sin6_addr, sizeof(out->gid.raw));
		out->port = ntohs(in.in6.sin6_port);
		return true;
	}
	return false;
}

bool ufi_addr_is_any(const struct nic_rdm_addr *addr)
{
	static const struct nic_gid any;

	return memcmp(addr->gid.raw + sizeof(ipv4_prefix), any.raw, 4) == 0 &&
	       (ufi_gid_is_ipv4(&addr->gid) || memcmp(&addr->gid, &any, sizeof(any)) == 0);
}

int ufi_addr_local(const void *sockaddr, size_t len, const struct nic_gid *gid, uint16_t *port)
{
	struct nic_rdm_addr parsed;

	if (!ufi_addr_from_sockaddr(sockaddr, len, &parsed) || parsed.port > NIC_SERVICE_PORT_MAX)
		return -FI_EINVAL;
	if (!ufi_addr_is_any(&parsed) && memcmp(&parsed.gid, gid, sizeof(*gid)) != 0)
		return -FI_EADDRNOTAVAIL;
	*port = parsed.port;
	return 0;
}

int ufi_addr_dup(const struct nic_rdm_addr *addr, void **out, size_t *len)
{
	union ufi_sockaddr sockaddr;

	*len = ufi_addr_to_sockaddr(addr, &sockaddr);
	*out = malloc(*len);
	if (!*out)
		return -FI_ENOMEM;
	memcpy(*out, &sockaddr, *len);
	return 0;
}

int ufi_addr_resolve(const char *node, const char *service, int family, uint64_t flags, struct nic_rdm_addr *out)
{
	struct addrinfo hints = {.ai_family = family, .ai_socktype = SOCK_DGRAM}, *found;
	bool ok;

	if (flags & FI_SOURCE)
		hints.ai_flags |= AI_PASSIVE;
	if (flags & FI_NUMERICHOST)
		hints.ai_flags |= AI_NUMERICHOST;
	if (getaddrinfo(node, service, &hints, &found))
		return -FI_ENODATA;
	ok = ufi_addr_from_sockaddr(found->ai_addr, found->ai_addrlen, out);
	freeaddrinfo(found);
	return ok ? 0 : -FI_ENODATA;
}

int ufi_addr_print(const struct nic_rdm_addr *addr, char *buf, size_t len)
{
	char ip[INET6_ADDRSTRLEN];
	bool ipv4 = ufi_gid_is_ipv4(&addr->gid);

	inet_ntop(ipv4 ? AF_INET : AF_INET6, addr->gid.raw + (ipv4 ? sizeof(ipv4_prefix) : 0), ip, sizeof(ip));
	return snprintf(buf, len, ipv4 ? "fi_sockaddr_in://%s:%u" : "fi_sockaddr_in6://[%s]:%u", ip, addr->port);
}

int ufi_addr_copy_out(const struct nic_rdm_addr *addr, void *out, size_t *len)
{
	union ufi_sockaddr sockaddr;
	socklen_t need = ufi_addr_to_sockaddr(addr, &sockaddr);
	size_t room = *len;

	*len = need;
	if (out)
		memcpy(out, &sockaddr, room < need ? room : need);
	return out && room >= need ? 0 : -FI_ETOOSMALL;
}
