/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * one_sided.c - access to other processes' memory: put, get, and accumulate operations of many processes on the same
 * elements, for each datatype. The numbers are small, so that their sums are exact in all types.
 */
#include "mpi_check.h"

#define ELEMENTS 600

struct window {
	MPI_Win win;
	void *mem;
};

/** Open a window on memory that the program has allocated, or on memory allocated with the window, which processes on
 * one host can share. */
static struct window window_open(size_t len)
{
	struct window w = {0};

	if (!option("allocated")) {
		w.mem = calloc(1, len);
		MPI_Win_create(w.mem, (MPI_Aint)len, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &w.win);
	} else {
		MPI_Win_allocate((MPI_Aint)len, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &w.mem, &w.win);
		memset(w.mem, 0, len);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	return w;
}

static void window_close(struct window *w)
{
	int *flavor = NULL, found = 0;
	bool own;

	MPI_Win_get_attr(w->win, MPI_WIN_CREATE_FLAVOR, (void *)&flavor, &found);
	own = found && *flavor == MPI_WIN_FLAVOR_CREATE;
	MPI_Win_free(&w->win);
	if (own)
		free(w->mem);
}

static int right(void)
{
	return (rank + 1) % n_ranks;
}

static int left(void)
{
	return (rank + n_ranks - 1) % n_ranks;
}

void case_put_get(void)
{
	struct window w = window_open(LONGEST);
	int seq = 0;

	for (size_t len = 1; len <= LONGEST; len = len * 8 - (len == 1)) {
		pattern_fill(out_buf, len, rank, seq);
		MPI_Win_fence(0, w.win);
		MPI_Put(out_buf, (int)len, MPI_BYTE, right(), 0, (int)len, MPI_BYTE, w.win);
		MPI_Win_fence(0, w.win);
		WANT(pattern_errors(w.mem, len, left(), seq), 0);
		memset(in_buf, 0, len);
		MPI_Win_fence(0, w.win);
		MPI_Get(in_buf, (int)len, MPI_BYTE, left(), 0, (int)len, MPI_BYTE, w.win);
		MPI_Win_fence(0, w.win);
		WANT(pattern_errors(in_buf, len, (left() + n_ranks - 1) % n_ranks, seq), 0);
		seq++;
	}
	window_close(&w);
}

/* Test each kind of synchronization, with strided and with contiguous data. */
void case_epochs(void)
{
	struct window w = window_open(LONGEST);
	unsigned char *mem = w.mem;
	MPI_Group world, to, from;
	MPI_Datatype stride;
	MPI_Request request;
	int l = left(), r = right();

	pattern_fill(out_buf, 4000, rank, 1);
	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_incl(world, 1, &r, &to);
	MPI_Group_incl(world, 1, &l, &from);
	MPI_Win_post(from, 0, w.win);
	MPI_Win_start(to, 0, w.win);
	MPI_Put(out_buf, 4000, MPI_BYTE, r, 100, 4000, MPI_BYTE, w.win);
	MPI_Win_complete(w.win);
	MPI_Win_wait(w.win);
	WANT(pattern_errors(mem + 100, 4000, l, 1), 0);
	MPI_Group_free(&to);
	MPI_Group_free(&from);
	MPI_Group_free(&world);
	/* Transfer every second byte, under a shared lock. */
	MPI_Type_vector(1000, 1, 2, MPI_BYTE, &stride);
	MPI_Type_commit(&stride);
	memset(mem, 0, 4000);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_SHARED, r, 0, w.win);
	MPI_Put(out_buf, 1000, MPI_BYTE, r, 0, 1, stride, w.win);
	MPI_Win_flush(r, w.win);
	MPI_Get(in_buf, 1, stride, r, 0, 1000, MPI_BYTE, w.win);
	MPI_Win_unlock(r, w.win);
	for (int i = 0; i < 1000; i++)
		WANT(in_buf[2 * i], i % 2 ? 0 : out_buf[i / 2]);
	MPI_Type_free(&stride);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(0, w.win);
	for (int k = 0; k < n_ranks; k++)
		MPI_Put(out_buf, 1000, MPI_BYTE, k, rank * 1000, 1000, MPI_BYTE, w.win);
	MPI_Win_flush_all(w.win);
	MPI_Barrier(MPI_COMM_WORLD);
	for (int k = 0; k < n_ranks; k++) {
		MPI_Rget(in_buf, 1000, MPI_BYTE, r, k * 1000, 1000, MPI_BYTE, w.win, &request);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		WANT(pattern_errors(in_buf, 1000, k, 1), 0);
	}
	MPI_Win_unlock_all(w.win);
	window_close(&w);
}

/* ---- operations ------------------------------------------------------------------------------------------ */

