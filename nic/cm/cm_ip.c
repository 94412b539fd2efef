/* SPDX-License-Identifier: BSD-3-Clause */
/* cm_ip.c - RDMA IP headers and service IDs (IBTA annex A11); see nic_cm_ip.h. Stateless. */
#include "nic_cm_ip.h"

#include "gid.h"
#include "wire.h"

enum { IP_VERSION = 0, IP_FAMILY = 1, IP_PORT = 2, IP_SOURCE = 4, IP_DESTINATION = 20 };
enum { V4_AT = 12, V4_LEN = 4 }; /* offset and length of an IPv4 address within the 16 bytes of an address */

#define SERVICE_PREFIX 0x01 /* the 40 leading bits of a service ID */

static const char *const verdict_names[NIC_CM_IP_VERDICTS] = {"ok", "too_short", "bad_version", "bad_family"};

enum nic_cm_ip_verdict nic_cm_ip_parse(const uint8_t *data, size_t len, struct nic_cm_ip *out)
{
	uint8_t family;

	memset(out, 0, sizeof(*out));
	if (len < NIC_CM_IP_LEN)
		return NIC_CM_IP_TOO_SHORT;
	if (data[IP_VERSION] != 0)
		return NIC_CM_IP_BAD_VERSION;
	family = data[IP_FAMILY] >> 4;
	if (family != 4 && family != 6)
		return NIC_CM_IP_BAD_FAMILY;
	out->version = family;
	out->port = wire_get16(data + IP_PORT);
	if (family == 4) {
		gid_from_v4(&out->source, data + IP_SOURCE + V4_AT);
		gid_from_v4(&out->destination, data + IP_DESTINATION + V4_AT);
	} else {
		memcpy(out->source.raw, data + IP_SOURCE, sizeof(out->source.raw));
		memcpy(out->destination.raw, data + IP_DESTINATION, sizeof(out->destination.raw));
	}
	return NIC_CM_IP_OK;
}

void nic_cm_ip_build(const struct nic_cm_ip *in, uint8_t data[NIC_CM_IP_LEN])
{
	size_t from = in->version == 4 ? V4_AT : 0, len = in->version == 4 ? V4_LEN : sizeof(in->source.raw);

	memset(data, 0, NIC_CM_IP_LEN);
	data[IP_FAMILY] = (uint8_t)(in->version << 4);
	wire_put16(data + IP_PORT, in->port);
	memcpy(data + IP_SOURCE + from, in->source.raw + from, len);
	memcpy(data + IP_DESTINATION + from, in->destination.raw + from, len);
}

const char *nic_cm_ip_verdict_name(enum nic_cm_ip_verdict v)
{
	return (unsigned)v < NIC_CM_IP_VERDICTS ? verdict_names[v] : "unknown";
}

bool nic_cm_service_split(uint64_t service_id, uint16_t *space, uint16_t *port)
{
	if (service_id >> 24 != SERVICE_PREFIX)
		return false;
	*space = (uint16_t)(service_id >> 16);
	*port = (uint16_t)service_id;
	return true;
}
