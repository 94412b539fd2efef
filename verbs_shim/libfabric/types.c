/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * types.c - the types of endpoints (fi_endpoint(3)): what one that talks to a single peer, or only sends datagrams, lacks of what
 * reliable datagrams (FI_EP_RDM) have. Programs that leave the type open get the first.
 */
#include "provider.h"

#define ORDER (UFI_ORDER_FREE | UFI_ORDER_WAITS)

/* With one peer there is nothing to tell sources apart by. */
#define MSG_LACKS (FI_DIRECTED_RECV | FI_SOURCE | FI_SOURCE_ERR)

/* Who has sent a datagram is told only when he is known; and there is no other request that a datagram could be behind (FI_FENCE). */
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
		/* Nobody says that a datagram has come. Its size is the device's business. */
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