/** An operation that every process executes with operand rank + 1 on elements whose first value is `before`. Its result
 * does not depend on the order of the processes. */
struct operation {
	const char *name;
	MPI_Op op;
	bool bits;
	long before;
	long (*apply)(long a, long b);
};

static long add(long a, long b)
{
	return a + b;
}

static long most(long a, long b)
{
	return a > b ? a : b;
}

static long least(long a, long b)
{
	return a < b ? a : b;
}

static long bit_or(long a, long b)
{
	return a | b;
}

static long bit_and(long a, long b)
{
	return a & b;
}

static long bit_xor(long a, long b)
{
	return a ^ b;
}

static const struct operation operations[] = {
	/* Keep sum in the first place: some runs test only the first operation. */
	{"sum", MPI_SUM, false, 1, add},    {"max", MPI_MAX, false, 0, most},	   {"min", MPI_MIN, false, 100, least},
	{"bor", MPI_BOR, true, 64, bit_or}, {"band", MPI_BAND, true, 15, bit_and}, {"bxor", MPI_BXOR, true, 5, bit_xor},
};

static long expected(const struct operation *o, size_t i)
{
	long value = o->before;

	for (int r = 0; r < n_ranks; r++)
		value = o->apply(value, r + 1 + (long)(i % 4));
	return value;
}

static void accumulate_with(struct window *w, const struct number *t, const struct operation *o, int n)
{
	int wrong = 0;

	MPI_Win_fence(0, w->win);
	for (int i = 0; i < ELEMENTS; i++)
		t->set(w->mem, (size_t)i, o->before);
	for (int i = 0; i < n; i++)
		t->set(out_buf, (size_t)i, rank + 1 + i % 4);
	MPI_Win_fence(0, w->win);
	for (int k = 0; k < n_ranks; k++)
		MPI_Accumulate(out_buf, n, t->type, k, (MPI_Aint)t->size, n, t->type, o->op, w->win);
	MPI_Win_fence(0, w->win);
	wrong += t->get(w->mem, 0) != o->before;
	for (int i = 0; i < n; i++)
		wrong += t->get(w->mem, (size_t)i + 1) != expected(o, (size_t)i);
	for (int i = n + 1; i < ELEMENTS; i++)
		wrong += t->get(w->mem, (size_t)i) != o->before;
	if (wrong)
		printf("process %d: accumulate %s of %d %s\n", rank, o->name, n, t->name);
	WANT(wrong, 0);
}

void case_accumulate(void)
{
	static const int counts[] = {1, 2, 513};
	struct window w = window_open(ELEMENTS * 16);

	for (size_t t = 0; t < n_numbers; t++)
		for (size_t o = 0; o < (option("sums") ? 1 : sizeof(operations) / sizeof(operations[0])); o++)
			for (int c = 0; c < 3 && (numbers[t].bits || !operations[o].bits); c++)
				accumulate_with(&w, &numbers[t], &operations[o], counts[c]);
	window_close(&w);
}

/* Every process adds 1 to each element of process 0 and gets the old value: all old values must differ. Then MPI_NO_OP
 * reads the elements back. */
