/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_rdm_small.c - short messages of reliable-datagram endpoints, which are copied into the send queue and arrive in
 * one packet: invalid ones, and more of them than the queue has room for.
 */
#include "rdm_rig.h"

#include "rdm.h"

#include <errno.h>
#include <string.h>

#define SECOND 1000000000ull
/** Long enough for everything pending to finish. */
#define QUIET  (20 * SECOND)
#define LEN    16u
#define AT     4096u /* offset of the receive buffers in the arena */

static void talk(struct rdm_rig *rig, struct rdm_node *a, struct rdm_node *b)
{
	rdm_fill(a, 0, LEN, 77);
	memset(b->arena + AT, 0, LEN);
	assert_int_equal(rdm_send(a, b, 900, NIC_RDM_TAGGED, 99, 0, LEN), 0);
	assert_int_equal(rdm_recv(b, a, 901, NIC_RDM_TAGGED, 99, 0, AT, LEN), 0);
	assert_true(rdm_run(rig, QUIET));
	rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 900);
	rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 901);
	assert_true(rdm_holds(b, AT, LEN, 77));
}

/* ---- lengths that are not those of messages -------------------------------------------------------------------- */

/** Send an EAGER packet from a to b, as a's endpoint would: the header announces `said` bytes, `len` bytes follow. */
static void forge(struct rdm_node *a, struct rdm_node *b, uint8_t flags, uint64_t said, uint32_t len)
{
	const struct rdm_header h = {.kind = RDM_EAGER, .flags = flags, .length = said};
	uint8_t bytes[RDM_HEADER_LEN + 2 * LEN];
	struct nic_sge sge = {.addr = (uintptr_t)bytes};
	/* wr_id is 0, so that the endpoint ignores the completion. */
	const struct nic_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = NIC_WR_SEND, .flags = NIC_SEND_INLINE};

	memset(bytes, 0xee, sizeof(bytes));
	sge.length = rdm_header_put(&h, bytes) + len;
	assert_int_equal(nic_post_send(rdm_peer(a, b)->qp, &wr), 0);
}

/** A message whose length does not match its header ends the connection and is not received, even by a posted receive.
 */
static void check_length(uint64_t said, uint32_t len, uint8_t flags, bool early)
{
	struct rdm_rig *rig = rdm_rig_create(2, 80);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
	const uint32_t answers = b->ep->answers_left, tagged = flags & RDM_IS_TAGGED ? NIC_RDM_TAGGED : 0;
	struct nic_rdm_done found;
	struct nic_qp *qp;

	talk(rig, a, b);
	qp = rdm_peer(b, a)->qp;
	memset(b->arena, 0, 2 * AT);
	if (early)
		assert_int_equal(rdm_recv(b, NULL, 1, tagged, 0, 0, AT, 2 * LEN), 0);
	forge(a, b, flags, said, len);
	assert_true(rdm_run(rig, QUIET));
	assert_true(rdm_peer(b, a)->state != RDM_UP || rdm_peer(b, a)->qp != qp);
	rdm_expect_nothing(a);
	rdm_expect_nothing(b);
	assert_int_equal(b->ep->answers_left, answers); /* b owes no answer for the invalid message */
	if (!early)
		assert_int_equal(nic_rdm_peek(b->ep, &(struct nic_rdm_recv){.flags = tagged}, &found), -ENOMSG);
	for (unsigned i = 0; i < 2 * AT; i++)
		assert_int_equal(b->arena[i], 0);
	talk(rig, a, b); /* over a new connection */
	if (early) {	 /* the receive is still posted */
		rdm_fill(a, 0, LEN, 5);
		assert_int_equal(rdm_send(a, b, 2, tagged, 0, 0, LEN), 0);
		assert_true(rdm_run(rig, QUIET));
		rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 2);
		assert_int_equal(rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 1).len, LEN);
		assert_true(rdm_holds(b, AT, LEN, 5));
	}
	rdm_expect_nothing(a);
	rdm_expect_nothing(b);
	rdm_rig_destroy(rig);
}

static void rdm__a_message_with_a_wrong_length_ends_the_connection(void **state)
{
	static const struct {
		uint64_t said;
		uint32_t len;
	} lengths[] = {{LEN, LEN - 1}, {LEN, LEN + 1}, {LEN, 0}, {0, 1}, {NIC_RDM_EAGER_MAX, LEN}};
	static const uint8_t flags[] = {0, RDM_IS_TAGGED, RDM_WANTS_FIN};

	(void)state;
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		for (unsigned f = 0; f < sizeof(flags); f++)
			for (unsigned early = 0; early < 2; early++)
				check_length(lengths[i].said, lengths[i].len, flags[f], early);
}

/* ---- more than there is room for -------------------------------------------------------------------------------- */

#define MANY (3 * RDM_SQ_MOST)

/** Many short messages posted at once make the send queue grow to its maximum; the others wait, and each arrives once,
 * in order. */
static void rdm__a_send_queue_grows_for_short_messages(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(2, 81);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
	struct nic_qp *qp;

	(void)state;
	for (unsigned i = 0; i < 3; i++) /* so that the ring does not begin at index 0 */
		talk(rig, a, b);
	qp = rdm_peer(a, b)->qp;
	assert_int_equal(qp->sq.capacity, RDM_SQ_FIRST);
	for (uint32_t i = 0; i < MANY; i++) {
		uint32_t queued = qp->sq.head - qp->sq.tail;

		assert_int_equal(queued, i < RDM_SQ_MOST ? i : RDM_SQ_MOST);
		assert_true(qp->sq.capacity <= (2 * i > RDM_SQ_FIRST ? 2 * i : RDM_SQ_FIRST));
		rdm_fill(a, i * LEN, LEN, i);
		assert_int_equal(rdm_recv(b, NULL, i, 0, 0, 0, RDM_ARENA / 2 + i * LEN, LEN), 0);
		assert_int_equal(rdm_send(a, b, i, i % 2 ? NIC_RDM_INJECT : 0, 0, i * LEN, LEN), 0);
	}
	assert_int_equal(qp->sq.capacity, RDM_SQ_MOST);
	rdm_expect_nothing(a);
	assert_true(rdm_run(rig, QUIET));
	assert_int_equal(qp->sq.capacity, RDM_SQ_MOST);
	for (uint32_t i = 0; i < MANY; i++) {
		rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, i);
		assert_int_equal(rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, i).len, LEN);
		assert_true(rdm_holds(b, RDM_ARENA / 2 + i * LEN, LEN, i));
	}
	rdm_expect_nothing(a);
	rdm_expect_nothing(b);
	rdm_rig_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdm__a_message_with_a_wrong_length_ends_the_connection),
		cmocka_unit_test(rdm__a_send_queue_grows_for_short_messages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
