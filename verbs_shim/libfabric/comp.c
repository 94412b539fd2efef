/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comp.c - turns the NIC's completions into completion queue entries and counter updates. All functions but
 * ufi_comp_strerror() are called with the engine's lock held.
 */
#include "provider.h"
#include "requests.h"
#include "work.h"

/** How a kind of completion is reported to libfabric applications. */
struct kind {
	uint64_t flags;
	bool received;	      /* reported in the receive queue */
	enum ufi_count count; /* the counter; UFI_COUNTS: none */
};

static const struct kind kinds[NIC_RDM_KINDS] = {
	[NIC_RDM_SEND] = {FI_SEND, false, UFI_COUNT_SEND},
	[NIC_RDM_RECV] = {FI_RECV, true, UFI_COUNT_RECV},
	[NIC_RDM_WRITE] = {FI_RMA | FI_WRITE, false, UFI_COUNT_WRITE},
	[NIC_RDM_READ] = {FI_RMA | FI_READ, false, UFI_COUNT_READ},
	[NIC_RDM_ATOMIC] = {FI_ATOMIC | FI_WRITE, false, UFI_COUNT_WRITE},
	[NIC_RDM_FETCH] = {FI_ATOMIC | FI_READ, false, UFI_COUNT_READ},
	[NIC_RDM_REMOTE_WRITE] = {FI_RMA | FI_REMOTE_WRITE, true, UFI_COUNTS},
};

/** libfabric's error number for a failure, and a message that is used if the NIC has none. */
struct failure {
	uint32_t status;
	int err;
	const char *sentence;
};

static const struct failure failures[] = {
	{NIC_RDM_CANCELED, FI_ECANCELED, "canceled"},
	{NIC_RDM_TRUNCATED, FI_ETRUNC, "the message was longer than the buffer"},
	{NIC_RDM_UNREACHABLE, FI_EHOSTUNREACH, "the peer did not answer"},
	{NIC_RDM_PEER_LOST, FI_ECONNABORTED, "the peer ended during the message"},
	{NIC_RDM_NO_MEMORY, FI_ENOMEM, "no memory for a connection, or for the request"},
	{NIC_RDM_REFUSED, FI_EINVAL, "the elements of an atomic operation are outside the buffer"},
	{UFI_STATUS_NO_MESSAGE, FI_ENOMSG, "no such message has arrived"},
	{UFI_STATUS_NO_SOURCE, FI_EADDRNOTAVAIL, "the sender is not in the address vector"},
	{UFI_STATUS_NO_PEER, FI_EINVAL, "the address had no peer when the work started"},
	{UFI_STATUS_UNCONNECTED, FI_ENOTCONN, "there was no connection when the work started"},
	{NIC_WC_LOC_LEN_ERR, FI_EMSGSIZE, "local length error"},
	{NIC_WC_LOC_QP_OP_ERR, FI_EINVAL, "local operation error"},
	{NIC_WC_LOC_PROT_ERR, FI_EFAULT, "local memory is not accessible"},
	{NIC_WC_WR_FLUSH_ERR, FI_ECONNABORTED, "an earlier request to this peer has failed"},
	{NIC_WC_BAD_RESP_ERR, FI_EIO, "the peer sent an invalid response"},
	{NIC_WC_LOC_ACCESS_ERR, FI_EACCES, "local access error"},
	{NIC_WC_REM_INV_REQ_ERR, FI_EREMOTEIO, "the peer rejected the request as invalid"},
	{NIC_WC_REM_ACCESS_ERR, FI_EACCES, "the peer does not allow this access to its memory"},
	{NIC_WC_REM_OP_ERR, FI_EREMOTEIO, "the peer could not execute the request"},
	{NIC_WC_RETRY_EXC_ERR, FI_ETIMEDOUT, "the peer no longer answers"},
	{NIC_WC_RNR_RETRY_EXC_ERR, FI_ENORX, "the peer was not ready for too long"},
};

