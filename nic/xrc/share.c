/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * share.c - the endpoint by which NICs that share XRC domains talk; see share.h. Messages are handled, and sent, only
 * when the NIC settles: in the middle of a call they are queued (send.c).
 */
#include "share.h"

#include "cq.h"
#include "own_time.h"
#include "qp_state.h"
#include "rdm_nic.h"
#include "trig.h"
#include "xrc_nic.h"

/* ---- domains -------------------------------------------------------------------------------------------- */

void xrc_due(struct xrc_share *share, struct xrc_lent *lent)
{
	if (list_empty(&lent->node))
		list_append(&share->due, &lent->node);
	share->nic->owners_due = true;
}

struct nic_xrcd *xrc_domain(const struct xrc_share *share, const struct nic_xrc_name *name,
			    const struct nic_rdm_peer *peer)
{
	struct nic_rdm_addr addr = nic_rdm_peer_address(peer);

	for (struct list *n = share->nic->all_xrcds.next; n != &share->nic->all_xrcds; n = n->next) {
		struct nic_xrcd *xrcd = list_entry(n, struct nic_xrcd, node);

		if (xrcd->sharing && !memcmp(&xrcd->name, name, sizeof(*name)) &&
		    share->init.shares(share->init.ctx, xrcd, &addr))
			return xrcd;
	}
	return NULL;
}

bool xrc_is_member(const struct xrc_share *share, const struct nic_rdm_addr *addr)
{
	for (struct list *n = share->nic->all_xrcds.next; n != &share->nic->all_xrcds; n = n->next) {
		struct nic_xrcd *xrcd = list_entry(n, struct nic_xrcd, node);

		if (xrcd->sharing && share->init.shares(share->init.ctx, xrcd, addr))
			return true;
	}
	return false;
}

bool xrc_find(const struct xrc_share *share, const struct nic_xrcd *xrcd, uint32_t number, struct nic_rdm_addr *addr)
{
	const struct nic_rdm_addr *own = &share->init.addr;

	return share->init.find(share->init.ctx, xrcd, number, addr) &&
	       (addr->port != own->port || memcmp(&addr->gid, &own->gid, sizeof(own->gid)));
}

bool xrc_owns(const struct xrc_share *share, const struct nic_xrcd *xrcd, const struct nic_rdm_peer *peer, uint32_t qpn)
{
	struct nic_rdm_addr addr;

	return xrc_find(share, xrcd, qpn, &addr) && nic_rdm_peer_find(share->rdm, &addr) == peer;
}

uint32_t xrc_packet_write(const struct packet *p, uint8_t to[XRC_PACKET_MAX])
{
	struct packet bare = *p;

	bare.bare = bare.no_icrc = true;
	bare.reference = bare.offer = NULL;
	bare.referred = 0;
	bare.offers = false;
	bare.key = NULL;
	bare.pad = (uint8_t)(-p->payload_len & 3);
	return packet_encode(&bare, to);
}

bool xrc_packet_read(const uint8_t *from, uint32_t len, struct packet *p)
{
	struct nic_rx_frame frame = {.data = from, .len = len, .flags = NIC_RX_BARE | NIC_RX_NO_ICRC};

	return packet_parse(&frame, p) == PACKET_OK && p->op->service == OP_XRC;
}

_Static_assert(XRC_MSG_MAX <= NIC_RDM_EAGER_MAX, "a plain endpoint receives every message");

/* ---- the endpoint --------------------------------------------------------------------------------------- */

static bool admits(void *ctx, const struct nic_rdm_addr *from)
{
	return xrc_is_member(ctx, from);
}

static void receive(struct xrc_share *share, struct xrc_buffer *buffer)
{
	struct nic_iov iov = {buffer->bytes, sizeof(buffer->bytes)};

	nic_rdm_recv(share->rdm, &(struct nic_rdm_recv){.context = buffer, .iov = &iov, .n_iov = 1});
}

/* A message was sent, or has arrived. Called in the middle of a NIC call. */
static void done(void *ctx, const struct nic_rdm_done *d)
{
	struct xrc_share *share = ctx;

	share->nic->owners_due = true;
	if (d->kind == NIC_RDM_RECV) {
		struct xrc_buffer *buffer = d->context;

		buffer->peer = d->status == NIC_RDM_OK ? d->peer : NULL;
		if (d->status != NIC_RDM_OK && d->status != NIC_RDM_PEER_LOST) /* longer than any message */
			COUNT(share->nic, xrc_strange);
		buffer->len = (uint32_t)d->len;
		list_append(&share->arrived, &buffer->node);
	} else if (d->kind == NIC_RDM_SEND) {
		xrc_sent(share, d->context, d->status == NIC_RDM_OK);
	} else { /* the other NIC has done something by itself */
		COUNT(share->nic, xrc_strange);
	}
}

