/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * match.c - hints of fi_getinfo(3): whether an endpoint can meet the hints, and the attributes that it then has. Sizes
 * in the hints must not exceed the provider's, bit sets must be subsets of the provider's, and enumerated values must
 * be among those that the provider supports. The provider fills in what a hint leaves open.
 *
 * The provider requires no memory registration mode: the application or the provider can choose keys, and addresses can
 * be virtual or offsets. An application that supports basic registration gets basic registration, because most networks
 * need that mode and the application was tested with it. If the application's mr_mode names modes besides those of
 * basic registration and FI_MR_LOCAL, the application supports all of them and checks which ones are required. The
 * provider then reports that none is required; mr_mode() has an exception.
 */
#include "provider.h"

#define MR_BASIC_BITS (FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)
/* Values for API versions before 1.5, which some later applications still use. */
#define MR_BASIC      (1 << 0)
#define MR_SCALABLE   (1 << 1)

static bool is_subset(uint64_t bits, uint64_t of)
{
	return (bits & ~of) == 0;
}

/* Whether a wanted size is within the limit. 0 and SIZE_MAX leave the size open. */
static bool fits(size_t wanted, size_t most)
{
	return wanted == SIZE_MAX || wanted <= most;
}

/** The default op_flags may contain FI_TRIGGER only if it is one of the capabilities. @return FI_TRIGGER or 0. */
static uint64_t triggers(const struct ufi_type *type, const struct fi_info *hints)
{
	return ufi_caps_complete(type, hints->caps) & FI_TRIGGER;
}

static bool tx_match(const struct ufi_type *type, const struct fi_tx_attr *tx, uint64_t triggers)
{
	return is_subset(tx->caps, UFI_TX_CAPS & ~type->lacks) &&
	       is_subset(tx->op_flags, type->tx_op_flags | triggers) && is_subset(tx->msg_order, type->msg_order) &&
	       !tx->comp_order && fits(tx->inject_size, NIC_RDM_INJECT_MAX) && fits(tx->size, UFI_QUEUE_MAX) &&
	       fits(tx->iov_limit, NIC_RDM_IOV_MAX) && fits(tx->rma_iov_limit, type->rma_iov_limit);
}

static bool rx_match(const struct ufi_type *type, const struct fi_rx_attr *rx, uint64_t triggers)
{
	return is_subset(rx->caps, UFI_RX_CAPS & ~type->lacks) && is_subset(rx->op_flags, UFI_RX_OP_FLAGS | triggers) &&
	       is_subset(rx->msg_order, type->msg_order) && !rx->comp_order && fits(rx->size, UFI_QUEUE_MAX) &&
	       fits(rx->iov_limit, NIC_RDM_IOV_MAX);
}

static bool ep_match(const struct ufi_type *type, const struct fi_ep_attr *ep)
{
	return (ep->type == FI_EP_UNSPEC || ep->type == type->type) && ep->protocol == FI_PROTO_UNSPEC &&
	       fits(ep->max_msg_size, type->max_msg_size) && !ep->msg_prefix_size &&
	       fits(ep->max_order_raw_size, type->max_order_size) &&
	       fits(ep->max_order_war_size, type->max_order_size) &&
	       fits(ep->max_order_waw_size, type->max_order_size) && ufi_ctx_cnt_valid(ep->tx_ctx_cnt) &&
	       ufi_ctx_cnt_valid(ep->rx_ctx_cnt) && !ep->auth_key_size;
}

/** Automatic progress is possible only if the engine has its background thread. */
static bool progress_match(enum fi_progress progress)
{
	return progress == FI_PROGRESS_UNSPEC || progress == FI_PROGRESS_MANUAL ||
	       (progress == FI_PROGRESS_AUTO && !pmd_progress_is_inline());
}

static bool domain_match(const struct fi_domain_attr *d)
{
	return d->threading <= FI_THREAD_ENDPOINT && progress_match(d->control_progress) &&
	       progress_match(d->data_progress) && d->resource_mgmt <= FI_RM_ENABLED && d->av_type <= FI_AV_TABLE &&
	       fits(d->cq_data_size, sizeof(uint64_t)) && fits(d->mr_iov_limit, 1) &&
	       is_subset(d->caps, UFI_DOMAIN_CAPS) && !d->auth_key_size &&
	       fits(d->max_err_data, sizeof(union ufi_sockaddr));
}

/* A shared receive context takes messages from any source, so it excludes directed receives. */
static bool sharing_match(const struct fi_info *hints)
{
	uint64_t caps = hints->caps | (hints->rx_attr ? hints->rx_attr->caps : 0);

	return !hints->ep_attr || hints->ep_attr->rx_ctx_cnt != FI_SHARED_CONTEXT || !(caps & UFI_SRX_LACKS);
}

bool ufi_hints_match(const struct ufi_type *type, const struct fi_info *hints)
{
	if (!hints)
		return true;
	return is_subset(hints->caps, UFI_CAPS & ~type->lacks) && sharing_match(hints) &&
	       hints->addr_format <= FI_SOCKADDR_IN6 &&
	       (!hints->tx_attr || tx_match(type, hints->tx_attr, triggers(type, hints))) &&
	       (!hints->rx_attr || rx_match(type, hints->rx_attr, triggers(type, hints))) &&
	       (!hints->ep_attr || ep_match(type, hints->ep_attr)) &&
	       (!hints->domain_attr || domain_match(hints->domain_attr));
}