static const struct failure *failure_find(uint32_t status)
{
	for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++)
		if (failures[i].status == status)
			return &failures[i];
	return NULL;
}

/* prov_errno of an error: the status in the upper half, the NIC's vendor error (0: none) in the lower half. */
#define PROV_ERRNO(status, vendor_err) ((status) << 16 | ((vendor_err)&0xffff))

const char *ufi_comp_strerror(int prov_errno)
{
	uint32_t status = (uint32_t)prov_errno >> 16, vendor_err = (uint32_t)prov_errno & 0xffff;
	const char *text = vendor_err ? nic_vendor_err_str(vendor_err) : NULL;
	const struct failure *failure = failure_find(status);

	if (text)
		return text;
	return failure ? failure->sentence : prov_errno ? "failed" : "success";
}

static void fill_error(struct ufi_comp_error *error, uint32_t status, uint32_t vendor_err)
{
	const struct failure *failure = failure_find(status);

	memset(error, 0, sizeof(*error));
	error->err = failure ? failure->err : FI_EIO;
	error->prov_errno = PROV_ERRNO(status, vendor_err);
}

/** The fi_addr_t of a sender. If the peer has no fi_addr_t yet, look it up now: the application may have inserted the
 * address after the peer became known. */
static fi_addr_t source_of(const struct ufi_core *core, struct nic_rdm_peer *peer)
{
	struct nic_rdm_addr addr;
	fi_addr_t known;

	if (!peer || !(core->caps & FI_SOURCE))
		return FI_ADDR_NOTAVAIL;
	known = nic_rdm_peer_user(peer);
	if (known == FI_ADDR_NOTAVAIL) {
		addr = nic_rdm_peer_address(peer);
		known = ufi_av_find(core->av, &addr);
		if (known != FI_ADDR_NOTAVAIL)
			nic_rdm_peer_set_user(peer, known);
	}
	return known;
}

static void fill_comp(struct ufi_comp *comp, const struct nic_rdm_done *d)
{
	const struct kind *kind = &kinds[d->kind];

	comp->entry = (struct fi_cq_tagged_entry){.op_context = d->context, .flags = kind->flags, .len = d->len};
	if (d->kind == NIC_RDM_SEND || d->kind == NIC_RDM_RECV)
		comp->entry.flags |= d->flags & NIC_RDM_TAGGED ? FI_TAGGED : FI_MSG;
	comp->source = FI_ADDR_NOTAVAIL;
	if (!kind->received)
		return;
	comp->entry.buf = d->buf;
	comp->entry.tag = d->tag;
	if (d->flags & NIC_RDM_DATA) {
		comp->entry.flags |= FI_REMOTE_CQ_DATA;
		comp->entry.data = d->data;
	}
	if (d->flags & NIC_RDM_MULTI)
		comp->entry.flags |= FI_MULTI_RECV;
	if (d->flags & NIC_RDM_OPERATED)
		comp->entry.flags |= FI_ATOMIC;
}

/* Whether to report a received message as an error that carries the sender's address. FI_SOURCE_ERR asks for this if
 * the sender's address has no fi_addr_t. */
static bool source_unknown(const struct ufi_core *core, fi_addr_t source, const struct nic_rdm_done *d)
{
	return core->caps & FI_SOURCE_ERR && core->caps & FI_SOURCE && source == FI_ADDR_NOTAVAIL && d->peer;
}

static void fill_nameless(struct ufi_comp_error *error, const struct nic_rdm_peer *peer)
{
	struct nic_rdm_addr addr = nic_rdm_peer_address(peer);

	fill_error(error, UFI_STATUS_NO_SOURCE, 0);
	error->source_len = ufi_addr_to_sockaddr(&addr, &error->source);
}

