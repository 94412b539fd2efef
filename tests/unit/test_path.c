/* SPDX-License-Identifier: BSD-3-Clause */
/* test_path.c - egress paths: which packets leave by which path, what happens when a path has no room or is closed. */
#include "rig.h"
#include "wire_util.h"

#include "qp.h"
#include "qp_owner.h"
#include "trigger.h"

static void served(struct nic_qp *qp, uint32_t rkey, bool read, bool write)
{
	(void)qp;
	(void)rkey;
	(void)read;
	(void)write;
}

static const struct qp_owner an_owner = {.served = served};

static uint32_t answer;	   /* what route() returns */
static uint32_t asked_qpn; /* from the last call of route() */
static struct nic_gid asked_gid;

static uint32_t route(void *ctx, const struct nic_gid *dgid, uint32_t dest_qpn)
{
	(void)ctx;
	asked_gid = *dgid;
	asked_qpn = dest_qpn;
	return answer;
}

/* Create a rig with one more path open. Its QP is in RESET. */
static struct rig *create(enum nic_qp_type type, uint32_t flags, uint32_t *path)
{
	struct rig *rig =
		rig_create(&(struct rig_opts){.type = type, .nic = {.route = route, .max_inflight = 8 * RIG_MTU}});
	int n = nic_path_open(rig->nic, flags);

	assert_true(n > 0);
	*path = (uint32_t)n;
	answer = 0;
	return rig;
}

static unsigned take(struct rig *rig, uint32_t path, struct nic_tx_frame *frame)
{
	static uint8_t data[NIC_FRAME_MAX];

	frame->data = data;
	frame->bare = false;
	return nic_path_tx(rig->nic, path, frame, 1, rig->now);
}

static bool pending(struct rig *rig, uint32_t path)
{
	return nic_paths_pending(rig->nic)[path / 64] >> path % 64 & 1;
}

static void path__a_connected_qp_is_routed_once_and_keeps_its_path(void **state)
{
	uint32_t path;
	struct rig *rig = create(NIC_QPT_RC, 0, &path);
	struct nic_tx_frame frame;

	answer = path;
	rig_to_rts(rig);
	assert_int_equal(asked_qpn, RIG_PEER_QPN);
	assert_memory_equal(&asked_gid, &rig->peer_gid, sizeof(asked_gid));
	answer = 0;
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	assert_true(nic_tx_pending(rig->nic));
	assert_true(pending(rig, path));
	rig_expect_silence(rig); /* nothing leaves by path 0 */
	assert_int_equal(take(rig, path, &frame), 1);
	assert_false(frame.no_icrc);
	assert_int_equal(take(rig, path, &frame), 0);
	assert_false(pending(rig, path));
	/* ACKs leave by the same path. */
	rig_post_recv(rig, 2, 4096, 64);
	rig_rx_data(rig, SEND_ONLY, RIG_RQ_PSN, 0, 8);
	rig_expect_silence(rig);
	assert_int_equal(take(rig, path, &frame), 1);
	rig_destroy(rig);
}

static void path__no_icrc_path_sends_and_accepts_packets_without_icrc(void **state)
{
	uint32_t path;
	struct rig *rig = create(NIC_QPT_RC, NIC_PATH_NO_ICRC, &path);
	struct nic_tx_frame frame;
	struct nic_rx_frame rx;
	struct packet p;

	answer = path;
	rig_to_rts(rig);
	for (uint32_t len = 8; len <= RIG_MTU; len += RIG_MTU - 8) { /* short and long packets are built differently */
		rig_post_send(rig, len, NIC_WR_RDMA_WRITE, 3, len);
		assert_int_equal(take(rig, path, &frame), 1);
		assert_true(frame.no_icrc);
		assert_memory_equal(frame.data + frame.len - 4, "\0\0\0\0", 4);
		rx = (struct nic_rx_frame){.data = frame.data, .len = frame.len};
		assert_int_equal(packet_parse(&rx, &p), PACKET_BAD_ICRC);
		rx.flags = NIC_RX_NO_ICRC;
		assert_int_equal(packet_parse(&rx, &p), PACKET_OK);
		assert_int_equal(p.payload_len, len);
		assert_memory_equal(p.payload, rig->arena + 3, len);
	}
	rig_destroy(rig);
}