static void handle(struct xrc_share *share, const struct xrc_buffer *buffer)
{
	static const struct {
		void (*handle)(struct xrc_share *share, struct nic_rdm_peer *peer, const void *bytes, uint32_t len);
		size_t min, max;
		bool asks; /* the message asks for an answer */
	} rows[XRC_KINDS] = {
		[XRC_LEND] = {guest_lend, sizeof(struct xrc_lend) + 1, XRC_MSG_MAX, true},
		[XRC_RESPONSE] = {lend_response, sizeof(struct xrc_response) + 1, XRC_MSG_MAX},
		[XRC_CREDIT] = {guest_credit, sizeof(struct xrc_credit), sizeof(struct xrc_credit)},
		[XRC_RETURN] = {lend_return, sizeof(struct xrc_return), sizeof(struct xrc_return)},
		[XRC_END] = {guest_end, sizeof(struct xrc_end), sizeof(struct xrc_end)},
		[XRC_CALL] = {call_arrived, sizeof(struct xrc_call), sizeof(struct xrc_call), true},
		[XRC_RESULT] = {call_result, sizeof(struct xrc_result), sizeof(struct xrc_result)},
		[XRC_EVENT] = {call_event, sizeof(struct xrc_event), sizeof(struct xrc_event)},
	};
	struct xrc_head head;

	if (!buffer->peer)
		return;
	if (buffer->len < sizeof(head))
		goto strange;
	memcpy(&head, buffer->bytes, sizeof(head));
	if (head.version != XRC_VERSION || head.kind >= XRC_KINDS || buffer->len < rows[head.kind].min ||
	    buffer->len > rows[head.kind].max)
		goto strange;
	if (!xrc_link_have(share, buffer->peer) ||
	    (rows[head.kind].asks && xrc_unsent(buffer->peer) >= XRC_UNSENT_MAX)) {
		COUNT(share->nic, xrc_unheard);
		return;
	}
	rows[head.kind].handle(share, buffer->peer, buffer->bytes, buffer->len);
	return;
strange:
	COUNT(share->nic, xrc_strange);
}

/* @return whether there was anything to do. */
static bool step(struct xrc_share *share)
{
	struct list due;
	bool had = false;

	while (!list_empty(&share->arrived)) {
		struct xrc_buffer *buffer = list_entry(list_pop(&share->arrived), struct xrc_buffer, node);

		handle(share, buffer);
		receive(share, buffer);
		had = true;
	}
	had |= xrc_send_failed(share);
	list_init(&due);
	list_append_all(&due, &share->due);
	while (!list_empty(&due)) {
		lend_step(share, list_entry(list_pop(&due), struct xrc_lent, node));
		had = true;
	}
	nic_settle_failed_cqs(share->nic);
	return xrc_flush(share) || had || !list_empty(&share->arrived);
}

/* nic->settle_owners of a NIC that shares domains. */
static bool settle(struct nic *nic)
{
	struct xrc_share *share = nic->xrc_share;
	bool had = rdm_settle(nic);

	if (!share || share->busy)
		return had;
	share->busy = true;
	while (step(share)) {
		had = true;
		rdm_settle(nic);
	}
	share->busy = false;
	return had;
}

/* ---- what other NICs leave behind ----------------------------------------------------------------------- */

static void wake_at(struct xrc_share *share, uint64_t ns)
{
	struct nic *nic = share->nic;

	if (nic->xrc_ns <= ns)
		return;
	nic->xrc_ns = ns;
	rare_update(nic);
}

void xrc_watch(struct xrc_share *share)
{
	if (share->watch_ns == TIME_NEVER)
		share->watch_ns = share->nic->now + XRC_WATCH_NS;
	wake_at(share, share->watch_ns);
}

void xrc_flush_soon(struct xrc_share *share)
{
	wake_at(share, share->nic->now);
}

