/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pairs.c - tests every pair of atomic operation and datatype, in every form (base, fetch, compare) and by every call
 * of fi_atomic(3) that exists for the form. Pairs that the provider reports as valid do exactly what the model in
 * tests/unit/elem_model.h says, and all other pairs are refused. Operations and datatypes that only later libfabric
 * versions define are given by number.
 */
#include "elem_model.h"
#include "fabric.h"

#define TRIALS	  6    /* trials of each pair, in each form and by each call */
#define BYTES	  4096 /* maximum size of all elements of a vector */
#define SEGMENTS  4
#define ROOM	  (BYTES + 256) /* BYTES, plus gaps between segments */
#define NUMBERS	  24		/* number of operations, and of datatypes, to try */
#define UNTOUCHED 0xa5

_Static_assert((int)FI_ATOMIC_READ == NIC_ELEM_ATOMIC_READ && (int)FI_MSWAP == NIC_ELEM_MSWAP &&
		       (int)FI_LONG_DOUBLE_COMPLEX == NIC_DT_LONG_DOUBLE_COMPLEX && (int)FI_UINT128 == NIC_DT_UINT128,
	       "the model's numbers are libfabric's");

/** The call that makes a request. */
enum call { PLAIN, VECTOR, MESSAGE, INJECT, CALLS };

static const char *const form_names[3] = {"base", "fetch", "compare"};
static const char *const call_names[CALLS] = {"plain", "vector", "message", "inject"};
static const uint64_t form_flags[3] = {0, FI_FETCH_ATOMIC, FI_COMPARE_ATOMIC};

/** Elements in segments that may lie apart. */
struct vector {
	uint8_t bytes[ROOM] __attribute__((aligned(64)));
	uint8_t kept[ROOM]; /* copy of `bytes` from when the request was made */
	struct fi_ioc ioc[SEGMENTS];
	size_t n, offset[BYTES + 1];
};

struct trial {
	struct pair *p;
	uint64_t seed;
	unsigned op, dt, form;
	enum call call;
	size_t count, size;
	struct vector target, operand, compare, result; /* target: what p->there must contain afterwards */
	struct fi_rma_ioc remote[SEGMENTS];
	struct fi_msg_atomic msg;
	unsigned long elements, changed;
};

static size_t below(struct trial *t, size_t limit)
{
	return (size_t)(model_word(&t->seed) >> 20) % limit;
}

/* ---- vectors ------------------------------------------------------------------------------------------------- */

/** Distribute the elements over at most `limit` segments, with gaps of multiples of `align`. Segments can be empty. */
static void scatter(struct trial *t, struct vector *v, size_t limit, size_t align)
{
	size_t at = align * below(t, 3), left = t->count, element = 0;

	v->n = 1 + below(t, limit);
	for (size_t i = 0; i < v->n; i++) {
		size_t count = i == v->n - 1 ? left : below(t, left + 1);

		v->ioc[i] = (struct fi_ioc){.addr = v->bytes + at, .count = count};
		for (size_t k = 0; k < count; k++, at += t->size)
			v->offset[element++] = at;
		left -= count;
		at += align * below(t, 3);
	}
}

static void lay_out(struct trial *t)
{
	bool segments = t->call == VECTOR || t->call == MESSAGE || (t->call == INJECT && t->form != NIC_ELEM_BASE);
	size_t local = segments ? t->p->info->tx_attr->iov_limit : 1, part = t->size;

	if (model_kind(t->dt) == 'c')
		part = model_size(model_part(t->dt));
	scatter(t, &t->operand, local, 1 + below(t, 3));
	scatter(t, &t->compare, local, 1 + below(t, 3));
	scatter(t, &t->result, local, 1 + below(t, 3));
	scatter(t, &t->target, segments && t->call != VECTOR ? t->p->info->tx_attr->rma_iov_limit : 1, part);
	for (size_t i = 0; i < t->target.n; i++)
		t->remote[i] = (struct fi_rma_ioc){
			.addr = t->p->base + (size_t)((uint8_t *)t->target.ioc[i].addr - t->target.bytes),
			.count = t->target.ioc[i].count,
			.key = t->p->key,
		};
}