static void path__a_frame_with_a_separate_body_takes_its_payload_from_it(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct packet p = rig_peer_data(rig, SEND_ONLY, RIG_RQ_PSN, 0, RIG_MTU);
	uint8_t whole[NIC_FRAME_MAX], head[NIC_HEADERS_MAX];
	struct nic_rx_frame frame = {.data = head, .body = whole, .flags = NIC_RX_NO_ICRC};

	rig_post_recv(rig, 1, 4096, RIG_MTU);
	frame.len = packet_encode(&p, whole);
	memcpy(head, whole, sizeof(head));
	memset(whole, 0xff, util_payload_offset(p.op, p.v4)); /* the NIC reads the headers in `head`, not these */
	memset(head + util_payload_offset(p.op, p.v4), 0xee, sizeof(head) - util_payload_offset(p.op, p.v4));
	assert_true(nic_rx(rig->nic, &frame, rig->now));
	rig_expect_wc(rig->recv_cq, 1, NIC_WC_SUCCESS);
	rig_expect_data(rig, 4096, 0, RIG_MTU);
	rig_destroy(rig);
}

static void path__lossless_path_ignores_the_inflight_limit(void **state)
{
	static const uint32_t flags[] = {0, NIC_PATH_LOSSLESS};

	for (unsigned i = 0; i < 2; i++) {
		uint32_t path;
		struct rig *rig = create(NIC_QPT_RC, flags[i], &path);
		struct nic_tx_frame frame;
		unsigned n = 0;

		answer = path;
		rig_to_rts(rig);
		rig_post_send(rig, 1, NIC_WR_RDMA_WRITE, 0, 64 * RIG_MTU);
		while (take(rig, path, &frame))
			n++;
		assert_int_equal(n, i == 0 ? 8 : 64);
		rig_destroy(rig);
	}
}

static void path__responses_and_requests_alternate(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct packet p = rig_peer_packet(rig, READ_REQ, RIG_RQ_PSN);
	int ahead = 0; /* responses sent, minus requests sent */

	p.dma_len = 8 * RIG_MTU;
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8 * RIG_MTU);
	assert_true(rig_rx(rig, &p));
	for (unsigned i = 0; i < 16; i++) {
		assert_true(rig_tx(rig, &p));
		ahead += op_is_response(p.op) ? 1 : -1;
		assert_in_range(ahead + 1, 0, 2);
	}
	assert_int_equal(ahead, 0);
	rig_destroy(rig);
}

/* Take a packet from a lossless path. @return whether it has AckReq */
static bool taken_asks(struct rig *rig, uint32_t path)
{
	struct nic_tx_frame frame;
	struct packet p;

	assert_int_equal(take(rig, path, &frame), 1);
	assert_int_equal(packet_parse(&(struct nic_rx_frame){.data = frame.data, .len = frame.len}, &p), PACKET_OK);
	return p.ackreq;
}

static void path__lossless_path_sets_ackreq_for_signaled_requests_only(void **state)
{
	struct rig *rig = rig_create(&(struct rig_opts){.sig_none = true, .nic.route = route});
	int path = nic_path_open(rig->nic, NIC_PATH_LOSSLESS);
	struct nic_send_wr wr;

	(void)state;
	answer = (uint32_t)path;
	rig_to_rts(rig);
	for (uint32_t i = 0; i < 4; i++) {
		wr = rig_wr(rig, i, NIC_WR_SEND, 0, 8);
		wr.flags = i & 1 ? NIC_SEND_SIGNALED : 0;
		rig_post(rig, &wr);
		assert_int_equal(taken_asks(rig, answer), i & 1);
	}
	rig_ack(rig, RIG_SQ_PSN + 2, SYN_ACK); /* an ACK completes requests even if none asked for it */
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_destroy(rig);
}

