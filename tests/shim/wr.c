/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wr.c - the posting functions of struct ibv_qp_ex, as a table: every operation on every type of QP, with each setter
 * of its data. What arrives shows opcode, data, immediate data and invalidated key; a QP refuses what its type lacks.
 */
#include "xrc_rig.h"
#include <unistd.h>

/* What old verbs.h do not have. */
#define FLUSH_GLOBAL (1 << 8)  /* IBV_ACCESS_FLUSH_GLOBAL */
#define WITH_FLUSH   (1 << 11) /* IBV_QP_EX_WITH_FLUSH */
#define TYPE_GLOBAL  1	       /* IBV_FLUSH_GLOBAL */
#define WC_FLUSH     8	       /* IBV_WC_FLUSH */

/* Places in an end's buffer. */
#define PIECE_AT(i) (256u * ((i) + 1)) /* of the data, in up to three pieces */
#define REMOTE(l)   ((l)->rig->end[1].buf + 4096)
#define RECV_AT	    8192u
#define WINDOW_AT   16384u
#define WINDOW_LEN  64u
#define GRH	    40u

#define IMM  0x11223344u
#define SWAP 0x1234567890u
#define ADD  0x100000001u

enum { RC = 1 << 0, UC = 1 << 1, UD = 1 << 2, XRC = 1 << 3, ALL = RC | UC | UD | XRC };
static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND};
static const char *const type_names[] = {"RC", "UC", "UD", "XRC"};
#define TYPES (sizeof(types) / sizeof(types[0]))

/** The setters of a request's data. */
enum { NO_DATA = 1 << 0, SGE = 1 << 1, SGES = 1 << 2, INLINE = 1 << 3, INLINES = 1 << 4 };
#define RESULT (SGE | SGES)
#define DATA   (RESULT | INLINE | INLINES)

struct link;

struct op {
	const char *name;
	unsigned types; /* which QPs have it */
	uint64_t flag;
	unsigned setters;
	uint32_t length; /* of its data */
	enum ibv_wc_opcode sent;
	void (*prepare)(struct link *l);
	void (*post)(struct link *l);
	void (*check)(struct link *l);
	unsigned received; /* opcode of the receive that it completes; 0: none */
	unsigned wc_flags; /* IBV_WC_WITH_IMM or IBV_WC_WITH_INV of the receive */
};

/** End 0 posts to end 1, which can post back unless the QPs are XRC. */
struct link {
	struct rig *rig;
	enum ibv_qp_type type;
	struct ibv_qp_ex *ex, *back;
	struct ibv_mr *mr[2]; /* with more rights than the rig's */
	struct ibv_mw *mw;    /* that of the request, or NULL */
	const struct op *op;  /* that is posted */
	struct ibv_ah *ah;    /* UD */
	struct xrc xrc;	      /* XRC */
	uint8_t data[32];     /* what the request transfers */
	uint8_t seed;
};

/* ---- memory ------------------------------------------------------------------------------------ */

/** Wait until memory holds what a peer writes: on UC, a WRITE completes before it arrives. */
static void await(const uint8_t *at, const void *expected, size_t length)
{
	for (unsigned i = 0; i < 10000 && memcmp(at, expected, length); i++)
		usleep(1000);
	assert_memory_equal(at, expected, length);
}

static unsigned pieces_of(unsigned setter)
{
	return setter & (SGES | INLINES) ? 3 : 1;
}

/** How long piece i of n is; no piece is aligned as another. */
static uint32_t piece_len(uint32_t length, unsigned n, unsigned i)
{
	const uint32_t first = length / 4 - 1, second = length / 4 + 1;

	return n == 1 ? length : i == 0 ? first : i == 1 ? second : length - first - second;
}

/** Copy between the pieces at end 0 and the data of the request. */
static void pieces_copy(struct link *l, unsigned n, bool gather, uint8_t *data)
{
	for (unsigned i = 0; i < n; i++) {
		uint8_t *piece = l->rig->end[0].buf + PIECE_AT(i);
		uint32_t len = piece_len(l->op->length, n, i);

		memcpy(gather ? data : piece, gather ? piece : data, len);
		data += len;
	}
}