/* Random compare values and operands would rarely equal the target's element, so some are set to its value. */
static void fill(struct trial *t)
{
	for (size_t i = 0; i < t->count; i++) {
		uint8_t *target = t->target.bytes + t->target.offset[i];
		uint8_t *operand = t->operand.bytes + t->operand.offset[i];
		uint8_t *compare = t->compare.bytes + t->compare.offset[i];

		model_random(&t->seed, t->dt, target);
		model_random(&t->seed, t->dt, operand);
		model_random(&t->seed, t->dt, compare);
		if (t->op != FI_MSWAP && below(t, 2))
			memcpy(compare, target, t->size);
		if (below(t, 8) == 0)
			memcpy(operand, target, t->size);
	}
	memcpy(t->operand.kept, t->operand.bytes, ROOM);
	memcpy(t->compare.kept, t->compare.bytes, ROOM);
	memset(t->result.bytes, UNTOUCHED, ROOM);
	memcpy(t->p->there, t->target.bytes, ROOM);
}

/* ---- requests ------------------------------------------------------------------------------------------------ */

static ssize_t post_base(struct trial *t)
{
	enum fi_datatype dt = (enum fi_datatype)t->dt;
	enum fi_op op = (enum fi_op)t->op;
	const struct fi_ioc *from = t->msg.msg_iov;
	struct pair *p = t->p;

	switch (t->call) {
	case PLAIN:
		return fi_atomic(p->a.ep, from->addr, from->count, NULL, p->b.addr, t->remote->addr, p->key, dt, op, t);
	case VECTOR:
		return fi_atomicv(p->a.ep, from, NULL, t->msg.iov_count, p->b.addr, t->remote->addr, p->key, dt, op, t);
	case MESSAGE:
		return fi_atomicmsg(p->a.ep, &t->msg, FI_COMPLETION);
	default:
		return fi_inject_atomic(p->a.ep, from->addr, from->count, p->b.addr, t->remote->addr, p->key, dt, op);
	}
}

/* An operation that only reads needs no operand, but the caller may pass one. */
static ssize_t post_fetch(struct trial *t)
{
	enum fi_datatype dt = (enum fi_datatype)t->dt;
	enum fi_op op = (enum fi_op)t->op;
	struct fi_ioc *to = t->result.ioc;
	struct pair *p = t->p;

	if (op == FI_ATOMIC_READ && below(t, 2)) {
		t->msg.msg_iov = NULL;
		t->msg.iov_count = 0;
	}
	switch (t->call) {
	case PLAIN:
		return fi_fetch_atomic(p->a.ep, t->msg.msg_iov ? t->msg.msg_iov->addr : NULL, to->count, NULL, to->addr,
				       NULL, p->b.addr, t->remote->addr, p->key, dt, op, t);
	case VECTOR:
		return fi_fetch_atomicv(p->a.ep, t->msg.msg_iov, NULL, t->msg.iov_count, to, NULL, t->result.n,
					p->b.addr, t->remote->addr, p->key, dt, op, t);
	default:
		return fi_fetch_atomicmsg(p->a.ep, &t->msg, to, NULL, t->result.n,
					  FI_COMPLETION | (t->call == INJECT ? FI_INJECT : 0));
	}
}

static ssize_t post_compare(struct trial *t)
{
	enum fi_datatype dt = (enum fi_datatype)t->dt;
	enum fi_op op = (enum fi_op)t->op;
	struct fi_ioc *with = t->compare.ioc, *to = t->result.ioc;
	struct pair *p = t->p;

	switch (t->call) {
	case PLAIN:
		return fi_compare_atomic(p->a.ep, t->operand.ioc->addr, t->count, NULL, with->addr, NULL, to->addr,
					 NULL, p->b.addr, t->remote->addr, p->key, dt, op, t);
	case VECTOR:
		return fi_compare_atomicv(p->a.ep, t->operand.ioc, NULL, t->operand.n, with, NULL, t->compare.n, to,
					  NULL, t->result.n, p->b.addr, t->remote->addr, p->key, dt, op, t);
	default:
		return fi_compare_atomicmsg(p->a.ep, &t->msg, with, NULL, t->compare.n, to, NULL, t->result.n,
					    FI_COMPLETION | (t->call == INJECT ? FI_INJECT : 0));
	}
}

