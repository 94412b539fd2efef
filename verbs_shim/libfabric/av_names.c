/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * av_names.c - inserting addresses by node and service names, for one node or for a cluster. For each further node,
 * fi_av_insertsym increments the number at the end of the node's name (or the IPv4 address itself); for each further
 * service of a node, it increments the service.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>

#include "provider.h"

#define NAME_MAX_LEN 256

static int family_of(const struct ufi_av *av)
{
	return ufi_gid_is_ipv4(&av->domain->device.gid) ? AF_INET : AF_INET6;
}

/** The name of the `i`th node after `first`. @return false: no such name, or it is too long. */
static bool node_name(const char *first, int family, size_t i, char *out, size_t len)
{
	unsigned __int128 number;
	struct in_addr in;
	size_t digits = strlen(first);
	int used;

	if (family == AF_INET && inet_pton(AF_INET, first, &in) == 1) {
		in.s_addr = htonl(ntohl(in.s_addr) + (uint32_t)i);
		return inet_ntop(AF_INET, &in, out, (socklen_t)len);
	}
	if (i == 0)
		return snprintf(out, len, "%s", first) < (int)len;
	while (digits > 0 && isdigit((unsigned char)first[digits - 1]))
		digits--;
	if (!first[digits] || strlen(first + digits) > 18)
		return false;
	number = strtoull(first + digits, NULL, 10) + i;
	used = snprintf(out, len, "%.*s%0*llu", (int)digits, first, (int)strlen(first + digits),
			(unsigned long long)number);
	return used < (int)len;
}

/** Insert the address of one name, like fi_av_insert. */
static int insert_name(struct fid_av *fid, const char *node, const char *service, fi_addr_t *fi_addr, uint64_t flags,
		       void *context)
{
	struct ufi_av *av = container_of(fid, struct ufi_av, av);
	union ufi_sockaddr sockaddr = {0}; /* stays all zeros if the name is not resolved; the insertion then fails */
	struct nic_rdm_addr addr;

	if (!ufi_addr_resolve(node, service, family_of(av), 0, &addr))
		ufi_addr_to_sockaddr(&addr, &sockaddr);
	return fid->ops->insert(fid, &sockaddr, 1, fi_addr, flags, context);
}

int ufi_av_insertsvc(struct fid_av *fid, const char *node, const char *service, fi_addr_t *fi_addr, uint64_t flags,
		     void *context)
{
	if (!node || !service)
		return -FI_EINVAL;
	return insert_name(fid, node, service, fi_addr, flags, context);
}

int ufi_av_insertsym(struct fid_av *fid, const char *node, size_t nodecnt, const char *service, size_t svccnt,
		     fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	struct ufi_av *av = container_of(fid, struct ufi_av, av);
	size_t count = nodecnt * svccnt, size, n = 0;
	char name[NAME_MAX_LEN], number[32], *list;
	struct nic_rdm_addr addr;
	unsigned long port;
	char *end;
	int rc;

	if (!node || !service || !nodecnt || !svccnt || count / svccnt != nodecnt)
		return -FI_EINVAL;
	port = strtoul(service, &end, 10);
	if ((*end || port > NIC_SERVICE_PORT_MAX) && svccnt > 1)
		return -FI_EINVAL;
	size = family_of(av) == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	list = calloc(count, size);
	if (!list)
		return -FI_ENOMEM;
	for (size_t i = 0; i < nodecnt; i++) {
		bool named = node_name(node, family_of(av), i, name, sizeof(name));

		for (size_t j = 0; j < svccnt; j++, n++) {
			union ufi_sockaddr sockaddr = {0};

			snprintf(number, sizeof(number), "%lu", port + j);
			if (named && !ufi_addr_resolve(name, j ? number : service, family_of(av), 0, &addr))
				ufi_addr_to_sockaddr(&addr, &sockaddr);
			memcpy(list + n * size, &sockaddr, size);
		}
	}
	rc = fid->ops->insert(fid, list, count, fi_addr, flags, context);
	free(list);
	return rc;
}