/* Look for what other NICs have left behind, or have not answered. */
static void watch(struct xrc_share *share)
{
	guests_prune(share);
	orphans_prune(share);
	lends_remind(share);
	share->watch_ns = TIME_NEVER;
	if (!list_empty(&share->guests) || !list_empty(&share->late) || !list_empty(&share->orphans) ||
	    !list_empty(&share->out))
		share->watch_ns = share->nic->now + XRC_WATCH_NS;
}

void xrc_timeout(struct nic *nic)
{
	struct xrc_share *share = nic->xrc_share;

	if (nic->xrc_ns > nic->now)
		return;
	nic->xrc_ns = TIME_NEVER;
	if (share) {
		if (share->watch_ns <= nic->now)
			watch(share);
		nic->xrc_ns = share->watch_ns;
		nic->owners_due = true; /* send what has been posted, or had no memory */
	}
	rare_update(nic);
}

/* ---- opening, closing ----------------------------------------------------------------------------------- */

static void leave(struct nic_xrcd *xrcd)
{
	struct xrc_share *share = xrcd->nic->xrc_share;

	if (share && guests_count(share, xrcd) == xrcd->users)
		guests_leave(share, xrcd);
}

static const struct xrc_sharing sharing = {
	.keep = lend_keep, .respond = lend_respond, .drop = lend_drop, .destroy = lend_destroy, .leave = leave};

static void share_free(struct xrc_share *share)
{
	if (share->rdm)
		nic_rdm_destroy(share->rdm);
	if (share->pd)
		nic_pd_free(share->pd);
	free(share->buffers);
	free(share);
}

int nic_xrc_share_open(struct nic *nic, const struct nic_xrc_share_init *init)
{
	struct nic_rdm_init rdm = {.addr = init->addr,
				   .max_tx = 32768, /* the most: for 1024 NICs that do not receive */
				   .max_rx = XRC_BUFFERS,
				   .max_unexpected = 65536,
				   .strict = true,
				   .plain = true,
				   .done = done,
				   .admits = admits};
	struct xrc_share *share;
	int err;

	if (nic->xrc_share)
		return -EEXIST;
	share = calloc(1, sizeof(*share));
	if (!share)
		return -ENOMEM;
	share->nic = nic;
	share->init = *init;
	share->watch_ns = TIME_NEVER;
	list_init(&share->arrived);
	list_init(&share->links);
	list_init(&share->ready);
	list_init(&share->sent);
	list_init(&share->failed);
	list_init(&share->due);
	list_init(&share->guests);
	list_init(&share->out);
	list_init(&share->late);
	list_init(&share->parked);
	list_init(&share->orphans);
	list_init(&share->calls);
	share->buffers = calloc(XRC_BUFFERS, sizeof(*share->buffers));
	err = share->buffers ? nic_pd_alloc(nic, &share->pd) : -ENOMEM;
	rdm.pd = share->pd;
	rdm.ctx = share;
	if (!err)
		err = nic_rdm_create(nic, &rdm, &share->rdm);
	if (err) {
		share_free(share);
		return err;
	}
	for (unsigned i = 0; i < XRC_BUFFERS; i++)
		receive(share, &share->buffers[i]);
	nic->xrc_share = share;
	nic->settle_owners = settle;
	return 0;
}

unsigned nic_xrc_share_leave(struct nic *nic)
{
	return nic->xrc_share ? nic_rdm_leave(nic->xrc_share->rdm) : 0;
}

void nic_xrc_share_close(struct nic *nic)
{
	struct xrc_share *share = nic->xrc_share;

	if (!share)
		return;
	share->busy = true;
	guests_leave(share, NULL);
	while (!list_empty(&share->calls)) {
		struct nic_xrc_call *call = list_entry(list_pop(&share->calls), struct nic_xrc_call, node);

		call->error = -ENODEV;
		call->done = true;
	}
	while (!list_empty(&share->due))
		list_pop(&share->due);
	while (!list_empty(&share->orphans))
		list_pop(&share->orphans);
	while (!list_empty(&share->out))
		list_pop(&share->out);
	nic->settle_owners = rdm_settle;
	nic->xrc_share = NULL;
	nic_rdm_destroy(share->rdm); /* the messages in `sent` end without a completion */
	share->rdm = NULL;
	xrc_send_fini(share);
	guests_forget(share);
	share_free(share);
}

void nic_xrcd_share(struct nic_xrcd *xrcd, const struct nic_xrc_name *name)
{
	xrcd->name = *name;
	xrcd->sharing = &sharing;
}
