/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * progress.c - passes completions and messages from the NIC to UCX. The NIC's callback only notes them, because it must
 * not call UCX or the NIC. The worker calls ux_progress, which reports them to UCX.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "ucx.h"

#define TAKE 32u /* maximum number of messages to deliver per call */

/* ---- the NIC's callback, engine lock held --------------------------------------------------------------- */

static bool ring_grow(struct ux_iface *iface)
{
	uint32_t size = iface->arrived.size ? 2 * iface->arrived.size : 256, n = iface->arrived.n;
	struct ux_message *ring = malloc(size * sizeof(*ring));

	if (!ring)
		return false;
	for (uint32_t i = 0; i < n; i++)
		ring[i] = iface->arrived.ring[(iface->arrived.head + i) & (iface->arrived.size - 1)];
	free(iface->arrived.ring);
	iface->arrived.ring = ring;
	iface->arrived.size = size;
	iface->arrived.head = 0;
	return true;
}

/* A message that a UCX peer sent carries the interface's token, is not empty, and has at most UX_BCOPY_MAX bytes. Every
 * other message comes from an unknown sender, or is for a process that had the port before. A message whose status is
 * an error is incomplete. */
static void message_arrived(struct ux_iface *iface, const struct nic_rdm_done *done)
{
	bool strange = !(done->flags & NIC_RDM_DATA) || done->data >> 32 != iface->token ||
		       (uint32_t)done->data >= UCT_AM_ID_MAX || !done->len || done->len > UX_BCOPY_MAX;
	bool valid = done->status == NIC_RDM_OK && !strange, last = done->flags & NIC_RDM_MULTI;

	iface->strange += done->status == NIC_RDM_OK && strange;
	if (!valid && !last)
		return;
	if (iface->arrived.n == iface->arrived.size && !ring_grow(iface)) {
		iface->lost = true;
		return;
	}
	iface->arrived.ring[(iface->arrived.head + iface->arrived.n++) & (iface->arrived.size - 1)] =
		(struct ux_message){
			.data = done->buf,
			.length = (uint32_t)done->len,
			.id = valid ? (uint8_t)done->data : UX_NO_ID,
			.last = last,
			.buffer = done->context,
		};
}

void ux_done(void *ctx, const struct nic_rdm_done *done)
{
	struct ux_iface *iface = ctx;
	uint64_t one = 1;

	if (done->kind == NIC_RDM_RECV) {
		message_arrived(iface, done);
	} else if (done->context) {
		struct ux_op *op = done->context;

		op->nic_status = done->status;
		if (done->status != NIC_RDM_OK && op->ep)
			op->ep->broken = true;
		list_append(&iface->due, &op->due);
	}
	if (iface->armed) {
		iface->armed = false;
		while (write(iface->event_fd, &one, sizeof(one)) < 0 && errno == EINTR)
			;
	}
}

void ux_buffer_post(struct ux_iface *iface, struct ux_buffer *buffer)
{
	struct nic_iov iov = {buffer->bytes, UX_BUFFER_BYTES};
	struct nic_rdm_recv recv = {
		.context = buffer,
		.flags = NIC_RDM_MULTI,
		.iov = &iov,
		.n_iov = 1,
		.min_free = UX_BCOPY_MAX,
	};

	if (nic_rdm_recv(iface->rdm, &recv)) /* never for lack of room: there is room for all UX_BUFFERS */
		iface->lost = true;
}

/* ---- reporting, in the worker's thread ------------------------------------------------------------------ */

void ux_complete(struct uct_completion *comp, ucs_status_t status)
{
	if (!comp)
		return;
	if (status && !comp->status)
		comp->status = status;
	if (--comp->count == 0)
		comp->func(comp);
}

/* Report an endpoint's first failure to UCX. If UCX does not handle failures (UCP_ERR_HANDLING_MODE_NONE, the default),
 * the job cannot go on, so the process ends. If UCX handles the loss of a peer, the configuration decides at which
 * level the loss is logged. */