/** Call the setter of the last request's data, and for inline data clear the memory where it was. */
static void set_data(struct link *l, unsigned setter)
{
	struct rig_end *from = &l->rig->end[0];
	struct ibv_sge sge[3];
	struct ibv_data_buf bufs[3];
	unsigned n = pieces_of(setter);

	for (unsigned i = 0; i < n; i++) {
		sge[i] = rig_sge(from, PIECE_AT(i), piece_len(l->op->length, n, i));
		bufs[i] = (struct ibv_data_buf){from->buf + PIECE_AT(i), sge[i].length};
	}
	if (setter == SGE)
		ibv_wr_set_sge(l->ex, sge[0].lkey, sge[0].addr, sge[0].length);
	else if (setter == SGES)
		ibv_wr_set_sge_list(l->ex, n, sge);
	else if (setter == INLINE)
		ibv_wr_set_inline_data(l->ex, bufs[0].addr, bufs[0].length);
	else if (setter == INLINES)
		ibv_wr_set_inline_data_list(l->ex, n, bufs);
	for (unsigned i = 0; i < n && setter & (INLINE | INLINES); i++)
		memset(bufs[i].addr, 0xee, bufs[i].length);
}

/* ---- windows ----------------------------------------------------------------------------------- */

static struct ibv_mw_bind_info window_info(struct link *l, unsigned side)
{
	return (struct ibv_mw_bind_info){l->mr[side], (uintptr_t)l->rig->end[side].buf + WINDOW_AT, WINDOW_LEN,
					 IBV_ACCESS_REMOTE_WRITE};
}

static void window_make(struct link *l, unsigned side)
{
	l->mw = ibv_alloc_mw(l->rig->end[side].pd, IBV_MW_TYPE_2);
	assert_non_null(l->mw);
}

/** Bind the window at one side, which works only if the window is free. */
static void window_bind(struct link *l, unsigned side)
{
	struct ibv_mw_bind_info info = window_info(l, side);
	struct ibv_qp_ex *ex = side ? l->back : l->ex;
	uint32_t rkey = ibv_inc_rkey(l->mw->rkey);
	struct ibv_wc wc;

	ibv_wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_bind_mw(ex, l->mw, rkey, &info);
	assert_int_equal(ibv_wr_complete(ex), 0);
	wc = rig_wait(l->rig->end[side].cq);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_BIND_MW);
	l->mw->rkey = rkey;
}

static void window_unbound(struct link *l)
{
	window_make(l, 0);
}

static void window_at_own_side(struct link *l)
{
	window_make(l, 0);
	window_bind(l, 0);
}

static void window_at_peer(struct link *l)
{
	window_make(l, 1);
	window_bind(l, 1);
}

/* ---- operations: what they post, and what they have done ---------------------------------------------- */

static uint64_t word_of(const void *at)
{
	uint64_t word;

	memcpy(&word, at, 8);
	return word;
}

/* clang-format off */
#define POST(name, ...) static void post_##name(struct link *l) { ibv_wr_##name(__VA_ARGS__); }
#define MEMORY l->mr[1]->rkey, (uintptr_t)REMOTE(l)
#define KEY    l->mw ? l->mw->rkey : 0
POST(send, l->ex)
POST(send_imm, l->ex, htobe32(IMM))
POST(send_inv, l->ex, KEY)
POST(local_inv, l->ex, KEY)
POST(rdma_write, l->ex, MEMORY)
POST(rdma_write_imm, l->ex, MEMORY, htobe32(IMM))
POST(rdma_read, l->ex, MEMORY)
POST(atomic_cmp_swp, l->ex, MEMORY, word_of(l->data), SWAP)
POST(atomic_fetch_add, l->ex, MEMORY, ADD)
POST(atomic_write, l->ex, MEMORY, l->data)
/* clang-format on */

static void check_received(struct link *l)
{
	const uint8_t *at = l->rig->end[1].buf + RECV_AT + (l->type == IBV_QPT_UD ? GRH : 0);

	assert_memory_equal(at, l->data, 24);
}

/** Data came, and the invalidated window is free: it can be bound again. */
static void check_freed(struct link *l)
{
	if (l->op->received)
		check_received(l);
	window_bind(l, l->op->received ? 1 : 0);
}

static void check_written(struct link *l)
{
	await(REMOTE(l), l->data, l->op->length);
}

/** The memory that a READ or atomic returns. */
static void prepare_result(struct link *l)
{
	memcpy(REMOTE(l), l->data, l->op->length);
}

