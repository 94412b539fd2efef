/* SPDX-License-Identifier: BSD-3-Clause */
/* cm.c - the scenario of runner.h through librdmacm: resolve, connect, a message each way, disconnect. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runner.h"
#include "wc.h"

#define PORT	   7475
#define BYTES	   32768u
#define AT_RECV	   BYTES
#define AREA	   (2 * BYTES)
#define WAIT_MS	   20000 /* longer than the connection manager takes to repeat a message */
#define RESOLVE_MS 5000
#define BACKLOG	   16

struct side {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	uint8_t *area;
};

static struct sockaddr_in address(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(PORT)};

	if (inet_pton(AF_INET, getenv("UROCE_DEVICES"), &at.sin_addr) != 1)
		exit(2);
	return at;
}

/* ---- both sides ---------------------------------------------------------------------------------------------- */

static bool qp_open(struct side *s, struct failure *f)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .cap = {4, 4, 1, 1, 0}, .sq_sig_all = 1};

	MUST_TRUE(PHASE_CONNECT, s->area = calloc(1, AREA));
	MUST_TRUE(PHASE_CONNECT, rdma_create_qp(s->id, NULL, &init) == 0);
	MUST_TRUE(PHASE_CONNECT, s->mr = rdma_reg_msgs(s->id, s->area, AREA));
	MUST_TRUE(PHASE_CONNECT, rdma_post_recv(s->id, NULL, s->area + AT_RECV, BYTES, s->mr) == 0);
	return true;
}

static bool id_close(struct side *s, struct failure *f)
{
	struct side was = *s;

	s->id = NULL;
	s->mr = NULL;
	s->area = NULL;
	if (was.mr)
		MUST_TRUE(PHASE_CLOSE, rdma_dereg_mr(was.mr) == 0);
	if (was.id && was.id->qp)
		rdma_destroy_qp(was.id);
	if (was.id)
		MUST_TRUE(PHASE_CLOSE, rdma_destroy_id(was.id) == 0);
	free(was.area);
	return true;
}

/* ---- the victim ---------------------------------------------------------------------------------------------- */

/** Wait for an event. Those of PHASE_OPEN depend on no packets. @return whether it is the wanted one */
static bool event(struct side *s, int phase, enum rdma_cm_event_type want, struct failure *f)
{
	struct pollfd p = {.fd = s->channel->fd, .events = POLLIN};
	struct rdma_cm_event *e;
	enum rdma_cm_event_type got;
	int status;
	bool (*unwanted)(struct failure *, int, const char *, int) = phase == PHASE_OPEN ? failed : lost;

	if (poll(&p, 1, WAIT_MS) != 1)
		return unwanted(f, phase, "no event", 0);
	MUST_TRUE(phase, rdma_get_cm_event(s->channel, &e) == 0);
	got = e->event;
	status = e->status;
	rdma_ack_cm_event(e);
	return got == want || unwanted(f, phase, rdma_event_str(got), abs(status));
}

/** Wait for a completion. Error completions: see wc.h. */
static bool completion(struct ibv_cq *cq, struct failure *f)
{
	struct ibv_wc wc;

	for (int ms = 0; ms < WAIT_MS; ms++) {
		int got = ibv_poll_cq(cq, 1, &wc);

		if (got < 0)
			return failed(f, PHASE_TRANSFER, "ibv_poll_cq", -got);
		if (got == 1)
			return wc.status == IBV_WC_SUCCESS || broken(f, PHASE_TRANSFER, wc.status);
		poll(NULL, 0, 1);
	}
	return lost(f, PHASE_TRANSFER, "no completion", 0);
}