static void path__lossless_path_sets_no_ackreq_for_unawaited_requests(void **state)
{
	struct rig *rig = rig_create(&(struct rig_opts){.nic.route = route});
	struct nic_send_wr wr;

	(void)state;
	answer = (uint32_t)nic_path_open(rig->nic, NIC_PATH_LOSSLESS);
	rig_to_rts(rig);
	wr = rig_wr(rig, 1, NIC_WR_SEND, 0, 8);
	wr.flags = NIC_SEND_SIGNALED | NIC_SEND_UNAWAITED;
	assert_int_equal(nic_post_send(rig->qp, &wr), -EINVAL); /* verbs cannot set this flag */
	rig->qp->send_flags |= NIC_SEND_UNAWAITED;
	assert_int_equal(nic_post_send(rig->qp, &wr), 0);
	assert_false(taken_asks(rig, answer));
	rig_ack(rig, RIG_SQ_PSN, SYN_ACK); /* an ACK completes the request nonetheless */
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_destroy(rig);
}

static void path__lossless_path_acks_on_ackreq_idle_delay_or_many_requests(void **state)
{
	struct rig *rig = rig_create(&(struct rig_opts){.nic = {.route = route, .ack_delay_ns = 1000}});
	struct nic_tx_frame frame;
	struct packet p;
	int path;

	(void)state;
	path = nic_path_open(rig->nic, NIC_PATH_LOSSLESS);
	answer = (uint32_t)path;
	rig_to_rts(rig);
	for (uint32_t i = 0; i < 8; i++) {
		p = rig_peer_data(rig, WRITE_ONLY, RIG_RQ_PSN + i, 0, 8);
		p.ackreq = i == 3;
		rig_rx(rig, &p);
		assert_int_equal(take(rig, answer, &frame), 0);
		nic_ack_flush(rig->nic, i == 6);
		assert_int_equal(take(rig, answer, &frame), i == 3 || i == 6);
		assert_int_equal(nic_acks_wait(rig->nic), i != 3 && i != 6);
	}
	rig_advance(rig, 1000);
	assert_int_equal(take(rig, answer, &frame), 1);
	for (uint32_t i = 8; i < 8 + 20; i++) { /* requests without a pause: an ACK leaves nonetheless */
		p = rig_peer_data(rig, WRITE_ONLY, RIG_RQ_PSN + i, 0, 8);
		p.ackreq = false;
		rig_rx(rig, &p);
	}
	assert_int_equal(take(rig, answer, &frame), 1);
	rig_destroy(rig);
}

/* ACKs leave before requests, because the peer may need the ACK to continue. */
static void path__an_ack_goes_before_a_request(void **state)
{
	struct rig *rig = rig_create(&(struct rig_opts){.nic = {.route = route, .ack_delay_ns = 1000}});
	int path = nic_path_open(rig->nic, NIC_PATH_LOSSLESS);
	struct nic_tx_frame frame;

	(void)state;
	answer = (uint32_t)path;
	rig_to_rts(rig);
	for (uint32_t i = 0; i < 3; i++) {
		rig_rx_data(rig, WRITE_ONLY, RIG_RQ_PSN + i, 0, 8);
		rig_post_send(rig, i, NIC_WR_SEND, 0, 8);
		assert_int_equal(take(rig, answer, &frame), 1);
		assert_int_equal(frame.data[28], ACK);
		assert_true(frame.ordered);
		assert_int_equal(take(rig, answer, &frame), 1);
		assert_int_equal(frame.data[28], SEND_ONLY);
		assert_false(frame.ordered);
		rig_ack(rig, RIG_SQ_PSN + i, SYN_ACK);
	}
	rig_destroy(rig);
}

