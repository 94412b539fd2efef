/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ep.c - endpoints (fi_endpoint(3)), from opening to closing. Enabling an endpoint takes a port of the device and
 * creates the NIC's endpoint on it; from then on peers can reach the endpoint. An alias shares the endpoint but has its
 * own default flags.
 */
#include "work.h"

#define NS_PER_MS 1000000ull

static struct ufi_ep *ep_of(struct fid *fid)
{
	return container_of(fid, struct ufi_ep, ep.fid);
}

/* ---- enabling -------------------------------------------------------------------------------------------- */

/* Check that the endpoint is bound to everything that its capabilities require. @return 0, or the error. */
static int ep_complete(const struct ufi_core *core)
{
	bool sends = core->caps & (FI_SEND | FI_READ | FI_WRITE), receives = core->caps & FI_RECV;

	if (core->type->type == FI_EP_MSG && !core->cm.eq)
		return -FI_ENOEQ;
	if (core->type->type != FI_EP_MSG && !core->av)
		return -FI_ENOAV;
	if (receives && core->rx_shared && !core->srx)
		return -FI_EOPBADSTATE;
	if (sends && core->tx_shared && !core->stx)
		return -FI_EOPBADSTATE;
	if (sends && !core->tx_cq && !core->cntrs[UFI_COUNT_SEND] && !core->cntrs[UFI_COUNT_READ] &&
	    !core->cntrs[UFI_COUNT_WRITE])
		return -FI_ENOCQ;
	return receives && !core->rx_cq && !core->cntrs[UFI_COUNT_RECV] ? -FI_ENOCQ : 0;
}

/* Whether peers' accesses through this endpoint are counted, in its counters and those of memory regions (fi_mr(3)).
 * True with FI_RMA_EVENT. Also true for an endpoint with neither FI_REMOTE_READ nor FI_REMOTE_WRITE, because
 * applications can bind counters of peers' accesses to it (ep_bind.c). */
static bool counts_peers(const struct ufi_core *core)
{
	return core->caps & FI_RMA_EVENT || !(core->caps & (FI_REMOTE_READ | FI_REMOTE_WRITE));
}

static int ep_create(struct ufi_core *core)
{
	struct nic_rdm_init init = {
		.pd = core->domain->pd,
		.addr = core->addr,
		.max_tx = (uint32_t)(core->stx ? core->stx->size : core->tx_size),
		.max_rx = (uint32_t)core->rx_size,
		.connect_ns = (uint64_t)ufi_params.connect_ms * NS_PER_MS,
		.peer_ns = (uint64_t)ufi_params.peer_ms * NS_PER_MS,
		.max_unexpected = ufi_params.max_unexpected,
		.rq = core->srx ? core->srx->ep.own.rq : NULL,
		.datagrams = core->type->type == FI_EP_DGRAM,
		.done = ufi_done,
		.served = counts_peers(core) ? ufi_served : NULL,
		.cm = core->type->type == FI_EP_MSG ? ufi_cm_event : NULL,
		.ctx = core,
	};
	int rc;

	/* max_tx is not raised for datagrams: their send queue allocates all its entries at once. */
	if (init.max_tx < UFI_TX_TAKEN && !init.datagrams)
		init.max_tx = UFI_TX_TAKEN;
	if (init.max_rx < UFI_RX_TAKEN)
		init.max_rx = UFI_RX_TAKEN;
	if (!ufi_enter(core->domain))
		return -FI_EIO;
	rc = core->srx && core->av && !ufi_srx_accepts(core->srx, core->av) ? -FI_EINVAL : 0;
	if (!rc)
		rc = nic_rdm_create(core->domain->nic, &init, &core->rdm);
	if (!rc && !core->srx)
		core->rq = nic_rdm_rq_of(core->rdm);
	for (uint32_t i = 0; !rc && core->av && i < core->av->n; i++)
		ufi_ep_meet(core, i);
	ufi_leave(core->domain);
	return rc;
}