static void check_atomic(struct link *l)
{
	bool swap = l->op->flag == IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP;

	assert_int_equal(word_of(REMOTE(l)), swap ? SWAP : word_of(l->data) + ADD);
}

/** ibv_wr_flush(): calls the member after wr_atomic_write. */
static void post_flush(struct link *l)
{
	void (*flush)(struct ibv_qp_ex *, uint32_t, uint64_t, size_t, uint8_t, uint8_t);

	memcpy(&flush, (char *)l->ex + offsetof(struct ibv_qp_ex, wr_atomic_write) + sizeof(void *), sizeof(flush));
	flush(l->ex, l->mr[1]->rkey, (uintptr_t)REMOTE(l), 64, TYPE_GLOBAL, 0);
}

static void post_bind(struct link *l)
{
	struct ibv_mw_bind_info info = window_info(l, 0);

	ibv_wr_bind_mw(l->ex, l->mw, l->mw ? ibv_inc_rkey(l->mw->rkey) : 0, &info);
}

/** The peer writes through the window. An XRC initiator's type 2 window serves nobody: no request reaches its QP. */
static void check_bound(struct link *l)
{
	const uint8_t *at = l->rig->end[0].buf + WINDOW_AT;

	if (!l->back)
		return;
	ibv_wr_start(l->back);
	l->back->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(l->back, ibv_inc_rkey(l->mw->rkey), (uintptr_t)at);
	ibv_wr_set_inline_data(l->back, l->data, 24);
	assert_int_equal(ibv_wr_complete(l->back), 0);
	assert_int_equal(rig_wait(l->rig->end[1].cq).status, IBV_WC_SUCCESS);
	await(at, l->data, 24);
}

#define OF(name)  IBV_QP_EX_WITH_##name
#define CONNECTED (RC | UC | XRC)

/* A SEND with invalidate to an XRC target always fails: see xrc.c. */
/* clang-format off */
static const struct op ops[] = {
#define ROW(name, types, flag, setters, length, sent, ...) \
	{name, types, flag, setters, length, (enum ibv_wc_opcode)(sent), __VA_ARGS__},
#define RECV IBV_WC_RECV
#define WITH_IMM IBV_WC_RECV_RDMA_WITH_IMM
	ROW("SEND", ALL, OF(SEND), DATA, 24, IBV_WC_SEND, NULL, post_send, check_received, RECV, 0)
	ROW("SEND_IMM", ALL, OF(SEND_WITH_IMM), DATA, 24, IBV_WC_SEND,
	    NULL, post_send_imm, check_received, RECV, IBV_WC_WITH_IMM)
	ROW("SEND_INV", RC, OF(SEND_WITH_INV), DATA, 24, IBV_WC_SEND,
	    window_at_peer, post_send_inv, check_freed, RECV, IBV_WC_WITH_INV)
	ROW("WRITE", CONNECTED, OF(RDMA_WRITE), DATA, 24, IBV_WC_RDMA_WRITE, NULL, post_rdma_write, check_written, 0, 0)
	ROW("WRITE_IMM", CONNECTED, OF(RDMA_WRITE_WITH_IMM), DATA, 24, IBV_WC_RDMA_WRITE,
	    NULL, post_rdma_write_imm, check_written, WITH_IMM, IBV_WC_WITH_IMM)
	ROW("READ", RC | XRC, OF(RDMA_READ), RESULT, 24, IBV_WC_RDMA_READ, prepare_result, post_rdma_read, NULL, 0, 0)
	ROW("CAS", RC | XRC, OF(ATOMIC_CMP_AND_SWP), RESULT, 8, IBV_WC_COMP_SWAP,
	    prepare_result, post_atomic_cmp_swp, check_atomic, 0, 0)
	ROW("FAA", RC | XRC, OF(ATOMIC_FETCH_AND_ADD), RESULT, 8, IBV_WC_FETCH_ADD,
	    prepare_result, post_atomic_fetch_add, check_atomic, 0, 0)
	ROW("ATOMIC_WRITE", RC | XRC, OF(ATOMIC_WRITE), NO_DATA, 8, IBV_WC_ATOMIC_WRITE,
	    NULL, post_atomic_write, check_written, 0, 0)
	ROW("FLUSH", RC | XRC, WITH_FLUSH, NO_DATA, 0, WC_FLUSH, NULL, post_flush, NULL, 0, 0)
	ROW("LOCAL_INV", CONNECTED, OF(LOCAL_INV), NO_DATA, 0, IBV_WC_LOCAL_INV,
	    window_at_own_side, post_local_inv, check_freed, 0, 0)
	ROW("BIND", CONNECTED, OF(BIND_MW), NO_DATA, 0, IBV_WC_BIND_MW, window_unbound, post_bind, check_bound, 0, 0)
};
/* clang-format on */
#define OPS (sizeof(ops) / sizeof(ops[0]))

