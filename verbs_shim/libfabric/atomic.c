/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * atomic.c - atomic operations on peers' memory (fi_atomic(3)), executed by the responder's NIC; nic/mem/elem.md
 * defines the operations. The NIC uses libfabric's numbers for datatypes and operations, including numbers that
 * only later libfabric versions define. With FI_TAGGED the target is a posted tagged receive: `key` is its tag and
 * `addr` an offset in its buffer (nic/rdm/rdm.md).
 */
#include "provider.h"
#include "requests.h"

#define ATOMIC_FLAGS (FI_COMPLETION | FI_INJECT | FI_MORE | FI_FENCE | FI_TAGGED | UFI_LEVELS)

/* ---- queries --------------------------------------------------------------------------------------------- */

static int form_count(enum nic_elem_form form, enum fi_datatype datatype, enum fi_op op, size_t *count)
{
	*count = nic_rdm_atomic_max((uint32_t)op, (uint32_t)datatype, form);
	return *count ? 0 : -FI_EOPNOTSUPP;
}

int ufi_query_atomic(struct fid_domain *domain, enum fi_datatype datatype, enum fi_op op, struct fi_atomic_attr *attr,
		     uint64_t flags)
{
	enum nic_elem_form form = flags & FI_COMPARE_ATOMIC ? NIC_ELEM_COMPARE
				  : flags & FI_FETCH_ATOMIC ? NIC_ELEM_FETCH
							    : NIC_ELEM_BASE;

	if (flags & ~(FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC | FI_TAGGED))
		return -FI_EBADFLAGS;
	if (!attr || (flags & FI_FETCH_ATOMIC && flags & FI_COMPARE_ATOMIC))
		return -FI_EINVAL;
	attr->size = nic_elem_size((uint32_t)datatype);
	return form_count(form, datatype, op, &attr->count);
}

static int atomic_writevalid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op, size_t *count)
{
	return form_count(NIC_ELEM_BASE, datatype, op, count);
}

static int atomic_readwritevalid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op, size_t *count)
{
	return form_count(NIC_ELEM_FETCH, datatype, op, count);
}

static int atomic_compwritevalid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op, size_t *count)
{
	return form_count(NIC_ELEM_COMPARE, datatype, op, count);
}

/* ---- requests -------------------------------------------------------------------------------------------- */

/** Translate a vector of elements to a vector of bytes. @return the number of elements; 0: the vector is empty
 * or invalid, or has more than `most` elements or NIC_RDM_IOV_MAX segments. */
static size_t vector_translate(const struct fi_ioc *in, size_t n, size_t size, size_t most, struct nic_iov *out)
{
	size_t total = 0;

	if (!in || n > NIC_RDM_IOV_MAX)
		return 0;
	for (size_t i = 0; i < n; i++) {
		if (in[i].count > most - total)
			return 0;
		total += in[i].count;
		out[i] = (struct nic_iov){.base = in[i].addr, .len = in[i].count * size};
	}
	return total;
}

static size_t remote_translate(const struct fi_rma_ioc *in, size_t n, size_t size, size_t most, bool tagged,
			       struct nic_rdm_remote *out)
{
	size_t total = 0;

	if (n > (tagged ? 1 : NIC_RDM_REMOTE_MAX))
		return 0;
	for (size_t i = 0; i < n; i++) {
		if ((in[i].key > UINT32_MAX && !tagged) || in[i].count > most - total)
			return 0;
		total += in[i].count;
		out[i] = (struct nic_rdm_remote){
			.addr = in[i].addr, .len = in[i].count * size, .rkey = (uint32_t)in[i].key};
	}
	return total;
}

/** The vectors of a request, translated for the NIC. */
struct vectors {
	struct nic_iov operand[NIC_RDM_IOV_MAX], compare[NIC_RDM_IOV_MAX], result[NIC_RDM_IOV_MAX];
	struct nic_rdm_remote remote[NIC_RDM_REMOTE_MAX];
};

/** Translate and check a request: all its vectors must have the same number of elements. @return 0, -FI_EINVAL,
 * -FI_EOPNOTSUPP. */
static int vectors_translate(const struct ufi_atomic *a, struct vectors *v, struct nic_rdm_atomic *request)
{
	size_t most, size = nic_elem_size((uint32_t)a->datatype), count;
	struct fi_rma_ioc one = {.addr = a->addr, .key = a->key};
	bool reads = a->op == FI_ATOMIC_READ, tagged = a->flags & FI_TAGGED;
	int rc = form_count(a->form, a->datatype, a->op, &most);

	if (rc)
		return rc;
	if (reads)
		count = vector_translate(a->result, a->n_result, size, most, v->result);
	else
		count = vector_translate(a->operand, a->n_operand, size, most, v->operand);
	one.count = count;
	if (!count ||
	    (a->form != NIC_ELEM_BASE && vector_translate(a->result, a->n_result, size, most, v->result) != count))
		return -FI_EINVAL;
	if (a->form == NIC_ELEM_COMPARE && vector_translate(a->compare, a->n_compare, size, most, v->compare) != count)
		return -FI_EINVAL;
	if (remote_translate(a->remote ? a->remote : &one, a->remote ? a->n_remote : 1, size, most, tagged,
			     v->remote) != count)
		return -FI_EINVAL;
	request->tag = a->remote ? a->remote[0].key : a->key;
	request->operand = v->operand;
	request->compare = v->compare;
	request->result = v->result;
	request->remote = v->remote;
	request->n_operand = reads ? 0 : (uint32_t)a->n_operand;
	request->n_compare = a->form == NIC_ELEM_COMPARE ? (uint32_t)a->n_compare : 0;
	request->n_result = a->form == NIC_ELEM_BASE ? 0 : (uint32_t)a->n_result;
	request->n_remote = a->remote ? (uint32_t)a->n_remote : 1;
	return 0;
}