/* ---- resulting attributes -------------------------------------------------------------------------------- */

uint64_t ufi_caps_complete(const struct ufi_type *type, uint64_t caps)
{
	uint64_t two_sided = FI_MSG | FI_TAGGED, one_sided = FI_RMA | FI_ATOMIC;

	if (!caps)
		return UFI_CAPS & ~(FI_DIRECTED_RECV | FI_SOURCE_ERR | FI_RMA_EVENT | type->lacks);
	if (caps & two_sided && !(caps & (FI_SEND | FI_RECV)))
		caps |= FI_SEND | FI_RECV;
	if (caps & one_sided && !(caps & (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)))
		caps |= FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
	return caps | (UFI_FREE_CAPS & ~type->lacks);
}

static int mr_mode(uint32_t version, const struct fi_domain_attr *d)
{
	int mode = d ? d->mr_mode : MR_BASIC_BITS;

	if (mode & MR_SCALABLE)
		return MR_SCALABLE;
	if (mode & MR_BASIC || FI_VERSION_LT(version, FI_VERSION(1, 5)))
		return MR_BASIC;
	/* 0 means: the application chooses keys, and memory is addressed by offset. An application that does not
	 * support FI_MR_PROV_KEY gets mode 0, whatever other modes it supports. */
	if (ufi_params.scalable_mr || !(mode & FI_MR_PROV_KEY))
		return 0;
	/* Nor does one that can cope with more: fabtests, which choose keys. Open MPI 5 adds FI_MR_ENDPOINT alone, and
	 * would choose keys that are too long. */
	if (mode & ~(MR_BASIC_BITS | FI_MR_LOCAL) && mode != (MR_BASIC_BITS | FI_MR_ENDPOINT))
		return 0;
	return mode & MR_BASIC_BITS;
}

static void size_apply(size_t wanted, size_t *value)
{
	if (wanted && wanted != SIZE_MAX)
		*value = wanted;
}

static void tx_apply(const struct ufi_type *type, const struct fi_tx_attr *hints, struct fi_info *info)
{
	struct fi_tx_attr *tx = info->tx_attr;

	tx->msg_order &= type->msg_order;
	tx->rma_iov_limit = type->rma_iov_limit;
	tx->caps =
		(hints && hints->caps ? ufi_caps_complete(type, hints->caps) : info->caps) & info->caps & UFI_TX_CAPS;
	if (!hints)
		return;
	tx->op_flags = hints->op_flags;
	tx->msg_order |= hints->msg_order;
	tx->tclass = hints->tclass;
	size_apply(hints->size, &tx->size);
}

static void rx_apply(const struct ufi_type *type, const struct fi_rx_attr *hints, struct fi_info *info)
{
	struct fi_rx_attr *rx = info->rx_attr;

	rx->msg_order &= type->msg_order;
	rx->caps =
		(hints && hints->caps ? ufi_caps_complete(type, hints->caps) : info->caps) & info->caps & UFI_RX_CAPS;
	if (!hints)
		return;
	rx->op_flags = hints->op_flags;
	rx->msg_order |= hints->msg_order;
	size_apply(hints->size, &rx->size);
}

static void domain_apply(const struct fi_domain_attr *hints, struct fi_domain_attr *d)
{
	if (pmd_progress_is_inline())
		d->control_progress = d->data_progress = FI_PROGRESS_MANUAL;
	if (!hints)
		return;
	if (hints->threading)
		d->threading = hints->threading;
	if (hints->control_progress)
		d->control_progress = hints->control_progress;
	if (hints->data_progress)
		d->data_progress = hints->data_progress;
	if (hints->resource_mgmt)
		d->resource_mgmt = hints->resource_mgmt;
	if (hints->av_type)
		d->av_type = hints->av_type;
}

static void ep_apply(const struct ufi_type *type, const struct fi_ep_attr *hints, struct fi_ep_attr *ep)
{
	ep->type = type->type;
	ep->max_msg_size = type->max_msg_size;
	ep->max_order_raw_size = type->max_order_size;
	ep->max_order_war_size = type->max_order_size;
	ep->max_order_waw_size = type->max_order_size;
	if (hints && hints->tx_ctx_cnt == FI_SHARED_CONTEXT)
		ep->tx_ctx_cnt = FI_SHARED_CONTEXT;
	if (hints && hints->rx_ctx_cnt == FI_SHARED_CONTEXT)
		ep->rx_ctx_cnt = FI_SHARED_CONTEXT;
}

void ufi_hints_apply(uint32_t version, const struct ufi_type *type, const struct fi_info *hints, struct fi_info *info)
{
	info->caps = ufi_caps_complete(type, hints ? hints->caps : 0);
	ep_apply(type, hints ? hints->ep_attr : NULL, info->ep_attr);
	info->domain_attr->mr_mode = mr_mode(version, hints ? hints->domain_attr : NULL);
	tx_apply(type, hints ? hints->tx_attr : NULL, info);
	rx_apply(type, hints ? hints->rx_attr : NULL, info);
	domain_apply(hints ? hints->domain_attr : NULL, info->domain_attr);
	if (!(info->tx_attr->msg_order & FI_ORDER_WAR) && !(info->tx_attr->msg_order & FI_ORDER_RMA_WAR))
		info->ep_attr->max_order_war_size = 0;
	if (hints && hints->addr_format == FI_SOCKADDR)
		info->addr_format = FI_SOCKADDR;
}
