/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_rdm_cm.h - part of fuzz_rdm.c: three connection-oriented endpoints. One listens, one is used to accept a
 * request, and one connects. The input decides what the other host sends them, and what the application does.
 *
 * Checked: each endpoint reports at most one result of connecting (connected, refused or timeout); a shutdown is
 * reported once, after the connection.
 */
#ifndef FUZZ_RDM_CM_H
#define FUZZ_RDM_CM_H

#include <string.h>

#include "fuzz_util.h"
#include "nic_rdm.h"

#define CM_ENDPOINTS  3
#define CM_FIRST_PORT 200

enum { CM_LISTENS, CM_CHOSEN, CM_ASKS };
enum { CM_ASK = 4, CM_ACCEPT, CM_REFUSE, CM_BYE };

static struct fuzz_cm {
	struct nic_rdm *ep;
	uint64_t incarnation; /* the incarnation in the endpoint's packets */
	/* challenge: attempt number of the endpoint's last WHO or ACCEPT. heard: attempt number of the endpoint's last
	 * call of another kind. number: number of the connection request that the endpoint reported last. */
	uint32_t challenge, heard, number;
	bool asked, connected, over;
} cm[CM_ENDPOINTS];

static void cm_event(void *ctx, const struct nic_rdm_cm_event *e)
{
	struct fuzz_cm *c = ctx;

	expect(e->len <= NIC_RDM_CM_DATA_MAX);
	if (e->kind == NIC_RDM_CM_REQUEST) {
		c->number = e->request;
		return;
	}
	expect(c->asked && !c->over);
	expect(c->connected == (e->kind == NIC_RDM_CM_SHUTDOWN));
	c->connected = e->kind == NIC_RDM_CM_CONNECTED;
	c->over = !c->connected;
}

static void cm_done(void *ctx, const struct nic_rdm_done *done)
{
	(void)ctx;
	expect(done->kind == NIC_RDM_REMOTE_WRITE); /* no operations are posted on these endpoints */
}

static void cm_open_one(struct nic *nic, struct nic_pd *pd, const struct nic_gid *gid, unsigned i)
{
	struct nic_rdm_init init = {.pd = pd,
				    .addr = {.gid = *gid, .port = (uint16_t)(CM_FIRST_PORT + i)},
				    .max_tx = 4,
				    .max_rx = 4,
				    .connect_ns = 1000000000,
				    .max_unexpected = 131072,
				    .timeout = 8,
				    .done = cm_done,
				    .cm = cm_event,
				    .listens = i == CM_LISTENS,
				    .ctx = &cm[i]};

	cm[i] = (struct fuzz_cm){0};
	expect(nic_rdm_create(nic, &init, &cm[i].ep) == 0);
}

static void cm_open(struct nic *nic, struct nic_pd *pd, const struct nic_gid *gid)
{
	for (unsigned i = 0; i < CM_ENDPOINTS; i++)
		cm_open_one(nic, pd, gid, i);
}

static void cm_close(void)
{
	for (unsigned i = 0; i < CM_ENDPOINTS; i++)
		nic_rdm_destroy(cm[i].ep);
}

/** Record a call (a datagram that makes or ends a connection) that endpoint `i` has sent. */
static void cm_heed(unsigned i, uint8_t kind, uint64_t from, uint32_t attempt)
{
	cm[i].incarnation = from;
	if (kind == 2 || kind == CM_ACCEPT)
		cm[i].challenge = attempt;
	else
		cm[i].heard = attempt;
}

/** An action of the application, chosen by the input. */
static void cm_act(struct nic *nic, struct nic_pd *pd, const struct nic_gid *gid, const struct nic_gid *host)
{
	uint8_t how = byte(), data[NIC_RDM_CM_DATA_MAX] = {how};
	struct nic_rdm_addr to = {.gid = *host, .port = (uint16_t)(101 + (how >> 7))};
	uint32_t len = byte();
	unsigned which = how >> 4 & 3;
	int rc = 0;

	len = len > NIC_RDM_CM_DATA_MAX ? NIC_RDM_CM_DATA_MAX : len;
	which = which < CM_ENDPOINTS ? which : CM_ASKS;
	switch (how & 7) {
	case 0:
	case 1:
		rc = nic_rdm_cm_accept(cm[CM_LISTENS].ep, cm[CM_LISTENS].number, cm[CM_CHOSEN].ep, data, len);
		cm[CM_CHOSEN].asked |= rc == 0;
		break;
	case 2:
		rc = nic_rdm_cm_refuse(cm[CM_LISTENS].ep, cm[CM_LISTENS].number, data, len);
		break;
	case 3:
	case 4:
		cm[CM_ASKS].asked = true; /* the event may arrive during the call */
		rc = nic_rdm_cm_connect(cm[CM_ASKS].ep, &to, data, len);
		break;
	case 5:
		nic_rdm_cm_shutdown(cm[which].ep);
		cm[which].over = true;
		break;
	case 6:
		nic_rdm_destroy(cm[which].ep);
		cm_open_one(nic, pd, gid, which);
		break;
	default:
		if (nic_rdm_cm_peer(cm[which].ep))
			expect(cm[which].connected);
	}
	expect(rc == 0 || rc == -ENOENT || rc == -EISCONN || rc == -EINVAL);
}

#endif