/** Whether the completion is reported in the completion queue. */
static bool is_told(const struct ufi_core *core, const struct nic_rdm_done *d, const struct ufi_work *work, bool failed)
{
	if (d->cookie & UFI_COOKIE_COMPLETE)
		return true;
	if (work) /* deferred work reports to its own counter; if it has none, failures are reported in the queue */
		return failed && !work->completion;
	/* These are reported without FI_COMPLETION: failures, a peer's RMA write with immediate data, the end of a
	 * multi-receive buffer, and a receive of a shared context, unless the endpoint's queue is selective. */
	if (failed || d->kind == NIC_RDM_REMOTE_WRITE)
		return true;
	return d->kind == NIC_RDM_RECV && (d->flags & NIC_RDM_MULTI || (core->srx && !core->rx_selective));
}

/** Update the counters. Deferred work counts in its own counter, and in the endpoint's only with FI_COMPLETION. */
static void count(struct ufi_core *core, const struct nic_rdm_done *d, struct ufi_work *work, bool failed)
{
	const struct kind *kind = &kinds[d->kind];
	struct ufi_cntr *cntr = kind->count < UFI_COUNTS ? core->cntrs[kind->count] : NULL;

	if (work && !(d->cookie & UFI_COOKIE_COMPLETE))
		cntr = NULL;
	if (cntr)
		ufi_cntr_count(cntr, failed);
	if (work && work->completion && work->completion != cntr)
		ufi_cntr_count(work->completion, failed);
}

void ufi_tell(struct ufi_core *core, const struct nic_rdm_done *d)
{
	struct ufi_work *work = ufi_work_of(d->cookie);
	bool received = kinds[d->kind].received, failed = d->status != NIC_RDM_OK, nameless = false, told;
	struct ufi_cq *cq = received ? core->rx_cq : core->tx_cq;
	fi_addr_t source = FI_ADDR_NOTAVAIL;
	struct ufi_comp_error error;
	struct ufi_comp comp;

	if (received) {
		source = source_of(core, d->peer);
		nameless = !failed && source_unknown(core, source, d);
	}
	count(core, d, work, failed || nameless);
	told = is_told(core, d, work, failed || nameless);
	if (work)
		ufi_work_done(work, d);
	if (!cq || !told)
		return;
	fill_comp(&comp, d);
	comp.source = source;
	if (failed) {
		fill_error(&error, d->status, d->vendor_err);
		error.overflow = d->overflow;
	} else if (nameless) {
		fill_nameless(&error, d->peer);
	}
	ufi_cq_put(cq, &comp, failed || nameless ? &error : NULL);
}

void ufi_done(void *ctx, const struct nic_rdm_done *d)
{
	struct ufi_core *core = ctx;

	if (d->kind != NIC_RDM_RECV && d->kind != NIC_RDM_REMOTE_WRITE)
		ufi_stx_give(core, 1);
	if (core->closing &&
	    !(core->srx && d->kind == NIC_RDM_RECV)) /* while closing, only receives of a shared context are reported */
		return;
	if (d->kind == NIC_RDM_READ)
		core->reads--;
	ufi_tell(core, d);
}

void ufi_served(void *ctx, struct nic_rdm_peer *peer, uint32_t rkey, bool read, bool write)
{
	struct ufi_core *core = ctx;

	ufi_cntr_count_served(read ? core->cntrs[UFI_COUNT_REMOTE_READ] : NULL,
			      write ? core->cntrs[UFI_COUNT_REMOTE_WRITE] : NULL);
	ufi_mr_served(core->domain, rkey, read, write);
}

void ufi_done_peek(struct ufi_core *core, const struct ufi_recv *r, const struct nic_rdm_done *found)
{
	struct nic_rdm_done none = {.kind = NIC_RDM_RECV, .flags = NIC_RDM_TAGGED, .tag = r->tag};
	struct ufi_comp_error error;
	struct ufi_comp comp;

	fill_error(&error, UFI_STATUS_NO_MESSAGE, 0);
	fill_comp(&comp, found ? found : &none);
	comp.entry.op_context = r->context;
	comp.entry.buf = NULL;
	if (found)
		comp.source = source_of(core, found->peer);
	ufi_cq_put(core->rx_cq, &comp, found ? NULL : &error);
}
