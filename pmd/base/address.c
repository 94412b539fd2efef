/* SPDX-License-Identifier: BSD-3-Clause */
/* address.c - GIDs as IP addresses. Owns nothing. */
#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>

#include "address.h"

static const uint8_t v4_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool pmd_gid_is_unicast(const struct nic_gid *gid)
{
	if (pmd_gid_is_v4(gid))
		return (gid->raw[12] | gid->raw[13] | gid->raw[14] | gid->raw[15]) != 0 && gid->raw[12] < 224;
	return !pmd_gid_is_none(gid) && gid->raw[0] != 0xff;
}

bool pmd_gid_parse(const char *text, struct nic_gid *gid)
{
	if (inet_pton(AF_INET, text, gid->raw + 12) == 1) {
		memcpy(gid->raw, v4_prefix, sizeof(v4_prefix));
		return true;
	}
	return inet_pton(AF_INET6, text, gid->raw) == 1;
}

const char *pmd_gid_str(const struct nic_gid *gid, char *buf, size_t len)
{
	if (pmd_gid_is_v4(gid))
		return inet_ntop(AF_INET, gid->raw + 12, buf, (socklen_t)len);
	return inet_ntop(AF_INET6, gid->raw, buf, (socklen_t)len);
}

bool pmd_gid_from_sockaddr(const struct sockaddr *sa, struct nic_gid *gid)
{
	if (sa && sa->sa_family == AF_INET) {
		memcpy(gid->raw, v4_prefix, sizeof(v4_prefix));
		memcpy(gid->raw + 12, &((const struct sockaddr_in *)(const void *)sa)->sin_addr, 4);
		return true;
	}
	if (sa && sa->sa_family == AF_INET6) {
		memcpy(gid->raw, &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr, 16);
		return true;
	}
	return false;
}

bool pmd_label_is_of(const char *label, const char *iface)
{
	size_t len = strlen(iface);

	return strncmp(label, iface, len) == 0 && (label[len] == '\0' || label[len] == ':');
}

socklen_t pmd_gid_sockaddr(const struct nic_gid *gid, uint32_t scope, struct sockaddr_in6 *out)
{
	memset(out, 0, sizeof(*out));
	if (pmd_gid_is_v4(gid)) {
		struct sockaddr_in *in = (struct sockaddr_in *)(void *)out;

		in->sin_family = AF_INET;
		in->sin_port = htons(NIC_UDP_PORT);
		memcpy(&in->sin_addr, gid->raw + 12, 4);
		return sizeof(*in);
	}
	out->sin6_family = AF_INET6;
	out->sin6_port = htons(NIC_UDP_PORT);
	memcpy(&out->sin6_addr, gid->raw, 16);
	if (pmd_gid_is_link_local(gid))
		out->sin6_scope_id = scope;
	return sizeof(*out);
}