int ufi_ep_enable(struct ufi_core *core)
{
	int rc = ep_complete(core);

	if (core->rdm || rc)
		return core->rdm ? -FI_EOPBADSTATE : rc;
	if (!core->served)
		rc = pmd_service_open(core->domain->engine, &core->addr.port);
	if (rc)
		return rc;
	core->served = true;
	return ep_create(core);
}

/* ---- control --------------------------------------------------------------------------------------------- */

void ufi_ep_flags(struct ufi_ep *ep)
{
	const struct ufi_core *core = ep->core;

	ep->tx_flags = ep->tx_op_flags | (core->tx_selective ? 0 : FI_COMPLETION);
	ep->rx_flags = ep->rx_op_flags | (core->rx_selective ? 0 : FI_COMPLETION);
	ep->tx_msg_flags = (ep->tx_op_flags & UFI_LEVELS) | (core->tx_selective ? 0 : FI_COMPLETION);
	ep->rx_msg_flags = core->rx_selective ? 0 : FI_COMPLETION;
}

/** Set or get the default flags of one direction: `*flags` contains FI_TRANSMIT or FI_RECV. */
static int ep_op_flags(struct ufi_ep *ep, uint64_t *flags, bool set)
{
	uint64_t which = *flags & (FI_TRANSMIT | FI_RECV), rest = *flags & ~which;
	uint64_t *at = which == FI_TRANSMIT ? &ep->tx_op_flags : &ep->rx_op_flags;

	if (which != FI_TRANSMIT && which != FI_RECV)
		return -FI_EINVAL;
	if (!set) {
		*flags = *at;
		return 0;
	}
	if (rest &
	    ~((which == FI_TRANSMIT ? ep->core->type->tx_op_flags : UFI_RX_OP_FLAGS) | (ep->core->caps & FI_TRIGGER)))
		return -FI_EBADFLAGS;
	*at = rest;
	ufi_ep_flags(ep);
	return 0;
}

static int ep_alias(struct ufi_ep *ep, struct fi_alias *arg)
{
	struct ufi_ep *alias;
	int rc;

	if (!ep->core->rdm)
		return -FI_EOPBADSTATE;
	alias = malloc(sizeof(*alias));
	if (!alias)
		return -FI_ENOMEM;
	*alias = *ep;
	rc = ep_op_flags(alias, &arg->flags, true);
	if (rc) {
		free(alias);
		return rc;
	}
	atomic_fetch_add(&ep->core->aliases, 1);
	*arg->fid = &alias->ep.fid;
	return 0;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
	struct ufi_ep *ep = ep_of(fid);

	if (command == FI_ENABLE)
		return ufi_ep_enable(ep->core);
	if (!arg)
		return -FI_EINVAL;
	switch (command) {
	case FI_ALIAS:
		return ep_alias(ep, arg);
	case FI_GETOPSFLAG:
		return ep_op_flags(ep, arg, false);
	case FI_SETOPSFLAG:
		return ep_op_flags(ep, arg, true);
	default:
		return -FI_ENOSYS;
	}
}

static ssize_t ep_cancel(fid_t fid, void *context)
{
	struct ufi_core *core = ep_of(fid)->core;
	int rc = -FI_ENOENT;

	if (!core->rq && !core->rdm && !core->srx)
		return -FI_EOPBADSTATE;
	if (!ufi_enter(core->domain))
		return -FI_EIO;
	if (ufi_work_cancel_triggered(core, context))
		rc = 0;
	else if (core->rq) /* receives of a shared context cannot be canceled through an endpoint */
		rc = nic_rdm_rq_cancel(core->rq, context);
	ufi_retry_work(core->domain); /* triggered work may have waited for the room that is free now */
	ufi_leave(core->domain);
	return rc;
}

static int ep_getopt(fid_t fid, int level, int optname, void *optval, size_t *optlen)
{
	struct ufi_core *core = ep_of(fid)->core;
	size_t value;

	if (level != FI_OPT_ENDPOINT)
		return -FI_ENOPROTOOPT;
	if (!optval || !optlen)
		return -FI_EINVAL;
	switch (optname) {
	case FI_OPT_MIN_MULTI_RECV:
		value = core->min_multi_recv;
		break;
	case FI_OPT_CM_DATA_SIZE:
		value = core->type->type == FI_EP_MSG ? NIC_RDM_CM_DATA_MAX : 0;
		break;
	default:
		return -FI_ENOPROTOOPT;
	}
	if (*optlen < sizeof(value))
		return -FI_ETOOSMALL;
	memcpy(optval, &value, sizeof(value));
	*optlen = sizeof(value);
	return 0;
}