static void ep_failed(struct ux_ep *ep, ucs_status_t status)
{
	bool gone = status == UCS_ERR_ENDPOINT_TIMEOUT;
	struct ux_iface *iface = ep->iface;
	const char *why = gone				? "a peer is gone, or does not answer"
			  : status == UCS_ERR_NO_MEMORY ? "no memory or queue pair for a connection"
							: "a peer's NIC refused a request";

	if (ep->failed)
		return;
	ep->failed = status;
	if (ux_libs.ep_error(ep->super.iface, &ep->super, status) != UCS_OK)
		ux_say(iface, UCS_LOG_FATAL, why);
	else
		ux_say(iface, gone ? iface->failure_level : UCS_LOG_ERROR, why);
}

/* Report a completed operation to UCX, and free it. UCX's completion callback or error handler may destroy the
 * endpoint; ux_ep_destroy() then sets op->ep to NULL. */
static void op_report(struct ux_iface *iface, struct ux_op *op)
{
	ucs_status_t status = ux_status(op->nic_status);
	struct uct_completion *comp = op->comp;
	struct ux_ep *ep = op->ep;

	iface->in_flight--;
	if (ep && !status && op->kind == UX_UNPACK)
		op->unpack(op->arg, op->buffer, op->length);
	if (ep && !status && op->kind == UX_FETCH && op->width == 8)
		*(uint64_t *)op->result = op->old.u64;
	else if (ep && !status && op->kind == UX_FETCH)
		*(uint32_t *)op->result = op->old.u32;
	op->comp = NULL;
	ux_complete(comp, status);
	if (op->ep && status)
		ep_failed(op->ep, status);
	ep = op->ep;
	list_remove(&op->node);
	ux_op_free(iface, op);
	if (ep)
		ux_ep_drain(ep);
}

static void message_deliver(struct ux_iface *iface, const struct ux_message *message)
{
	if (message->id != UX_NO_ID)
		iface->base->am[message->id].cb(iface->base->am[message->id].arg, message->data, message->length, 0);
	if (message->last && ux_enter(iface->md)) {
		ux_buffer_post(iface, message->buffer);
		pmd_doorbell(iface->md->engine);
		ux_leave(iface->md);
	}
}

unsigned ux_progress(struct uct_iface *tl_iface)
{
	struct ux_iface *iface = ux_iface_of(tl_iface);
	struct ux_message messages[TAKE];
	unsigned n = 0, ended = 0;
	struct list due;
	bool lost;

	if (!ux_enter(iface->md))
		return 0;
	if (list_empty(&iface->due) && !iface->arrived.n)
		pmd_progress(iface->md->engine, TAKE);
	list_init(&due);
	list_append_all(&due, &iface->due);
	for (; n < TAKE && iface->arrived.n; n++, iface->arrived.n--)
		messages[n] = iface->arrived.ring[iface->arrived.head++ & (iface->arrived.size - 1)];
	lost = iface->lost;
	ux_leave(iface->md);
	if (lost)
		ux_say(iface, UCS_LOG_FATAL, "no memory for a message that has arrived");

	for (; !list_empty(&due); ended++) {
		struct list *first = due.next;

		list_remove(first);
		iface->full = false;
		op_report(iface, list_entry(first, struct ux_op, due));
	}
	for (unsigned i = 0; i < n; i++)
		message_deliver(iface, &messages[i]);
	if (!list_empty(&iface->waiting) && !iface->full)
		ux_retry(iface);
	return ended + n;
}

/* ---- sleeping ------------------------------------------------------------------------------------------- */

ucs_status_t ux_event_fd(struct uct_iface *tl_iface, int *fd)
{
	*fd = ux_iface_of(tl_iface)->event_fd;
	return UCS_OK;
}

ucs_status_t ux_event_arm(struct uct_iface *tl_iface, unsigned events)
{
	struct ux_iface *iface = ux_iface_of(tl_iface);
	ucs_status_t status = UCS_OK;
	uint64_t count;

	if (!ux_enter(iface->md))
		return UCS_ERR_IO_ERROR;
	if (list_empty(&iface->due) && !iface->arrived.n)
		pmd_progress(iface->md->engine, 1);
	if (!list_empty(&iface->due) || iface->arrived.n) {
		status = UCS_ERR_BUSY;
	} else {
		while (read(iface->event_fd, &count, sizeof(count)) < 0 && errno == EINTR)
			;
		iface->armed = true;
		pmd_expect_sleep(iface->md->engine);
	}
	ux_leave(iface->md);
	return status;
}