static bool talk(struct side *s, struct failure *f)
{
	struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1, .retry_count = 7};
	struct sockaddr_in at = address();

	MUST_TRUE(PHASE_OPEN, s->channel = rdma_create_event_channel());
	MUST_TRUE(PHASE_OPEN, rdma_create_id(s->channel, &s->id, NULL, RDMA_PS_TCP) == 0);
	MUST_TRUE(PHASE_OPEN, rdma_resolve_addr(s->id, NULL, (struct sockaddr *)&at, RESOLVE_MS) == 0);
	if (!event(s, PHASE_OPEN, RDMA_CM_EVENT_ADDR_RESOLVED, f))
		return false;
	MUST_TRUE(PHASE_OPEN, rdma_resolve_route(s->id, RESOLVE_MS) == 0);
	if (!event(s, PHASE_OPEN, RDMA_CM_EVENT_ROUTE_RESOLVED, f) || !qp_open(s, f))
		return false;
	MUST_TRUE(PHASE_CONNECT, rdma_connect(s->id, &param) == 0);
	if (!event(s, PHASE_CONNECT, RDMA_CM_EVENT_ESTABLISHED, f))
		return false;
	fill(s->area, BYTES, 1);
	MUST_TRUE(PHASE_TRANSFER, rdma_post_send(s->id, NULL, s->area, BYTES, s->mr, 0) == 0);
	if (!completion(s->id->send_cq, f) || !completion(s->id->recv_cq, f))
		return false;
	if (!holds(s->area + AT_RECV, BYTES, 2))
		return failed(f, PHASE_TRANSFER, "wrong answer", 0);
	MUST_TRUE(PHASE_CLOSE, rdma_disconnect(s->id) == 0);
	return event(s, PHASE_CLOSE, RDMA_CM_EVENT_DISCONNECTED, f);
}

static bool victim(int fd, struct failure *f)
{
	struct side s = {0};
	bool well = talk(&s, f);

	(void)fd;
	well &= id_close(&s, f);
	if (s.channel)
		rdma_destroy_event_channel(s.channel);
	return well;
}

/* ---- the partner --------------------------------------------------------------------------------------------- */

static struct side partner;
static struct rdma_cm_id *listener;

static bool partner_open(void)
{
	struct sockaddr_in at = address();

	partner.channel = rdma_create_event_channel();
	return partner.channel && fcntl(partner.channel->fd, F_SETFL, O_NONBLOCK) == 0 &&
	       rdma_create_id(partner.channel, &listener, NULL, RDMA_PS_TCP) == 0 &&
	       rdma_bind_addr(listener, (struct sockaddr *)&at) == 0 && rdma_listen(listener, BACKLOG) == 0;
}

/** Accept a request. One from an earlier victim, which ended before its request was read, ends with an event. */
static void request(struct side *s, struct rdma_cm_id *id)
{
	struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1, .rnr_retry_count = 7};
	struct failure f = {0};

	id_close(s, &f);
	s->id = id;
	if (!qp_open(s, &f) || rdma_accept(id, &param) != 0)
		id_close(s, &f);
}

static void events(struct side *s)
{
	struct rdma_cm_event *e;

	while (rdma_get_cm_event(s->channel, &e) == 0) {
		struct rdma_cm_id *id = e->id;
		enum rdma_cm_event_type what = e->event;

		rdma_ack_cm_event(e);
		if (what == RDMA_CM_EVENT_CONNECT_REQUEST)
			request(s, id);
		else if (what != RDMA_CM_EVENT_ESTABLISHED && id == s->id)
			id_close(s, &(struct failure){0});
	}
}

/** Answer the victim's message. */
static void answer(struct side *s)
{
	struct ibv_wc wc;

	if (!s->id || !s->id->qp || ibv_poll_cq(s->id->recv_cq, 1, &wc) != 1 || wc.status != IBV_WC_SUCCESS)
		return;
	fill(s->area, BYTES, 2);
	if (holds(s->area + AT_RECV, BYTES, 1))
		rdma_post_send(s->id, NULL, s->area, BYTES, s->mr, 0);
}

static void partner_serve(int fd)
{
	struct pollfd p[] = {{.fd = fd, .events = POLLIN}, {.fd = partner.channel->fd, .events = POLLIN}};

	while (poll(p, 2, 1) >= 0 && p[0].revents == 0) { /* until the victim closes its end */
		events(&partner);
		answer(&partner);
	}
	/* The connection ends with an event, or with the next request, which may have come already. */
}

const struct scenario scenario = {.victim = victim, .partner_open = partner_open, .partner_serve = partner_serve};