int ufi_atomic_check(const struct ufi_core *core, const struct ufi_atomic *a)
{
	int rc = ufi_ep_check(core,
			      FI_ATOMIC | (a->flags & FI_TAGGED) | (a->form == NIC_ELEM_BASE ? FI_WRITE : FI_READ));

	if (!rc && a->flags & ~ATOMIC_FLAGS)
		rc = a->flags & FI_REMOTE_CQ_DATA ? -FI_EOPNOTSUPP : -FI_EBADFLAGS;
	return rc;
}

/** Post `request`, whose vectors are already set. Engine lock held. */
static int atomic_post(struct ufi_core *core, const struct ufi_atomic *a, struct nic_rdm_atomic *request,
		       const struct ufi_way *way)
{
	struct nic_rdm_peer *peer;
	int rc = ufi_post_begin(core, a->to, way, &peer);

	if (rc)
		return rc;
	request->context = a->context;
	request->cookie = ufi_cookie(way, a->flags);
	request->op = (uint8_t)a->op;
	request->datatype = (uint8_t)a->datatype;
	request->flags = ufi_request_flags(core, a->flags, way);
	return ufi_post_end(core, way, nic_rdm_atomic(peer, request));
}

int ufi_atomic_post(struct ufi_core *core, const struct ufi_atomic *a, const struct ufi_way *way)
{
	struct nic_rdm_atomic request = {0};
	struct vectors v;
	int rc = vectors_translate(a, &v, &request);

	return rc ? rc : atomic_post(core, a, &request, way);
}

static ssize_t atomic_request(struct ufi_ep *ep, const struct ufi_atomic *a)
{
	struct ufi_core *core = ep->core;
	struct nic_rdm_atomic request = {0};
	struct vectors v;
	int rc;

	if (a->flags & FI_TRIGGER)
		return ufi_trigger_atomic(core, a);
	rc = ufi_atomic_check(core, a);
	if (!rc)
		rc = vectors_translate(a, &v, &request);
	if (rc)
		return rc;
	if (!ufi_enter(core->domain))
		return -FI_EIO;
	return ufi_call_end(core, atomic_post(core, a, &request, &ufi_at_once));
}

/* ---- calls ----------------------------------------------------------------------------------------------- */

/** This empty list replaces a NULL list of targets from the application, and the request is then refused. In
 * ufi_atomic.remote, NULL would mean one target at addr. */
static const struct fi_rma_ioc no_target[1];

/** Set the fields common to all calls that take a struct fi_msg_atomic. */
static struct ufi_atomic from_msg(const struct ufi_ep *ep, const struct fi_msg_atomic *msg, uint64_t flags)
{
	return (struct ufi_atomic){
		.operand = msg->msg_iov,
		.n_operand = msg->iov_count,
		.remote = msg->rma_iov ? msg->rma_iov : no_target,
		.n_remote = msg->rma_iov ? msg->rma_iov_count : 0,
		.to = msg->addr,
		.datatype = msg->datatype,
		.op = msg->op,
		.flags = ufi_msg_flags(ep, flags),
		.context = msg->context,
	};
}

static ssize_t atomic_writev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc, size_t count,
			     fi_addr_t dest_addr, uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op,
			     void *context)
{
	struct ufi_ep *ep = ufi_ep_of(fid);
	struct ufi_atomic a = {.form = NIC_ELEM_BASE,
			       .operand = iov,
			       .n_operand = count,
			       .to = dest_addr,
			       .addr = addr,
			       .key = key,
			       .datatype = datatype,
			       .op = op,
			       .flags = ep->tx_flags,
			       .context = context};

	return atomic_request(ep, &a);
}

static ssize_t atomic_write(struct fid_ep *fid, const void *buf, size_t count, void *desc, fi_addr_t dest_addr,
			    uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
{
	struct fi_ioc iov = {.addr = (void *)(uintptr_t)buf, .count = count};

	return atomic_writev(fid, &iov, NULL, 1, dest_addr, addr, key, datatype, op, context);
}

static ssize_t atomic_writemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg, uint64_t flags)
{
	struct ufi_ep *ep = ufi_ep_of(fid);
	struct ufi_atomic a = from_msg(ep, msg, flags);

	a.form = NIC_ELEM_BASE;
	return atomic_request(ep, &a);
}

