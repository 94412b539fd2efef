/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * types.c - the endpoint types (fi_endpoint(3)). Reliable datagrams (FI_EP_RDM) have all features. This file lists the
 * features that connected endpoints (FI_EP_MSG) lack, and those that plain datagrams (FI_EP_DGRAM) lack. If the
 * application does not ask for a type, fi_getinfo lists the types in the order of the table below.
 */
#include "provider.h"

#define ORDER (UFI_ORDER_FREE | UFI_ORDER_WAITS)

/* A connected endpoint has a single peer, so it needs no features that tell sources apart. */
#define MSG_LACKS (FI_DIRECTED_RECV | FI_SOURCE | FI_SOURCE_ERR)

/* FI_EP_DGRAM lacks FI_SOURCE_ERR, because it reports the source only of peers in its address vector, and FI_FENCE,
 * because datagrams are not acknowledged, so a fence could not wait for earlier ones. */
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
		/* Datagrams are not acknowledged, so two completion levels are missing. Their maximum size depends
		 * on the device. */
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
