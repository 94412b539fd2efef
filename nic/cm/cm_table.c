/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cm_table.c - the position of each field of each message, one row per field or part of a field (IBTA 12.6.5
 * to 12.6.11, 12.8.1, 12.8.2, 12.11.1, 12.11.2). Bytes are counted from the end of the MAD header, as in the IBTA's
 * tables, and bits from the most significant. Bits without a row are reserved.
 */
#include "cm_mad.h"

#define AT(byte)     (CM_MAD_HEADER_LEN + (byte))
#define SIZE(member) sizeof(((struct cm_mad *)0)->member)

/** A part of a field: `bits` bits of the member, of which the lowest is bit `low` (0: least significant). In the
 *  message, they begin at bit `first` of byte `at`. */
#define PART(member, at, first, bits, low)                                                                             \
	{                                                                                                              \
		.name = #member, .byte = AT(at), .bit = (first), .width = (bits), .shift = (low),                      \
		.size = SIZE(member), .offset = offsetof(struct cm_mad, member)                                        \
	}
#define FIELD(member, byte, bit, width) PART(member, byte, bit, width, 0)
#define GID(member, byte)		FIELD(member, byte, 0, CM_GID_BITS)
#define END                                                                                                            \
	{                                                                                                              \
		.name = NULL                                                                                           \
	}

#define COMM_IDS FIELD(local_id, 0, 0, 32), FIELD(remote_id, 4, 0, 32)

/** The 44 bytes of a path in REQ. */
#define REQ_PATH(path, at)                                                                                             \
	FIELD(path.local_lid, (at), 0, 16), FIELD(path.remote_lid, (at) + 2, 0, 16), GID(path.local_gid, (at) + 4),    \
		GID(path.remote_gid, (at) + 20), FIELD(path.flow_label, (at) + 36, 0, 20),                             \
		FIELD(path.rate, (at) + 39, 2, 6), FIELD(path.traffic_class, (at) + 40, 0, 8),                         \
		FIELD(path.hop_limit, (at) + 41, 0, 8), FIELD(path.sl, (at) + 42, 0, 4),                               \
		FIELD(path.subnet_local, (at) + 42, 4, 1), FIELD(path.ack_timeout, (at) + 43, 0, 5)

static const struct cm_field req_fields[] = {
	FIELD(local_id, 0, 0, 32),
	FIELD(req.vendor_id, 5, 0, 24),
	FIELD(req.service_id, 8, 0, 64),
	FIELD(req.ca_guid, 16, 0, 64),
	FIELD(req.qkey, 28, 0, 32),
	FIELD(req.qpn, 32, 0, 24),
	FIELD(req.responder_resources, 35, 0, 8),
	FIELD(req.local_eecn, 36, 0, 24),
	FIELD(req.initiator_depth, 39, 0, 8),
	FIELD(req.remote_eecn, 40, 0, 24),
	FIELD(req.remote_cm_response_timeout, 43, 0, 5),
	FIELD(req.transport, 43, 5, 2),
	FIELD(req.flow_control, 43, 7, 1),
	FIELD(req.starting_psn, 44, 0, 24),
	FIELD(req.local_cm_response_timeout, 47, 0, 5),
	FIELD(req.retry_count, 47, 5, 3),
	FIELD(req.pkey, 48, 0, 16),
	FIELD(req.mtu, 50, 0, 4),
	FIELD(req.rdc_exists, 50, 4, 1),
	FIELD(req.rnr_retry_count, 50, 5, 3),
	FIELD(req.max_cm_retries, 51, 0, 4),
	FIELD(req.srq, 51, 4, 1),
	FIELD(req.extended_transport, 51, 5, 3),
	REQ_PATH(req.primary, 52),
	REQ_PATH(req.alternate, 96),
	FIELD(req.sap_supported, 139, 5, 1),
	END,
};

static const struct cm_field mra_fields[] = {
	COMM_IDS,
	FIELD(mra.answered, 8, 0, 2),
	FIELD(mra.service_timeout, 9, 0, 5),
	END,
};

static const struct cm_field rej_fields[] = {
	COMM_IDS, FIELD(rej.answered, 8, 0, 2), FIELD(info_len, 9, 0, 7), FIELD(rej.reason, 10, 0, 16), END,
};