static ssize_t atomic_inject(struct fid_ep *fid, const void *buf, size_t count, fi_addr_t dest_addr, uint64_t addr,
			     uint64_t key, enum fi_datatype datatype, enum fi_op op)
{
	struct ufi_ep *ep = ufi_ep_of(fid);
	struct fi_ioc iov = {.addr = (void *)(uintptr_t)buf, .count = count};
	struct ufi_atomic a = {.form = NIC_ELEM_BASE,
			       .operand = &iov,
			       .n_operand = 1,
			       .to = dest_addr,
			       .addr = addr,
			       .key = key,
			       .datatype = datatype,
			       .op = op,
			       .flags = ufi_inject_flags(ep)};

	return atomic_request(ep, &a);
}

static ssize_t atomic_readwritev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc, size_t count,
				 struct fi_ioc *resultv, void **result_desc, size_t result_count, fi_addr_t dest_addr,
				 uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
{
	struct ufi_ep *ep = ufi_ep_of(fid);
	struct ufi_atomic a = {.form = NIC_ELEM_FETCH,
			       .operand = iov,
			       .n_operand = count,
			       .result = resultv,
			       .n_result = result_count,
			       .to = dest_addr,
			       .addr = addr,
			       .key = key,
			       .datatype = datatype,
			       .op = op,
			       .flags = ep->tx_flags & ~FI_INJECT, /* FI_INJECT is for calls without results */
			       .context = context};

	return atomic_request(ep, &a);
}

static ssize_t atomic_readwrite(struct fid_ep *fid, const void *buf, size_t count, void *desc, void *result,
				void *result_desc, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
				enum fi_datatype datatype, enum fi_op op, void *context)
{
	struct fi_ioc iov = {.addr = (void *)(uintptr_t)buf, .count = count};
	struct fi_ioc res = {.addr = result, .count = count};

	return atomic_readwritev(fid, &iov, NULL, 1, &res, NULL, 1, dest_addr, addr, key, datatype, op, context);
}

static ssize_t atomic_readwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg, struct fi_ioc *resultv,
				   void **result_desc, size_t result_count, uint64_t flags)
{
	struct ufi_ep *ep = ufi_ep_of(fid);
	struct ufi_atomic a = from_msg(ep, msg, flags);

	a.form = NIC_ELEM_FETCH;
	a.result = resultv;
	a.n_result = result_count;
	return atomic_request(ep, &a);
}

static ssize_t atomic_compwritev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc, size_t count,
				 const struct fi_ioc *comparev, void **compare_desc, size_t compare_count,
				 struct fi_ioc *resultv, void **result_desc, size_t result_count, fi_addr_t dest_addr,
				 uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
{
	struct ufi_ep *ep = ufi_ep_of(fid);
	struct ufi_atomic a = {.form = NIC_ELEM_COMPARE,
			       .operand = iov,
			       .n_operand = count,
			       .compare = comparev,
			       .n_compare = compare_count,
			       .result = resultv,
			       .n_result = result_count,
			       .to = dest_addr,
			       .addr = addr,
			       .key = key,
			       .datatype = datatype,
			       .op = op,
			       .flags = ep->tx_flags & ~FI_INJECT, /* FI_INJECT is for calls without results */
			       .context = context};

	return atomic_request(ep, &a);
}

static ssize_t atomic_compwrite(struct fid_ep *fid, const void *buf, size_t count, void *desc, const void *compare,
				void *compare_desc, void *result, void *result_desc, fi_addr_t dest_addr, uint64_t addr,
				uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
{
	struct fi_ioc iov = {.addr = (void *)(uintptr_t)buf, .count = count};
	struct fi_ioc cmp = {.addr = (void *)(uintptr_t)compare, .count = count};
	struct fi_ioc res = {.addr = result, .count = count};

	return atomic_compwritev(fid, &iov, NULL, 1, &cmp, NULL, 1, &res, NULL, 1, dest_addr, addr, key, datatype, op,
				 context);
}

static ssize_t atomic_compwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg, const struct fi_ioc *comparev,
				   void **compare_desc, size_t compare_count, struct fi_ioc *resultv,
				   void **result_desc, size_t result_count, uint64_t flags)
{
	struct ufi_ep *ep = ufi_ep_of(fid);
	struct ufi_atomic a = from_msg(ep, msg, flags);

	a.form = NIC_ELEM_COMPARE;
	a.compare = comparev;
	a.n_compare = compare_count;
	a.result = resultv;
	a.n_result = result_count;
	return atomic_request(ep, &a);
}

struct fi_ops_atomic ufi_atomic_ops = {
	.size = sizeof(struct fi_ops_atomic),
	.write = atomic_write,
	.writev = atomic_writev,
	.writemsg = atomic_writemsg,
	.inject = atomic_inject,
	.readwrite = atomic_readwrite,
	.readwritev = atomic_readwritev,
	.readwritemsg = atomic_readwritemsg,
	.compwrite = atomic_compwrite,
	.compwritev = atomic_compwritev,
	.compwritemsg = atomic_compwritemsg,
	.writevalid = atomic_writevalid,
	.readwritevalid = atomic_readwritevalid,
	.compwritevalid = atomic_compwritevalid,
};