static ssize_t post(struct trial *t)
{
	t->msg = (struct fi_msg_atomic){
		.msg_iov = t->operand.ioc,
		.iov_count = t->operand.n,
		.addr = t->p->b.addr,
		.rma_iov = t->remote,
		.rma_iov_count = t->target.n,
		.datatype = (enum fi_datatype)t->dt,
		.op = (enum fi_op)t->op,
		.context = t,
	};
	return t->form == NIC_ELEM_BASE ? post_base(t) : t->form == NIC_ELEM_FETCH ? post_fetch(t) : post_compare(t);
}

/* fi_inject_atomic generates no completion: post a READ after it, and wait for the READ's completion. */
static void await_trial(struct trial *t)
{
	struct pair *p = t->p;
	uint8_t byte;

	if (t->call == INJECT) {
		memset(t->operand.bytes, 0x3c, ROOM);
		memset(t->compare.bytes, 0xc3, ROOM);
	}
	if (t->call == INJECT && t->form == NIC_ELEM_BASE) {
		WANT_OK(fi_fetch_atomic(p->a.ep, NULL, 1, NULL, &byte, NULL, p->b.addr, p->base, p->key, FI_UINT8,
					FI_ATOMIC_READ, NULL));
		await(p, p->a.tx);
		return;
	}
	await(p, p->a.tx);
	WANT(p->done.op_context == t, true);
	WANT(p->done.flags, FI_ATOMIC | (t->form == NIC_ELEM_BASE ? FI_WRITE : FI_READ));
}

/* ---- expected results ---- */

static bool check_element(struct trial *t, size_t i)
{
	uint8_t *before = t->target.bytes + t->target.offset[i];
	const uint8_t *is = (uint8_t *)t->p->there + t->target.offset[i];
	const uint8_t *operand = t->operand.kept + t->operand.offset[i],
		      *compare = t->compare.kept + t->compare.offset[i];
	uint8_t *result = t->result.bytes + t->result.offset[i], expected[MODEL_SIZE_MAX], was[MODEL_SIZE_MAX];
	bool written = model_execute(t->dt, t->op, expected, before, operand, compare), right;

	memcpy(was, before, t->size);
	model_clean(t->dt, was);
	right = written ? model_same(t->dt, t->op, is, expected) : memcmp(is, before, t->size) == 0;
	if (t->form != NIC_ELEM_BASE)
		right &= memcmp(result, was, t->size) == 0;
	if (!right) {
		printf("element %zu of %zu, byte by byte: is (was, operand, compare: to be; answered)\n", i, t->count);
		for (size_t k = 0; k < t->size; k++)
			printf(" %02x(%02x %02x %02x: %02x; %02x)", is[k], before[k], operand[k], compare[k],
			       expected[k], result[k]);
		printf("\n");
	}
	t->elements++;
	t->changed += memcmp(before, is, t->size) != 0;
	memcpy(before, is, t->size);
	memset(result, UNTOUCHED, t->size);
	return right;
}

/** Check the value of every element, and that no other byte was written. */
static bool check_trial(struct trial *t)
{
	bool right = t->call == INJECT || (memcmp(t->operand.bytes, t->operand.kept, ROOM) == 0 &&
					   memcmp(t->compare.bytes, t->compare.kept, ROOM) == 0);

	if (!right)
		printf("written to operands or compare values\n");
	for (size_t i = 0; i < t->count && right; i++)
		right = check_element(t, i);
	if (right && memcmp(t->p->there, t->target.bytes, ROOM) != 0) {
		printf("written to what lies beside the target\n");
		right = false;
	}
	for (size_t i = 0; i < ROOM && right && t->form != NIC_ELEM_BASE; i++)
		if (t->result.bytes[i] != UNTOUCHED) {
			printf("written to what lies beside the results\n");
			right = false;
		}
	return right;
}

/** A request with one element more than the maximum is refused. */
static void try_too_many(struct trial *t, size_t most)
{
	t->count = most + 1;
	scatter(t, &t->operand, 1, 1);
	scatter(t, &t->compare, 1, 1);
	scatter(t, &t->result, 1, 1);
	t->target.n = 1;
	t->remote[0] = (struct fi_rma_ioc){.addr = t->p->base, .count = t->count, .key = t->p->key};
	WANT(post(t), -FI_EINVAL);
}