static int ep_setopt(fid_t fid, int level, int optname, const void *optval, size_t optlen)
{
	struct ufi_core *core = ep_of(fid)->core;
	size_t value;

	if (level != FI_OPT_ENDPOINT || optname != FI_OPT_MIN_MULTI_RECV)
		return -FI_ENOPROTOOPT;
	if (!optval || optlen != sizeof(value))
		return -FI_EINVAL;
	memcpy(&value, optval, sizeof(value));
	core->min_multi_recv = value ? value : 1;
	return 0;
}

/* ---- names ----------------------------------------------------------------------------------------------- */

static int ep_setname(fid_t fid, void *addr, size_t addrlen)
{
	struct ufi_core *core = ep_of(fid)->core;

	if (fid->fclass != FI_CLASS_EP)
		return -FI_EOPNOTSUPP;
	if (core->served || core->cm.request)
		return -FI_EOPBADSTATE;
	return ufi_addr_local(addr, addrlen, &core->addr.gid, &core->addr.port);
}

static int ep_getname(fid_t fid, void *addr, size_t *addrlen)
{
	struct ufi_core *core = ep_of(fid)->core;

	if (!core->rdm && !core->addr.port && !core->cm.request) /* not enabled yet, and no address was set */
		return -FI_EOPBADSTATE;
	return ufi_addr_copy_out(core->cm.request ? &core->cm.local : &core->addr, addr, addrlen);
}

static int ep_no_listen(struct fid_pep *pep)
{
	return -FI_ENOSYS;
}

static int ep_no_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t paramlen)
{
	return -FI_ENOSYS;
}

static int ep_no_join(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc, void *context)
{
	return -FI_ENOSYS;
}

/* ---- opening, closing ------------------------------------------------------------------------------------ */

static void core_close(struct ufi_core *core)
{
	struct ufi_domain *domain = core->domain;

	if (!ufi_enter(domain))
		return;
	core->closing = true;
	if (core->srx)
		ufi_srx_leave(core);
	ufi_work_stop(core);
	if (core->rdm) {
		nic_rdm_no_delay(core->rdm);
		pmd_settle(domain->engine);
		ufi_cm_close(core);
		while (nic_rdm_leave(core->rdm) > 0)
			pmd_settle(domain->engine);
		nic_rdm_destroy(core->rdm);
		core->rq = NULL;
		core->rdm = NULL; /* checked by ufi_ep_meet and ufi_ep_forget, which the address vector still calls */
		ufi_stx_give(core, core->sent);
	}
	ufi_work_drop(core);
	ufi_retry_work(domain); /* triggered work may have waited for the resources that are free now */
	if (core->cm.request)
		ufi_request_leave(core->cm.request);
	ufi_leave(domain);
	if (core->served)
		pmd_service_close(domain->engine, core->addr.port);
	if (core->cm.eq)
		ufi_eq_forget(core->cm.eq, &container_of(core, struct ufi_ep, own)->ep.fid);
}

static int ep_close(struct fid *fid)
{
	struct ufi_ep *ep = ep_of(fid);
	struct ufi_core *core = ep->core;

	if (core != &ep->own) {
		atomic_fetch_sub(&core->aliases, 1);
		free(ep);
		return 0;
	}
	if (atomic_load(&core->aliases))
		return -FI_EBUSY;
	core_close(core);
	ufi_ep_unbind(core);
	atomic_fetch_sub(&core->domain->users, 1);
	free(core->peers);
	free(ep);
	return 0;
}

static struct fi_ops ep_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = ep_close,
	.bind = ufi_ep_bind,
	.control = ep_control,
	.ops_open = ufi_no_ops_open,
};