static void path__each_datagram_uses_its_own_path_in_posting_order(void **state)
{
	uint32_t path;
	struct rig *rig = create(NIC_QPT_UD, 0, &path);
	struct nic_av av = {.dgid = rig->peer_gid};
	struct nic_send_wr wr;
	struct nic_tx_frame frame;
	struct nic_ah *ah;

	rig_to_rts(rig);
	assert_int_equal(nic_ah_create(rig->pd, &av, &ah), 0);
	for (uint32_t i = 0; i < 6; i++) {
		answer = i == 1 || i == 2 || i == 4 ? path : 0;
		wr = rig_wr(rig, i, NIC_WR_SEND, 0, 8);
		wr.ud.ah = ah;
		wr.ud.remote_qpn = i;
		wr.ud.remote_qkey = RIG_QKEY;
		rig_post(rig, &wr);
		assert_int_equal(asked_qpn, i);
	}
	/* Datagrams leave in the order in which they were posted, each by its own path. */
	assert_int_equal(take(rig, path, &frame), 0);
	assert_int_equal(take(rig, 0, &frame), 1);
	assert_int_equal(take(rig, 0, &frame), 0);
	assert_int_equal(take(rig, path, &frame), 1);
	assert_int_equal(take(rig, path, &frame), 1);
	assert_int_equal(take(rig, path, &frame), 0);
	assert_int_equal(take(rig, 0, &frame), 1);
	/* Once the path is closed, the datagram for that path and the last datagram leave by path 0. */
	nic_path_close(rig->nic, path);
	assert_int_equal(take(rig, 0, &frame), 1);
	assert_int_equal(take(rig, 0, &frame), 1);
	for (uint32_t i = 0; i < 6; i++)
		rig_expect_wc(rig->send_cq, i, NIC_WC_SUCCESS);
	nic_ah_destroy(ah);
	rig_destroy(rig);
}

/** A NOP has no path: it does not inherit that of the datagram which had the same place in the send queue before. */
static void path__nop_does_not_inherit_the_path_of_an_earlier_datagram(void **state)
{
	uint32_t path;
	struct rig *rig = create(NIC_QPT_UD, 0, &path);
	struct nic_send_wr wr, nop = {.wr_id = 1, .opcode = NIC_WR_NOP};
	struct nic_av av = {.dgid = rig->peer_gid};
	struct nic_tx_frame frame;
	struct nic_ah *ah;

	rig_to_rts(rig);
	answer = path;
	assert_int_equal(nic_ah_create(rig->pd, &av, &ah), 0);
	for (uint32_t i = 0; i < 64; i++) { /* use every place in the send queue */
		wr = rig_wr(rig, i, NIC_WR_SEND, 0, 8);
		wr.ud.ah = ah;
		wr.ud.remote_qpn = 1;
		wr.ud.remote_qkey = RIG_QKEY;
		rig_post(rig, &wr);
		/* Nothing leaves by path 0, where the QP is queued while it has no requests. */
		rig_expect_silence(rig);
		assert_int_equal(take(rig, path, &frame), 1);
		rig_expect_wc(rig->send_cq, i, NIC_WC_SUCCESS);
	}
	nic_path_close(rig->nic, path);
	rig_post(rig, &nop);
	assert_int_equal(nic_qp_path(rig->qp), 0);
	rig_expect_silence(rig);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	nic_ah_destroy(ah);
	rig_destroy(rig);
}

/** A request on path 0 that sends nothing completes, and the datagram posted after it leaves by its own path. */
static void check_behind(const struct nic_send_wr *nothing)
{
	uint32_t path;
	struct rig *rig = create(NIC_QPT_UD, 0, &path);
	struct nic_send_wr silent = *nothing, wr;
	struct nic_av av = {.dgid = rig->peer_gid};
	struct nic_tx_frame frame;
	struct nic_ah *ah;

	rig_to_rts(rig);
	assert_int_equal(nic_ah_create(rig->pd, &av, &ah), 0);
	answer = 0;
	if (silent.opcode != NIC_WR_NOP) {
		silent = rig_wr(rig, 1, NIC_WR_SEND, 0, 4097);
		silent.ud.ah = ah;
	}
	rig_post(rig, &silent);
	answer = path;
	wr = rig_wr(rig, 2, NIC_WR_SEND, 0, 8);
	wr.ud.ah = ah;
	rig_post(rig, &wr);
	assert_int_equal(take(rig, 0, &frame), 0);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_expect_no_wc(rig->send_cq);
	assert_int_equal(take(rig, path, &frame), 1);
	rig_expect_wc(rig->send_cq, 2, NIC_WC_SUCCESS);
	nic_ah_destroy(ah);
	rig_destroy(rig);
}

static void path__a_datagram_after_a_request_without_packets_uses_its_own_path(void **state)
{
	const struct nic_send_wr nop = {.wr_id = 1, .opcode = NIC_WR_NOP};
	const struct nic_send_wr oversize = {.wr_id = 1, .opcode = NIC_WR_SEND};

	(void)state;
	check_behind(&nop);
	check_behind(&oversize);
}

