/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * send.c - the messages of a NIC to others that share its XRC domains; see share.h. Each other NIC has a queue of its
 * own, and at most XRC_FLIGHT messages to it are in flight: a process that is stopped holds up the messages to itself
 * only.
 */
#include "share.h"

struct xrc_msg *xrc_msg_new(enum xrc_kind kind, uint32_t qpn, size_t len)
{
	struct xrc_head head = {.version = XRC_VERSION, .kind = (uint8_t)kind, .qpn = qpn};
	struct xrc_msg *msg = calloc(1, sizeof(*msg) + len);

	if (!msg)
		return NULL;
	msg->len = (uint32_t)len;
	memcpy(msg->bytes, &head, sizeof(head));
	return msg;
}

static enum xrc_kind kind_of(const struct xrc_msg *msg)
{
	return ((const struct xrc_head *)(const void *)msg->bytes)->kind;
}

/* ---- links ---------------------------------------------------------------------------------------------- */

static struct xrc_link *link_of(const struct nic_rdm_peer *peer)
{
	uint64_t user = nic_rdm_peer_user(peer);

	return user == UINT64_MAX ? NULL : (struct xrc_link *)(uintptr_t)user;
}

bool xrc_link_have(struct xrc_share *share, struct nic_rdm_peer *peer)
{
	struct xrc_link *link;

	if (link_of(peer))
		return true;
	link = calloc(1, sizeof(*link));
	if (!link)
		return false;
	list_init(&link->ready);
	list_init(&link->unsent);
	list_append(&share->links, &link->node);
	nic_rdm_peer_set_user(peer, (uintptr_t)link);
	return true;
}

uint32_t xrc_unsent(const struct nic_rdm_peer *peer)
{
	const struct xrc_link *link = link_of(peer);

	return link ? link->n_unsent : 0;
}

static void note_ready(struct xrc_share *share, struct xrc_link *link)
{
	if (list_empty(&link->ready) && !list_empty(&link->unsent) && link->n_sent < XRC_FLIGHT)
		list_append(&share->ready, &link->ready);
}

/* Put the message into its link's queue, before the node `place`, or if that is NULL, at the end. */
static void enqueue(struct xrc_share *share, struct xrc_link *link, struct list *place, struct xrc_msg *msg)
{
	list_append(place ? place : &link->unsent, &msg->node);
	link->n_unsent++;
	note_ready(share, link);
}

void xrc_post(struct xrc_share *share, struct nic_rdm_peer *peer, struct xrc_msg *msg)
{
	msg->peer = peer;
	enqueue(share, link_of(peer), NULL, msg);
	share->nic->owners_due = true;
}

/* ---- sending -------------------------------------------------------------------------------------------- */

void xrc_sent(struct xrc_share *share, struct xrc_msg *msg, bool delivered)
{
	struct xrc_link *link = link_of(msg->peer);

	list_remove(&msg->node);
	link->n_sent--;
	note_ready(share, link);
	if (!delivered) {
		list_append(&share->failed, &msg->node);
		return;
	}
	if (kind_of(msg) == XRC_LEND)
		lend_delivered(share, msg->peer, msg->bytes);
	free(msg);
}

/* Send the first message to another NIC. The send may complete before nic_rdm_send() returns. @return false: not now.
 */
static bool send_first(struct xrc_share *share, struct xrc_link *link)
{
	struct xrc_msg *msg = list_entry(list_pop(&link->unsent), struct xrc_msg, node);
	struct nic_iov iov = {msg->bytes, msg->len};
	int err;

	link->n_unsent--;
	link->n_sent++;
	list_append(&share->sent, &msg->node);
	err = nic_rdm_send(msg->peer, &(struct nic_rdm_send){.context = msg, .iov = &iov, .n_iov = 1});
	if (!err)
		return true;
	list_remove(&msg->node);
	link->n_sent--;
	enqueue(share, link, link->unsent.next, msg);
	if (err == -ENOMEM)
		xrc_watch(share);
	return false;
}

