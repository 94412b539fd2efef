/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deferred.c - the deferred work queue of a domain (fi_trigger(3)): checks a struct fi_deferred_work and translates it
 * to a struct ufi_work (work.h). Every kind of request can be deferred except a peek (FI_PEEK), which returns at once.
 *
 * Only work with FI_COMPLETION counts in the endpoint's counters and, on success, gets an entry in the endpoint's
 * completion queue. FI_COMPLETION in the endpoint's default flags does not apply to deferred work.
 */
#include "work.h"

int ufi_work_cntr(const struct ufi_domain *domain, struct fid_cntr *fid, struct ufi_cntr **cntr)
{
	if (!fid || fid->fid.fclass != FI_CLASS_CNTR)
		return -FI_EINVAL;
	*cntr = container_of(fid, struct ufi_cntr, cntr);
	return (*cntr)->domain == domain ? 0 : -FI_EDOMAIN;
}

/** Find an endpoint of the domain, or for receives also a shared receive context. @return 0, -FI_EINVAL,
 * -FI_EDOMAIN. */
static int ep_find(const struct ufi_domain *domain, struct fid_ep *fid, bool receives, struct ufi_ep **ep)
{
	if (!fid || (fid->fid.fclass != FI_CLASS_EP && !(receives && fid->fid.fclass == FI_CLASS_SRX_CTX)))
		return -FI_EINVAL;
	*ep = ufi_ep_of(fid);
	return (*ep)->core->domain == domain ? 0 : -FI_EDOMAIN;
}

static uint64_t tx_flags(const struct ufi_ep *ep, uint64_t flags)
{
	return (ufi_msg_flags(ep, flags) & ~FI_COMPLETION) | (flags & FI_COMPLETION);
}

/** Store newly allocated work in *out. @return 0; -FI_ENOMEM if `work` is NULL. */
static int made(struct ufi_work *work, struct ufi_work **out)
{
	*out = work;
	return work ? 0 : -FI_ENOMEM;
}

/* The capabilities against which deferred work is checked. Here FI_MSG implies FI_TAGGED: applications that defer only
 * tagged messages (such as fabtests) request just FI_MSG, because fi_trigger(3) names no capability for the queue. The
 * endpoint itself does not get FI_TAGGED, because then its other calls would accept tagged messages too. */
static uint64_t deferrable(const struct ufi_core *core)
{
	return core->caps | (core->caps & FI_MSG ? FI_TAGGED & ~core->type->lacks : 0);
}

static int make_send(struct ufi_ep *ep, const struct ufi_send *s, struct ufi_work **out)
{
	int rc = ufi_send_check(ep->core, deferrable(ep->core), s);

	return rc ? rc : made(ufi_work_send(ep->core, s), out);
}

static int make_recv(struct ufi_ep *ep, const struct ufi_recv *r, struct ufi_work **out)
{
	int rc = r->flags & FI_PEEK ? -FI_ENOSYS : ufi_recv_check(ep->core, deferrable(ep->core), r);

	return rc ? rc : made(ufi_work_recv(ep->core, r), out);
}

static int from_msg(struct ufi_domain *domain, const struct fi_op_msg *op, bool receives, struct ufi_work **out)
{
	struct ufi_ep *ep;
	int rc = ep_find(domain, op->ep, receives, &ep);

	if (rc)
		return rc;
	if (receives)
		return make_recv(ep,
				 &(struct ufi_recv){.iov = op->msg.msg_iov,
						    .n_iov = op->msg.iov_count,
						    .from = op->msg.addr,
						    .flags = op->flags | FI_MSG,
						    .context = op->msg.context},
				 out);
	return make_send(ep,
			 &(struct ufi_send){.iov = op->msg.msg_iov,
					    .n_iov = op->msg.iov_count,
					    .to = op->msg.addr,
					    .data = op->msg.data,
					    .flags = tx_flags(ep, op->flags) | FI_MSG,
					    .context = op->msg.context},
			 out);
}

static int from_tagged(struct ufi_domain *domain, const struct fi_op_tagged *op, bool receives, struct ufi_work **out)
{
	struct ufi_ep *ep;
	int rc = ep_find(domain, op->ep, receives, &ep);

	if (rc)
		return rc;
	if (receives)
		return make_recv(ep,
				 &(struct ufi_recv){.iov = op->msg.msg_iov,
						    .n_iov = op->msg.iov_count,
						    .from = op->msg.addr,
						    .tag = op->msg.tag,
						    .ignore = op->msg.ignore,
						    .flags = op->flags | FI_TAGGED,
						    .context = op->msg.context},
				 out);
	return make_send(ep,
			 &(struct ufi_send){.iov = op->msg.msg_iov,
					    .n_iov = op->msg.iov_count,
					    .to = op->msg.addr,
					    .tag = op->msg.tag,
					    .data = op->msg.data,
					    .flags = tx_flags(ep, op->flags) | FI_TAGGED,
					    .context = op->msg.context},
			 out);
}