/** A path's datagrams can be discarded as lost. The requests posted after them are still sent. */
static void path__datagrams_can_be_lost(void **state)
{
	uint32_t path;
	struct rig *rig = create(NIC_QPT_UD, 0, &path);
	struct nic_av av = {.dgid = rig->peer_gid};
	uint8_t data[NIC_FRAME_MAX];
	struct nic_tx_frame frame = {.data = data};
	struct nic_send_wr wr;
	struct nic_ah *ah;

	rig_to_rts(rig);
	assert_int_equal(nic_ah_create(rig->pd, &av, &ah), 0);
	for (uint32_t i = 0; i < 5; i++) {
		answer = i < 4 ? path : 0;
		wr = rig_wr(rig, i, NIC_WR_SEND, 0, 8);
		wr.ud.ah = ah;
		rig_post(rig, &wr);
	}
	assert_false(nic_path_pending(rig->nic, 0)); /* although the QP was first queued on path 0 */
	assert_true(nic_path_pending(rig->nic, path));
	assert_int_equal(nic_path_lose(rig->nic, path, &frame, 3, rig->now), 3);
	assert_true(nic_path_pending(rig->nic, path));
	assert_int_equal(nic_path_lose(rig->nic, path, &frame, 3, rig->now), 1);
	assert_false(pending(rig, path));
	assert_false(nic_path_pending(rig->nic, path));
	assert_true(nic_path_pending(rig->nic, 0)); /* the datagram posted after the lost ones */
	assert_int_equal(take(rig, 0, &frame), 1);
	for (uint32_t i = 0; i < 5; i++)
		rig_expect_wc(rig->send_cq, i, NIC_WC_SUCCESS);
	nic_ah_destroy(ah);
	rig_destroy(rig);
}

static void check_not_lost(enum nic_qp_type type)
{
	uint32_t path;
	struct rig *rig = create(type, 0, &path);
	uint8_t data[NIC_FRAME_MAX];
	struct nic_tx_frame frame = {.data = data};

	answer = path;
	rig_to_rts(rig);
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	assert_int_equal(nic_path_lose(rig->nic, path, &frame, 3, rig->now), 0);
	assert_true(nic_path_pending(rig->nic, path));
	nic_port_set(rig->nic, false);
	assert_false(nic_path_pending(rig->nic, path));
	nic_port_set(rig->nic, true);
	assert_int_equal(take(rig, path, &frame), 1);
	assert_false(pending(rig, path)); /* the QP was unqueued with its last packet */
	assert_false(nic_path_pending(rig->nic, path));
	rig_destroy(rig);
}

static void path__packets_of_connected_qps_are_not_discarded(void **state)
{
	(void)state;
	check_not_lost(NIC_QPT_RC);
	check_not_lost(NIC_QPT_UC);
}

/** A path discards an endpoint's request: the request is sent again, and fails in the end. A pending ACK is not
 *  discarded. */
static void path__discarded_endpoint_requests_are_retransmitted_until_they_fail(void **state)
{
	uint32_t path;
	struct rig *rig = create(NIC_QPT_RC, 0, &path);
	uint8_t data[NIC_FRAME_MAX];
	struct nic_tx_frame frame = {.data = data};

	(void)state;
	answer = path;
	rig_to_rts(rig);
	rig->qp->owner = &an_owner;
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	rig_rx_data(rig, WRITE_ONLY, RIG_RQ_PSN, 0, 8);
	assert_int_equal(nic_path_lose(rig->nic, path, &frame, 3, rig->now), 1);
	assert_int_equal(nic_path_lose(rig->nic, path, &frame, 3, rig->now), 0);
	assert_true(nic_path_pending(rig->nic, path)); /* the ACK is pending */
	for (unsigned tries = 0; nic_cq_count(rig->send_cq) == 0; tries++) {
		assert_true(tries < 20);
		rig->now = nic_next_deadline(rig->nic);
		nic_timeout(rig->nic, rig->now);
		nic_path_lose(rig->nic, path, &frame, 3, rig->now);
	}
	rig_expect_wc(rig->send_cq, 1, NIC_WC_RETRY_EXC_ERR);
	rig_destroy(rig);
}