static const struct cm_field rep_fields[] = {
	COMM_IDS,
	FIELD(rep.qkey, 8, 0, 32),
	FIELD(rep.qpn, 12, 0, 24),
	PART(rep.vendor_id, 15, 0, 8, 16),
	FIELD(rep.local_eecn, 16, 0, 24),
	PART(rep.vendor_id, 19, 0, 8, 8),
	FIELD(rep.starting_psn, 20, 0, 24),
	PART(rep.vendor_id, 23, 0, 8, 0),
	FIELD(rep.responder_resources, 24, 0, 8),
	FIELD(rep.initiator_depth, 25, 0, 8),
	FIELD(rep.target_ack_delay, 26, 0, 5),
	FIELD(rep.failover_accepted, 26, 5, 2),
	FIELD(rep.flow_control, 26, 7, 1),
	FIELD(rep.rnr_retry_count, 27, 0, 3),
	FIELD(rep.srq, 27, 3, 1),
	FIELD(rep.ca_guid, 28, 0, 64),
	END,
};

/* Fields of RTU and DREP. */
static const struct cm_field id_fields[] = {COMM_IDS, END};

static const struct cm_field dreq_fields[] = {COMM_IDS, FIELD(dreq.remote_qpn, 8, 0, 24), END};

static const struct cm_field sidr_req_fields[] = {
	FIELD(sidr_req.request_id, 0, 0, 32),
	FIELD(sidr_req.pkey, 4, 0, 16),
	FIELD(sidr_req.service_id, 8, 0, 64),
	END,
};

static const struct cm_field sidr_rep_fields[] = {
	FIELD(sidr_rep.request_id, 0, 0, 32),  FIELD(sidr_rep.status, 4, 0, 8), FIELD(info_len, 5, 0, 8),
	PART(sidr_rep.vendor_id, 6, 0, 16, 8), FIELD(sidr_rep.qpn, 8, 0, 24),	PART(sidr_rep.vendor_id, 11, 0, 8, 0),
	FIELD(sidr_rep.service_id, 12, 0, 64), FIELD(sidr_rep.qkey, 20, 0, 32), END,
};

/* A path in LAP has another layout than in REQ: the traffic class follows the flow label, and the rate follows the
 * hop limit. */
static const struct cm_field lap_fields[] = {
	COMM_IDS,
	FIELD(lap.remote_qpn, 12, 0, 24),
	FIELD(lap.remote_cm_response_timeout, 15, 0, 5),
	FIELD(lap.path.local_lid, 20, 0, 16),
	FIELD(lap.path.remote_lid, 22, 0, 16),
	GID(lap.path.local_gid, 24),
	GID(lap.path.remote_gid, 40),
	FIELD(lap.path.flow_label, 56, 0, 20),
	FIELD(lap.path.traffic_class, 59, 0, 8),
	FIELD(lap.path.hop_limit, 60, 0, 8),
	FIELD(lap.path.rate, 61, 2, 6),
	FIELD(lap.path.sl, 62, 0, 4),
	FIELD(lap.path.subnet_local, 62, 4, 1),
	FIELD(lap.path.ack_timeout, 63, 0, 5),
	END,
};

static const struct cm_field apr_fields[] = {
	COMM_IDS,
	FIELD(info_len, 8, 0, 8),
	FIELD(apr.status, 9, 0, 8),
	END,
};

/* The messages, indexed by enum cm_attr. */
static const struct cm_message messages[] = {
	[CM_REQ] = {"REQ", req_fields, 0, AT(140)},
	[CM_MRA] = {"MRA", mra_fields, 0, AT(10)},
	[CM_REJ] = {"REJ", rej_fields, AT(12), AT(84)},
	[CM_REP] = {"REP", rep_fields, 0, AT(36)},
	[CM_RTU] = {"RTU", id_fields, 0, AT(8)},
	[CM_DREQ] = {"DREQ", dreq_fields, 0, AT(12)},
	[CM_DREP] = {"DREP", id_fields, 0, AT(8)},
	[CM_SIDR_REQ] = {"SIDR_REQ", sidr_req_fields, 0, AT(16)},
	[CM_SIDR_REP] = {"SIDR_REP", sidr_rep_fields, AT(24), AT(96)},
	[CM_LAP] = {"LAP", lap_fields, 0, AT(64)},
	[CM_APR] = {"APR", apr_fields, AT(12), AT(84)},
};

const struct cm_message *cm_message_get(uint32_t attr)
{
	if (attr >= sizeof(messages) / sizeof(messages[0]) || !messages[attr].name)
		return NULL;
	return &messages[attr];
}

uint32_t cm_mad_room(uint32_t attr)
{
	const struct cm_message *message = cm_message_get(attr);

	return message ? CM_MAD_LEN - message->data : 0;
}

const char *cm_attr_name(uint32_t attr)
{
	const struct cm_message *message = cm_message_get(attr);

	return message ? message->name : "unknown";
}