static int from_rma(struct ufi_domain *domain, const struct fi_op_rma *op, bool read, struct ufi_work **out)
{
	struct ufi_rma r;
	struct ufi_ep *ep;
	int rc = ep_find(domain, op->ep, false, &ep);

	if (rc)
		return rc;
	if (op->flags & (read ? FI_WRITE : FI_READ))
		return -FI_EBADFLAGS;
	r = (struct ufi_rma){.iov = op->msg.msg_iov,
			     .n_iov = op->msg.iov_count,
			     .remote = op->msg.rma_iov,
			     .n_remote = op->msg.rma_iov_count,
			     .to = op->msg.addr,
			     .data = op->msg.data,
			     .flags = tx_flags(ep, op->flags) | (read ? FI_READ : FI_WRITE),
			     .context = op->msg.context};
	rc = ufi_rma_check(ep->core, &r);
	return rc ? rc : made(ufi_work_rma(ep->core, &r), out);
}

/** `fetch` and `compare` are NULL for atomics without them. */
static int from_atomic(struct ufi_domain *domain, struct fid_ep *fid, const struct fi_msg_atomic *msg,
		       const struct fi_msg_fetch *fetch, const struct fi_msg_compare *compare, uint64_t flags,
		       struct ufi_work **out)
{
	static const struct fi_rma_ioc no_target[1];
	struct ufi_atomic a;
	struct ufi_ep *ep;
	int rc = ep_find(domain, fid, false, &ep);

	if (rc)
		return rc;
	a = (struct ufi_atomic){.form = compare ? NIC_ELEM_COMPARE
					: fetch ? NIC_ELEM_FETCH
						: NIC_ELEM_BASE,
				.operand = msg->msg_iov,
				.n_operand = msg->iov_count,
				.remote = msg->rma_iov ? msg->rma_iov : no_target,
				.n_remote = msg->rma_iov ? msg->rma_iov_count : 0,
				.to = msg->addr,
				.datatype = msg->datatype,
				.op = msg->op,
				.flags = tx_flags(ep, flags),
				.context = msg->context};
	if (fetch) {
		a.result = fetch->msg_iov;
		a.n_result = fetch->iov_count;
	}
	if (compare) {
		a.compare = compare->msg_iov;
		a.n_compare = compare->iov_count;
	}
	rc = ufi_atomic_check(ep->core, &a);
	if (!rc && !ufi_work_atomic_fits(&a))
		rc = -FI_EINVAL;
	return rc ? rc : made(ufi_work_atomic(ep->core, &a), out);
}

static int from_cntr(struct ufi_domain *domain, const struct fi_op_cntr *op, bool add, struct ufi_work **out)
{
	struct ufi_counting c = {.value = op->value, .add = add};
	int rc = ufi_work_cntr(domain, op->cntr, &c.cntr);

	return rc ? rc : made(ufi_work_count(domain, &c), out);
}

static int translate(struct ufi_domain *domain, const struct fi_deferred_work *user, struct ufi_work **out)
{
	if (!user->op.msg) /* tests all members of the union: each is a pointer */
		return -FI_EINVAL;
	switch (user->op_type) {
	case FI_OP_RECV:
	case FI_OP_SEND:
		return from_msg(domain, user->op.msg, user->op_type == FI_OP_RECV, out);
	case FI_OP_TRECV:
	case FI_OP_TSEND:
		return from_tagged(domain, user->op.tagged, user->op_type == FI_OP_TRECV, out);
	case FI_OP_READ:
	case FI_OP_WRITE:
		return from_rma(domain, user->op.rma, user->op_type == FI_OP_READ, out);
	case FI_OP_ATOMIC:
		return from_atomic(domain, user->op.atomic->ep, &user->op.atomic->msg, NULL, NULL,
				   user->op.atomic->flags, out);
	case FI_OP_FETCH_ATOMIC:
		return from_atomic(domain, user->op.fetch_atomic->ep, &user->op.fetch_atomic->msg,
				   &user->op.fetch_atomic->fetch, NULL, user->op.fetch_atomic->flags, out);
	case FI_OP_COMPARE_ATOMIC:
		return from_atomic(domain, user->op.compare_atomic->ep, &user->op.compare_atomic->msg,
				   &user->op.compare_atomic->fetch, &user->op.compare_atomic->compare,
				   user->op.compare_atomic->flags, out);
	case FI_OP_CNTR_SET:
	case FI_OP_CNTR_ADD:
		return from_cntr(domain, user->op.cntr, user->op_type == FI_OP_CNTR_ADD, out);
	default:
		return -FI_EINVAL;
	}
}

int ufi_deferred_queue(struct ufi_domain *domain, struct fi_deferred_work *user)
{
	bool counts = user->op_type == FI_OP_CNTR_SET || user->op_type == FI_OP_CNTR_ADD;
	struct ufi_cntr *trigger, *completion = NULL;
	struct ufi_work *work;
	int rc = ufi_work_cntr(domain, user->triggering_cntr, &trigger);

	if (!rc && user->completion_cntr)
		rc = counts ? -FI_EINVAL : ufi_work_cntr(domain, user->completion_cntr, &completion);
	if (!rc)
		rc = translate(domain, user, &work);
	return rc ? rc : ufi_work_queue(work, trigger, user->threshold, user, completion);
}
