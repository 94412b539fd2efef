/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * types.c - the endpoint types (fi_endpoint(3)): what connected endpoints (FI_EP_MSG) and datagrams (FI_EP_DGRAM) lack
 * compared with reliable datagrams (FI_EP_RDM). Applications that leave the type open get the first entry.
 */
#include "provider.h"

#define ORDER (UFI_ORDER_FREE | UFI_ORDER_WAITS)

/* With a single peer, sources need not be told apart. */
#define MSG_LACKS (FI_DIRECTED_RECV | FI_SOURCE | FI_SOURCE_ERR)

/* The source is reported only for known peers (no FI_SOURCE_ERR); a datagram has no other request to wait for (no
 * FI_FENCE). */
#define DGRAM_HAS                                                                                                      \
	(FI_MSG | FI_SEND | FI_RECV | FI_MULTI_RECV | FI_SOURCE | FI_DIRECTED_RECV | FI_TRIGGER | UFI_DOMAIN_CAPS)
#define DGRAM_LACKS (UFI_CAPS & ~DGRAM_HAS)

static const struct ufi_type types[UFI_TYPES] = {
	{
		.type = FI_EP_RDM,
		.tx_op_flags = UFI_TX_OP_FLAGS,
		.msg_order = ORDER,
		.max_msg_size = NIC_RDM_MSG_MAX,
		.max_order_size = NIC_RDM_MSG_MAX,
		.rma_iov_limit = NIC_RDM_REMOTE_MAX,
	},
	{
		.type = FI_EP_MSG,
		.lacks = MSG_LACKS,
		.tx_op_flags = UFI_TX_OP_FLAGS,
		.msg_order = ORDER,
		.max_msg_size = NIC_RDM_MSG_MAX,
		.max_order_size = NIC_RDM_MSG_MAX,
		.rma_iov_limit = NIC_RDM_REMOTE_MAX,
	},
	{
		/* Datagrams are not acknowledged. Their maximum size depends on the device. */
		.type = FI_EP_DGRAM,
		.lacks = DGRAM_LACKS,
		.tx_op_flags = UFI_TX_OP_FLAGS & ~(FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE),
	},
};

const struct ufi_type *ufi_type_at(unsigned i)
{
	return &types[i];
}

const struct ufi_type *ufi_type_find(enum fi_ep_type type)
{
	for (unsigned i = 0; i < UFI_TYPES; i++)
		if (types[i].type == type)
			return &types[i];
	return NULL;
}