/** Whether QPs of a type can have an operation: XRC initiators also SEND with invalidate. */
static bool has(unsigned type, const struct op *op)
{
	return (op->types | (op->flag == OF(SEND_WITH_INV) ? XRC : 0)) & 1u << type;
}

static uint64_t flags_of(unsigned type)
{
	uint64_t flags = 0;

	for (unsigned i = 0; i < OPS; i++)
		flags |= has(type, &ops[i]) ? ops[i].flag : 0;
	return flags;
}

/* ---- links ------------------------------------------------------------------------------------- */

static struct ibv_qp *qp_create(struct rig_end *end, enum ibv_qp_type type, uint64_t flags)
{
	struct ibv_qp_init_attr plain = rig_qp_init(end, type);
	struct ibv_qp_init_attr_ex init = {.pd = end->pd,
					   .send_ops_flags = flags,
					   .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS};

	memcpy(&init, &plain, offsetof(struct ibv_qp_init_attr_ex, comp_mask));
	return ibv_create_qp_ex(end->ctx, &init);
}

static void link_open(struct link *l, struct rig *rig, unsigned type)
{
	struct ibv_qp_attr attr = {.qp_access_flags = RIG_ACCESS | FLUSH_GLOBAL};
	struct ibv_qp *responder;

	*l = (struct link){.rig = rig, .type = types[type]};
	for (unsigned i = 0; i < 2; i++) {
		l->mr[i] = ibv_reg_mr(rig->end[i].pd, rig->end[i].buf, RIG_BUF,
				      RIG_ACCESS | IBV_ACCESS_MW_BIND | FLUSH_GLOBAL);
		assert_non_null(l->mr[i]);
	}
	if (l->type == IBV_QPT_XRC_SEND) {
		l->xrc = xrc_connect(rig, flags_of(type));
		l->ex = ibv_qp_to_qp_ex(l->xrc.initiator);
		responder = l->xrc.target;
	} else {
		for (unsigned i = 0; i < 2; i++) {
			rig->end[i].qp = qp_create(&rig->end[i], l->type, flags_of(type));
			assert_non_null(rig->end[i].qp);
		}
		rig_connect_qps(rig, rig->end[0].qp, rig->end[1].qp);
		l->ex = ibv_qp_to_qp_ex(rig->end[0].qp);
		l->back = ibv_qp_to_qp_ex(rig->end[1].qp);
		responder = rig->end[1].qp;
	}
	if (l->type == IBV_QPT_UD)
		l->ah = rig_ah(rig);
	else
		assert_int_equal(ibv_modify_qp(responder, &attr, IBV_QP_ACCESS_FLAGS), 0);
}

static void link_close(struct link *l)
{
	if (l->ah)
		assert_int_equal(ibv_destroy_ah(l->ah), 0);
	if (l->type == IBV_QPT_XRC_SEND)
		xrc_close(&l->xrc);
	rig_disconnect(l->rig);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(ibv_dereg_mr(l->mr[i]), 0);
}

/** Post the request. @return what ibv_wr_complete() returns. */
static int link_post(struct link *l, unsigned setter)
{
	ibv_wr_start(l->ex);
	l->ex->wr_id = l->seed;
	l->ex->wr_flags = IBV_SEND_SIGNALED;
	l->op->post(l);
	if (l->type == IBV_QPT_UD)
		ibv_wr_set_ud_addr(l->ex, l->ah, l->rig->end[1].qp->qp_num, RIG_QKEY);
	if (l->type == IBV_QPT_XRC_SEND)
		ibv_wr_set_xrc_srqn(l->ex, l->xrc.srqn);
	if (setter != NO_DATA)
		set_data(l, setter);
	return ibv_wr_complete(l->ex);
}