bool xrc_flush(struct xrc_share *share)
{
	struct list ready;

	list_init(&ready);
	list_append_all(&ready, &share->ready);
	while (!list_empty(&ready)) {
		struct xrc_link *link = list_entry(list_pop(&ready), struct xrc_link, ready);

		while (!list_empty(&link->unsent) && link->n_sent < XRC_FLIGHT)
			if (!send_first(share, link))
				break;
	}
	return !list_empty(&share->failed);
}

/* ---- messages that were not delivered, or may not have been -------------------------------------------- */

static bool calls(const struct xrc_msg *msg, enum nic_xrc_verb verb)
{
	return kind_of(msg) == XRC_CALL && ((const struct xrc_call *)(const void *)msg->bytes)->verb == verb;
}

/* Whether the message may be sent again after it was perhaps delivered. */
static bool repeats(struct xrc_share *share, struct xrc_msg *msg)
{
	if (kind_of(msg) == XRC_LEND)
		return lend_renew(share, msg->peer, msg->bytes);
	return kind_of(msg) != XRC_EVENT && !calls(msg, NIC_XRC_MODIFY);
}

/* Whether the message is to be sent until it is delivered: without it, a guest, or a target that nobody uses any more,
 * would stay as long as the domain. */
static bool must_arrive(const struct xrc_share *share, const struct xrc_msg *msg)
{
	struct nic_rdm_addr addr = nic_rdm_peer_address(msg->peer);

	return (kind_of(msg) == XRC_END || calls(msg, NIC_XRC_CLOSE)) && xrc_unsent(msg->peer) < XRC_UNSENT_MAX &&
	       xrc_is_member(share, &addr);
}

static void give_up(struct xrc_share *share, struct xrc_msg *msg)
{
	enum xrc_kind kind = kind_of(msg);

	if (kind == XRC_CALL)
		call_failed(share, msg->bytes);
	else if (kind == XRC_LEND || kind == XRC_CREDIT)
		lend_failed(share, msg->peer, msg->bytes);
	else if (kind == XRC_RESPONSE)
		guest_failed(share, msg->peer, msg->bytes);
	free(msg);
}

/* The second connection was lost, too: give up the queued messages that are marked, and mark the others. These are
 * given up when two more connections were lost. */
static void give_up_unsent(struct xrc_share *share, struct xrc_link *link)
{
	for (struct list *n = link->unsent.next, *next; n != &link->unsent; n = next) {
		struct xrc_msg *msg = list_entry(n, struct xrc_msg, node);

		next = n->next;
		if (!msg->again) {
			msg->again = true;
			continue;
		}
		list_remove(n);
		list_append(&share->failed, n);
		link->n_unsent--;
	}
}

bool xrc_send_failed(struct xrc_share *share)
{
	struct list failed;

	if (list_empty(&share->failed))
		return false;
	for (struct list *n = share->failed.next; n != &share->failed; n = n->next) {
		struct xrc_msg *msg = list_entry(n, struct xrc_msg, node);

		link_of(msg->peer)->lost_twice |= msg->again;
	}
	for (struct list *n = share->links.next; n != &share->links; n = n->next) {
		struct xrc_link *link = list_entry(n, struct xrc_link, node);

		if (link->lost_twice)
			give_up_unsent(share, link);
		link->lost_twice = false;
	}
	list_init(&failed);
	list_append_all(&failed, &share->failed); /* give_up() may post messages, which have not failed */
	while (!list_empty(&failed)) {		  /* the last first: each goes before what was not sent */
		struct xrc_msg *msg = list_entry(list_pop_last(&failed), struct xrc_msg, node);
		struct xrc_link *link = link_of(msg->peer);

		if (!msg->again && repeats(share, msg)) {
			msg->again = true;
		} else if (must_arrive(share, msg)) {
			msg->again = false;
		} else {
			give_up(share, msg);
			continue;
		}
		enqueue(share, link, link->unsent.next, msg);
	}
	return true;
}

static void free_all(struct list *msgs)
{
	while (!list_empty(msgs))
		free(list_entry(list_pop(msgs), struct xrc_msg, node));
}

void xrc_send_fini(struct xrc_share *share)
{
	while (!list_empty(&share->links)) {
		struct xrc_link *link = list_entry(list_pop(&share->links), struct xrc_link, node);

		free_all(&link->unsent);
		free(link);
	}
	free_all(&share->sent);
	free_all(&share->failed);
}