static void path__packets_for_a_closed_path_are_sent_by_path_0(void **state)
{
	uint32_t path;
	struct rig *rig = create(NIC_QPT_RC, NIC_PATH_NO_ICRC, &path);
	struct nic_tx_frame frame;

	answer = path;
	rig_to_rts(rig);
	rig_post_send(rig, 1, NIC_WR_RDMA_WRITE, 0, 3 * RIG_MTU);
	assert_int_equal(take(rig, path, &frame), 1);
	assert_true(pending(rig, path));
	nic_path_close(rig->nic, path);
	assert_false(pending(rig, path));
	/* Packets sent by the closed path can be lost, so they are sent again. Now they have an ICRC: rig_expect_tx
	 * checks it. */
	rig_expect_tx(rig, WRITE_FIRST, RIG_SQ_PSN);
	rig_expect_tx(rig, WRITE_MIDDLE, RIG_SQ_PSN + 1);
	rig_expect_tx(rig, WRITE_LAST, RIG_SQ_PSN + 2);
	rig_ack(rig, RIG_SQ_PSN + 2, SYN_ACK);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_destroy(rig);
}

/** When a path closes, its packets are sent again even if no retry is left, because this is not counted as a retry.
 *  Acknowledged packets are not sent again. */
static void path__closing_a_path_consumes_no_retry(void **state)
{
	uint32_t path;
	struct rig *rig = create(NIC_QPT_RC, 0, &path);
	struct nic_tx_frame frame;
	uint64_t due;

	answer = path;
	rig->attr.retry_cnt = 0;
	rig_to_rts(rig);
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	rig_post_send(rig, 2, NIC_WR_SEND, 0, 8);
	assert_int_equal(take(rig, path, &frame), 1);
	assert_int_equal(take(rig, path, &frame), 1);
	rig_ack(rig, RIG_SQ_PSN, SYN_ACK);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	due = nic_next_deadline(rig->nic);
	rig->now = due - 1;
	nic_timeout(rig->nic, rig->now);
	nic_path_close(rig->nic, path);
	rig->now = due; /* closing the path has restarted the timer */
	nic_timeout(rig->nic, rig->now);
	rig_expect_no_wc(rig->send_cq);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN + 1);
	rig_expect_silence(rig);
	rig_ack(rig, RIG_SQ_PSN + 1, SYN_ACK);
	rig_expect_wc(rig->send_cq, 2, NIC_WC_SUCCESS);
	rig_destroy(rig);
}

/** A path closes during a READ: path 0 requests the rest of the data again, but the responses that the peer has already
 *  sent to the first request are still accepted. */
static void path__a_read_accepts_earlier_responses_after_its_path_closes(void **state)
{
	static const uint8_t answers[] = {READ_RESP_FIRST,  READ_RESP_MIDDLE, READ_RESP_MIDDLE,
					  READ_RESP_MIDDLE, READ_RESP_MIDDLE, READ_RESP_LAST};
	const uint32_t packets = sizeof(answers);
	uint32_t path;
	struct rig *rig = create(NIC_QPT_RC, NIC_PATH_LOSSLESS, &path);
	struct nic_tx_frame frame;

	answer = path;
	rig_to_rts(rig);
	rig_post_send(rig, 1, NIC_WR_RDMA_READ, 0, packets * RIG_MTU);
	assert_int_equal(take(rig, path, &frame), 1);
	assert_int_equal(take(rig, path, &frame), 0);
	rig_rx_data(rig, answers[0], RIG_SQ_PSN, 0, RIG_MTU);
	nic_path_close(rig->nic, path);
	assert_int_equal(rig_expect_tx(rig, READ_REQ, RIG_SQ_PSN + 1).dma_len, (packets - 1) * RIG_MTU);
	for (uint32_t i = 1; i < packets; i++)
		rig_rx_data(rig, answers[i], RIG_SQ_PSN + i, i * RIG_MTU, RIG_MTU);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
	rig_expect_data(rig, 0, 0, packets * RIG_MTU);
	rig_destroy(rig);
}