static void check_recv_wc(struct link *l, const struct op *op)
{
	struct ibv_wc wc = rig_wait(l->rig->end[1].cq);

	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, 1000u + l->seed);
	assert_int_equal(wc.opcode, op->received);
	assert_int_equal(wc.byte_len, op->length + (l->type == IBV_QPT_UD ? GRH : 0));
	assert_int_equal(wc.wc_flags, op->wc_flags | (l->type == IBV_QPT_UD ? IBV_WC_GRH : 0u));
	if (op->wc_flags == IBV_WC_WITH_IMM)
		assert_int_equal(be32toh(wc.imm_data), IMM);
	if (op->wc_flags == IBV_WC_WITH_INV)
		assert_int_equal(wc.invalidated_rkey, l->mw->rkey);
}

static void run(struct link *l, const struct op *op, unsigned setter)
{
	struct rig_end *from = &l->rig->end[0];
	bool results = op->setters == RESULT;
	unsigned n = pieces_of(setter);
	uint8_t result[32];
	struct ibv_wc wc;

	l->op = op;
	l->seed++;
	for (unsigned i = 0; i < sizeof(l->data); i++)
		l->data[i] = (uint8_t)(l->seed * 29 + i);
	memset(from->buf, 0, RIG_BUF);
	memset(l->rig->end[1].buf, 0, RIG_BUF);
	if (op->prepare)
		op->prepare(l);
	if (!results && setter != NO_DATA)
		pieces_copy(l, n, false, l->data);
	if (op->received && l->type == IBV_QPT_XRC_SEND)
		xrc_post_srq(&l->xrc, 1000u + l->seed, RECV_AT, GRH + 24);
	else if (op->received)
		rig_post_recv(&l->rig->end[1], 1000u + l->seed, RECV_AT, GRH + 24);
	assert_int_equal(link_post(l, setter), 0);
	wc = rig_wait(from->cq);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, l->seed);
	assert_int_equal(wc.opcode, op->sent);
	if (op->received)
		check_recv_wc(l, op);
	pieces_copy(l, n, true, result);
	if (results)
		assert_memory_equal(result, l->data, op->length);
	if (op->check)
		op->check(l);
	if (l->mw)
		assert_int_equal(ibv_dealloc_mw(l->mw), 0);
	l->mw = NULL;
}

/* ---- tests ------------------------------------------------------------------------------------- */

static void wr_ex__every_operation_with_every_setter(void **state)
{
	for (unsigned t = 0; t < TYPES; t++) {
		struct link l;

		link_open(&l, *state, t);
		for (unsigned i = 0; i < OPS; i++) {
			if (!(ops[i].types & 1u << t))
				continue;
			print_message("%s %s\n", type_names[t], ops[i].name);
			for (unsigned setter = NO_DATA; setter <= INLINES; setter <<= 1)
				if (ops[i].setters & setter)
					run(&l, &ops[i], setter);
		}
		link_close(&l);
	}
}

/** A QP is made with the operations of its type only, and refuses others at the end of the batch. */
static void wr_ex__other_operations_are_refused(void **state)
{
	for (unsigned t = 0; t < TYPES; t++) {
		struct link l;

		link_open(&l, *state, t);
		assert_null(qp_create(&l.rig->end[0], types[t], IBV_QP_EX_WITH_TSO));
		assert_int_equal(errno, EOPNOTSUPP);
		for (unsigned i = 0; i < OPS; i++) {
			struct ibv_qp *qp = qp_create(&l.rig->end[0], types[t], ops[i].flag);

			if (has(t, &ops[i])) {
				assert_non_null(qp);
				assert_int_equal(ibv_destroy_qp(qp), 0);
				continue;
			}
			assert_null(qp);
			assert_int_equal(errno, EOPNOTSUPP);
			if (ops[i].flag == OF(BIND_MW))
				window_unbound(&l);
			l.op = &ops[i];
			assert_int_equal(link_post(&l, ops[i].setters & SGE ? SGE : NO_DATA), EINVAL);
		}
		if (l.mw)
			assert_int_equal(ibv_dealloc_mw(l.mw), 0);
		link_close(&l);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(wr_ex__every_operation_with_every_setter),
		TEST(wr_ex__other_operations_are_refused),
	};

	return cmocka_run_group_tests_name("shim_wr", tests, NULL, NULL);
}