static bool try_pair(struct trial *t, size_t most)
{
	bool right;

	if (t->call == INJECT && most > t->p->info->tx_attr->inject_size / t->size)
		most = t->p->info->tx_attr->inject_size / t->size;
	for (unsigned n = 0; n < TRIALS; n++) {
		const size_t counts[TRIALS] = {1, 2, 3, 7, 1 + below(t, most), most};

		t->count = counts[n] < most ? counts[n] : most;
		lay_out(t);
		fill(t);
		WANT_OK(post(t));
		if (failures == 0)
			await_trial(t);
		right = failures == 0 && check_trial(t);
		if (right)
			continue;
		printf("%s, operation %u, %s, by call %s, %zu elements\n", model_name(t->dt), t->op,
		       form_names[t->form], call_names[t->call], t->count);
		WANT(right, true);
		return false;
	}
	if (t->call != INJECT)
		try_too_many(t, most);
	return failures == 0;
}

/* ---- cases --------------------------------------------------------------------------------------------------- */

/** Ask the provider about a pair by all query functions. @return the maximum number of elements; 0: the pair is not
 * supported. */
static size_t ask(struct trial *t)
{
	int (*valid[3])(struct fid_ep *, enum fi_datatype, enum fi_op,
			size_t *) = {fi_atomicvalid, fi_fetch_atomicvalid, fi_compare_atomicvalid};
	int rc = model_valid(t->op, t->dt, t->form) ? 0 : -FI_EOPNOTSUPP;
	enum fi_datatype dt = (enum fi_datatype)t->dt;
	struct fi_atomic_attr attr = {0}, tagged = {0};
	enum fi_op op = (enum fi_op)t->op;
	size_t count = 0;

	WANT(fi_query_atomic(t->p->domain, dt, op, &attr, form_flags[t->form]), rc);
	WANT(fi_query_atomic(t->p->domain, dt, op, &tagged, form_flags[t->form] | FI_TAGGED), rc);
	WANT(valid[t->form](t->p->a.ep, dt, op, &count), rc);
	if (rc)
		return 0;
	t->size = model_size(t->dt);
	WANT(attr.size, t->size);
	WANT(attr.count, BYTES / t->size);
	WANT(tagged.count, attr.count);
	WANT(count, attr.count);
	return attr.count <= BYTES / t->size ? attr.count : 0;
}

/** @return whether the provider refuses the pair in every call. */
static bool refused(struct trial *t)
{
	t->count = 1;
	t->size = MODEL_SIZE_MAX;
	for (int call = 0; call < CALLS; call++) {
		t->call = (enum call)call;
		scatter(t, &t->operand, 1, 1);
		scatter(t, &t->compare, 1, 1);
		scatter(t, &t->result, 1, 1);
		t->target.n = 1;
		t->remote[0] = (struct fi_rma_ioc){.addr = t->p->base, .count = 1, .key = t->p->key};
		WANT(post(t), -FI_EOPNOTSUPP);
	}
	return failures == 0;
}

/* libfabric 1.17 has 152 base, 168 fetch and 94 compare pairs; 2.x has 204, 224 and 118. */
void case_pairs(struct pair *p)
{
	static struct trial trial;
	struct trial *t = &trial;
	unsigned all[3] = {0}, of_1_17[3] = {0};
	bool goes = true;

	t->p = p;
	t->seed = 1;
	for (t->dt = 0; t->dt < NUMBERS; t->dt++)
		for (t->op = 0; t->op < NUMBERS; t->op++)
			for (t->form = 0; t->form < 3 && goes; t->form++) {
				size_t most = ask(t);

				for (int call = 0; call < CALLS && most && goes; call++) {
					t->call = (enum call)call;
					goes = try_pair(t, most);
				}
				goes = goes && (most || refused(t));
				all[t->form] += most != 0;
				of_1_17[t->form] += most && t->op <= FI_MSWAP && t->dt <= FI_UINT128;
			}
	WANT(fi_cq_read(p->a.tx, &p->done, 1), -FI_EAGAIN); /* refused requests have posted nothing */
	for (unsigned form = 0; form < 3 && goes; form++) {
		static const unsigned have[3] = {204, 224, 118}, have_1_17[3] = {152, 168, 94};

		WANT(all[form], have[form]);
		WANT(of_1_17[form], have_1_17[form]);
	}
	/* Some elements changed and some did not; otherwise the trials would test too little. */
	WANT(t->changed > t->elements / 4 && t->changed < t->elements, true);
}