static void path__a_route_to_an_unopened_path_falls_back_to_path_0(void **state)
{
	uint32_t path;
	struct rig *rig = create(NIC_QPT_RC, 0, &path);

	answer = path + 1;
	rig_to_rts(rig);
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
	rig_destroy(rig);
	rig = create(NIC_QPT_RC, 0, &path);
	answer = 100000;
	rig_to_rts(rig);
	rig_post_send(rig, 1, NIC_WR_SEND, 0, 8);
	rig_expect_tx(rig, SEND_ONLY, RIG_SQ_PSN);
	rig_destroy(rig);
}

static void path__the_number_is_limited_and_closed_numbers_are_reused(void **state)
{
	struct rig *rig = rig_create(NULL);

	for (int i = 1; i < NIC_PATHS_MAX; i++)
		assert_int_equal(nic_path_open(rig->nic, 0), i);
	assert_int_equal(nic_path_open(rig->nic, 0), -ENOSPC);
	nic_path_close(rig->nic, 77);
	assert_int_equal(nic_path_open(rig->nic, 0), 77);
	rig_destroy(rig);
}

/** A triggered request whose post fails with -EAGAIN until there is room. */
struct late {
	struct nic_trig_work trig;
	struct rig *rig;
	bool room;
};

static int post_late(struct nic_trig_work *trig)
{
	struct late *late = (struct late *)trig;

	if (!late->room)
		return -EAGAIN;
	rig_post_send(late->rig, 1, NIC_WR_SEND, 0, 8);
	return 0;
}

/* Asking whether a path has packets pending may start triggered work; the packets of that work are reported. */
static void path__pending_check_reports_packets_of_work_it_triggers(void **state)
{
	uint32_t path;
	struct rig *rig = create(NIC_QPT_RC, 0, &path);
	struct late late = {.trig.fire = post_late, .rig = rig};
	struct nic_trig_cntr cntr;
	struct nic_tx_frame frame;

	(void)state;
	answer = path;
	rig_to_rts(rig);
	nic_trig_cntr_init(&cntr);
	assert_int_equal(nic_trig_queue(rig->nic, &cntr, 0, &late.trig), 0);
	nic_trig_run(rig->nic);
	assert_false(nic_path_pending(rig->nic, path));
	late.room = true;
	nic_trig_retry(rig->nic);
	assert_true(nic_path_pending(rig->nic, path));
	assert_int_equal(take(rig, path, &frame), 1);
	nic_trig_cntr_fini(&cntr);
	rig_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(path__a_connected_qp_is_routed_once_and_keeps_its_path),
		cmocka_unit_test(path__no_icrc_path_sends_and_accepts_packets_without_icrc),
		cmocka_unit_test(path__a_frame_with_a_separate_body_takes_its_payload_from_it),
		cmocka_unit_test(path__lossless_path_ignores_the_inflight_limit),
		cmocka_unit_test(path__responses_and_requests_alternate),
		cmocka_unit_test(path__lossless_path_sets_ackreq_for_signaled_requests_only),
		cmocka_unit_test(path__lossless_path_sets_no_ackreq_for_unawaited_requests),
		cmocka_unit_test(path__lossless_path_acks_on_ackreq_idle_delay_or_many_requests),
		cmocka_unit_test(path__an_ack_goes_before_a_request),
		cmocka_unit_test(path__each_datagram_uses_its_own_path_in_posting_order),
		cmocka_unit_test(path__nop_does_not_inherit_the_path_of_an_earlier_datagram),
		cmocka_unit_test(path__a_datagram_after_a_request_without_packets_uses_its_own_path),
		cmocka_unit_test(path__datagrams_can_be_lost),
		cmocka_unit_test(path__packets_of_connected_qps_are_not_discarded),
		cmocka_unit_test(path__discarded_endpoint_requests_are_retransmitted_until_they_fail),
		cmocka_unit_test(path__packets_for_a_closed_path_are_sent_by_path_0),
		cmocka_unit_test(path__closing_a_path_consumes_no_retry),
		cmocka_unit_test(path__a_read_accepts_earlier_responses_after_its_path_closes),
		cmocka_unit_test(path__a_route_to_an_unopened_path_falls_back_to_path_0),
		cmocka_unit_test(path__the_number_is_limited_and_closed_numbers_are_reused),
		cmocka_unit_test(path__pending_check_reports_packets_of_work_it_triggers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