struct fi_ops_ep ufi_ep_ops = {
	.size = sizeof(struct fi_ops_ep),
	.cancel = ep_cancel,
	.getopt = ep_getopt,
	.setopt = ep_setopt,
	.tx_ctx = ufi_no_tx_ctx,
	.rx_ctx = ufi_no_rx_ctx,
	.rx_size_left = ufi_no_size_left,
	.tx_size_left = ufi_no_size_left,
};

struct fi_ops_cm ufi_ep_cm_ops = {
	.size = sizeof(struct fi_ops_cm),
	.setname = ep_setname,
	.getname = ep_getname,
	.getpeer = ufi_cm_getpeer,
	.connect = ufi_cm_connect,
	.listen = ep_no_listen,
	.accept = ufi_cm_accept,
	.reject = ep_no_reject,
	.shutdown = ufi_cm_shutdown,
	.join = ep_no_join,
};

/** Initialize an endpoint's state from `info`. @return 0, a negative fi_errno. */
static int core_init(struct ufi_core *core, struct ufi_domain *domain, const struct fi_info *info)
{
	uint64_t order = info->tx_attr ? info->tx_attr->msg_order : 0;
	int rc = 0;

	core->domain = domain;
	list_init(&core->works);
	list_init(&core->triggered);
	core->addr.gid = domain->device.gid;
	core->type = ufi_type_find(info->ep_attr->type);
	if (!core->type)
		return -FI_EINVAL;
	if (info->src_addr)
		rc = ufi_addr_local(info->src_addr, info->src_addrlen, &core->addr.gid, &core->addr.port);
	if (rc)
		return rc;
	core->caps = ufi_caps_complete(core->type, info->caps) & ~core->type->lacks;
	core->tx_shared = info->ep_attr->tx_ctx_cnt == FI_SHARED_CONTEXT;
	core->rx_shared = info->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT;
	if (core->caps & FI_RMA_EVENT)
		atomic_store(&domain->rma_event, true);
	core->reads_first = order & UFI_ORDER_WAITS;
	core->tx_size = info->tx_attr && info->tx_attr->size ? info->tx_attr->size : ufi_params.tx_size;
	core->rx_size = info->rx_attr && info->rx_attr->size ? info->rx_attr->size : ufi_params.rx_size;
	core->min_multi_recv = UFI_MIN_MULTI_RECV;
	if (core->tx_size > UFI_QUEUE_MAX || core->rx_size > UFI_QUEUE_MAX ||
	    (core->rx_shared && core->caps & UFI_SRX_LACKS))
		return -FI_EINVAL;
	return core->type->type == FI_EP_MSG && info->handle ? ufi_pep_give(core, info->handle) : 0;
}

int ufi_ep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **out, void *context)
{
	struct ufi_domain *domain = container_of(fid, struct ufi_domain, domain);
	struct ufi_ep *ep;
	int rc;

	if (!info || !info->ep_attr || !ufi_ctx_cnt_valid(info->ep_attr->tx_ctx_cnt) ||
	    !ufi_ctx_cnt_valid(info->ep_attr->rx_ctx_cnt))
		return -FI_EINVAL;
	ep = calloc(1, sizeof(*ep));
	if (!ep)
		return -FI_ENOMEM;
	ep->core = &ep->own;
	rc = core_init(ep->core, domain, info);
	if (rc) {
		free(ep);
		return rc;
	}
	ep->tx_op_flags = info->tx_attr ? info->tx_attr->op_flags : 0;
	ep->rx_op_flags = info->rx_attr ? info->rx_attr->op_flags : 0;
	ufi_ep_flags(ep);
	ep->ep.fid.fclass = FI_CLASS_EP;
	ep->ep.fid.context = context;
	ep->ep.fid.ops = &ep_fid_ops;
	ep->ep.ops = &ufi_ep_ops;
	ep->ep.cm = &ufi_ep_cm_ops;
	ep->ep.msg = &ufi_msg_ops;
	ep->ep.rma = &ufi_rma_ops;
	ep->ep.tagged = &ufi_tagged_ops;
	ep->ep.atomic = &ufi_atomic_ops;
	atomic_fetch_add(&domain->users, 1);
	*out = &ep->ep;
	return 0;
}