void case_get_accumulate(void)
{
	enum { N = 50 };
	struct window w = window_open(ELEMENTS * 16);

	for (size_t k = 0; k < n_numbers; k++) {
		const struct number *t = &numbers[k];
		long before[N], all[N];
		int wrong = 0;

		for (int i = 0; i < N; i++) {
			t->set(w.mem, (size_t)i, i);
			t->set(out_buf, (size_t)i, 1);
		}
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Win_lock_all(0, w.win);
		MPI_Get_accumulate(out_buf, N, t->type, in_buf, N, t->type, 0, 0, N, t->type, MPI_SUM, w.win);
		MPI_Win_flush(0, w.win);
		for (int i = 0; i < N; i++)
			before[i] = t->get(in_buf, (size_t)i) - i;
		MPI_Allreduce(before, all, N, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
		MPI_Get_accumulate(NULL, 0, MPI_BYTE, in_buf, N, t->type, 0, 0, N, t->type, MPI_NO_OP, w.win);
		MPI_Win_flush(0, w.win);
		for (int i = 0; i < N; i++)
			wrong += (all[i] != n_ranks * (n_ranks - 1) / 2) + (t->get(in_buf, (size_t)i) != i + n_ranks);
		/* Each value that MPI_REPLACE replaces is returned exactly once. */
		t->set(out_buf, 0, rank + 1);
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Get_accumulate(out_buf, 1, t->type, in_buf, 1, t->type, n_ranks - 1,
				   (MPI_Aint)(t->size * ELEMENTS / 2), 1, t->type, MPI_REPLACE, w.win);
		MPI_Win_unlock_all(w.win);
		MPI_Barrier(MPI_COMM_WORLD);
		before[0] = t->get(in_buf, 0);
		if (rank == n_ranks - 1)
			before[0] += t->get(w.mem, ELEMENTS / 2);
		MPI_Allreduce(before, all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
		wrong += all[0] != n_ranks * (n_ranks + 1) / 2;
		if (wrong)
			printf("process %d: get and accumulate of %s\n", rank, t->name);
		WANT(wrong, 0);
		t->set(w.mem, ELEMENTS / 2, 0);
		MPI_Barrier(MPI_COMM_WORLD);
	}
	window_close(&w);
}

void case_fetch_and_op(void)
{
	enum { ROUNDS = 7 };
	struct window w = window_open(ELEMENTS * 16);

	for (size_t k = 0; k < n_numbers; k++) {
		const struct number *t = &numbers[k];
		long olds = 0, all = 0, last = -1;
		int n = n_ranks * ROUNDS, wrong = 0;

		t->set(w.mem, 1, 0);
		t->set(out_buf, 0, 1);
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Win_lock_all(0, w.win);
		for (int i = 0; i < ROUNDS; i++) {
			MPI_Fetch_and_op(out_buf, in_buf, t->type, n_ranks - 1, (MPI_Aint)t->size, MPI_SUM, w.win);
			MPI_Win_flush(n_ranks - 1, w.win);
			wrong += t->get(in_buf, 0) <= last;
			last = t->get(in_buf, 0);
			olds += last;
		}
		MPI_Allreduce(&olds, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
		wrong += all != (long)n * (n - 1) / 2;
		MPI_Fetch_and_op(NULL, in_buf, t->type, n_ranks - 1, (MPI_Aint)t->size, MPI_NO_OP, w.win);
		MPI_Win_unlock_all(w.win);
		wrong += t->get(in_buf, 0) != n;
		if (wrong)
			printf("process %d: fetch and op of %s\n", rank, t->name);
		WANT(wrong, 0);
		MPI_Barrier(MPI_COMM_WORLD);
	}
	window_close(&w);
}

/* All processes but 0 advance a counter of process 0 by compare and swap, for each integer type. Process 0 takes no
 * part, because Open MPI before 4.1.5 crashes when a process compares and swaps in its own memory. */
void case_compare_and_swap(void)
{
	enum { ROUNDS = 5 };
	struct window w = window_open(ELEMENTS * 16);

	for (size_t k = 0; k < n_numbers && numbers[k].bits; k++) {
		const struct number *t = &numbers[k];

		t->set(w.mem, 3, 0);
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Win_lock_all(0, w.win);
		for (int i = 0, seen = 0; rank && i < ROUNDS;) {
			t->set(out_buf, 0, seen + 1);
			t->set(out_buf, 1, seen);
			MPI_Compare_and_swap(out_buf, out_buf + t->size, in_buf, t->type, 0, (MPI_Aint)(3 * t->size),
					     w.win);
			MPI_Win_flush(0, w.win);
			i += t->get(in_buf, 0) == seen;
			seen = (int)t->get(in_buf, 0);
		}
		MPI_Win_unlock_all(w.win);
		MPI_Barrier(MPI_COMM_WORLD);
		if (rank == 0) {
			MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w.win);
			if (t->get(w.mem, 3) != (n_ranks - 1) * ROUNDS)
				printf("compare and swap of %s\n", t->name);
			WANT(t->get(w.mem, 3), (n_ranks - 1) * ROUNDS);
			WANT(t->get(w.mem, 2), 0);
			WANT(t->get(w.mem, 4), 0);
			MPI_Win_unlock(0, w.win);
		}
		t->set(w.mem, 3, 0);
		t->set(w.mem, 2, 0);
	}
	window_close(&w);
}

/* The holder of an exclusive lock reads a number and writes it back incremented: no increment is lost. */
void case_lock(void)
{
	enum { ROUNDS = 5 };
	struct window w = window_open(64);
	long value;

	for (int i = 0; i < ROUNDS; i++) {
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w.win);
		MPI_Get(&value, 1, MPI_LONG, 0, 8, 1, MPI_LONG, w.win);
		MPI_Win_flush(0, w.win);
		value++;
		MPI_Put(&value, 1, MPI_LONG, 0, 8, 1, MPI_LONG, w.win);
		MPI_Win_unlock(0, w.win);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w.win);
	MPI_Get(&value, 1, MPI_LONG, 0, 8, 1, MPI_LONG, w.win);
	MPI_Win_unlock(0, w.win);
	WANT(value, n_ranks * ROUNDS);
	window_close(&w);
}
