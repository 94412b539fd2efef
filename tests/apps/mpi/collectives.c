/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * collectives.c - collective operations of all processes of a communicator, with results checked by arithmetic.
 */
#include "mpi_check.h"

static const int counts[] = {1, 17, 4096, 60001};
#define COUNTS 4

void case_barrier(void)
{
	/* No process leaves the barrier a round early: between two barriers, process 0 receives only empty messages of
	 * this round. */
	for (int i = 0; i < 100; i++) {
		if (rank)
			MPI_Send(NULL, 0, MPI_BYTE, 0, i, MPI_COMM_WORLD);
		MPI_Barrier(MPI_COMM_WORLD);
		for (int k = 1; !rank && k < n_ranks; k++) {
			MPI_Status status;

			MPI_Recv(NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
			WANT(status.MPI_TAG, i);
		}
		MPI_Barrier(MPI_COMM_WORLD);
	}
}

void case_rooted(void)
{
	int *out = (int *)out_buf, *in = (int *)in_buf;

	for (int c = 0; c < COUNTS; c++)
		for (int root = 0; root < n_ranks; root++) {
			int n = counts[c], wrong = 0;

			for (int i = 0; i < n; i++)
				out[i] = rank == root ? root * 1000 + i : -1;
			MPI_Bcast(out, n, MPI_INT, root, MPI_COMM_WORLD);
			for (int i = 0; i < n; i++)
				wrong += out[i] != root * 1000 + i;
			for (int i = 0; i < n; i++)
				out[i] = rank * n + i;
			MPI_Gather(out, n, MPI_INT, in, n, MPI_INT, root, MPI_COMM_WORLD);
			for (int i = 0; rank == root && i < n * n_ranks; i++)
				wrong += in[i] != i;
			memset(out, 0, (size_t)n * sizeof(int));
			MPI_Scatter(in, n, MPI_INT, out, n, MPI_INT, root, MPI_COMM_WORLD);
			for (int i = 0; i < n; i++)
				wrong += out[i] != rank * n + i;
			WANT(wrong, 0);
		}
}

static void reductions_of(const struct number *t, int n)
{
	/* The numbers are small, so that their sums and maxima fit into each type. */
	long sum = 0, before = 0;
	int wrong = 0;

	for (int r = 0; r < n_ranks; r++) {
		sum += r + 1;
		before += r < rank ? r + 1 : 0;
	}
	for (int i = 0; i < n; i++)
		t->set(out_buf, (size_t)i, rank + 1 + i % 3);
	MPI_Allreduce(out_buf, in_buf, n, t->type, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < n; i++)
		wrong += t->get(in_buf, (size_t)i) != sum + n_ranks * (i % 3);
	MPI_Reduce(out_buf, in_buf, n, t->type, MPI_MAX, n_ranks - 1, MPI_COMM_WORLD);
	for (int i = 0; rank == n_ranks - 1 && i < n; i++)
		wrong += t->get(in_buf, (size_t)i) != n_ranks + i % 3;
	MPI_Scan(out_buf, in_buf, n, t->type, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < n; i++)
		wrong += t->get(in_buf, (size_t)i) != before + rank + 1 + (rank + 1) * (i % 3);
	MPI_Exscan(out_buf, in_buf, n, t->type, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; rank && i < n; i++)
		wrong += t->get(in_buf, (size_t)i) != before + rank * (i % 3);
	WANT(wrong, 0);
}

void case_reductions(void)
{
	for (size_t t = 0; t < n_numbers; t++)
		for (int c = 0; c < COUNTS - 1; c++)
			reductions_of(&numbers[t], counts[c]);
	reductions_of(&numbers[9], counts[COUNTS - 1]);
}

void case_all_to_all(void)
{
	int *out = (int *)out_buf, *in = (int *)in_buf;
	int *n_out = malloc(4 * (size_t)n_ranks * sizeof(int)), *n_in = n_out + n_ranks, *at_out = n_in + n_ranks,
	    *at_in = at_out + n_ranks;
	int wrong = 0;

	for (int c = 0; c < COUNTS; c++) {
		int n = counts[c];

		for (int i = 0; i < n * n_ranks; i++)
			out[i] = rank * n * n_ranks + i;
		MPI_Alltoall(out, n, MPI_INT, in, n, MPI_INT, MPI_COMM_WORLD);
		for (int i = 0; i < n * n_ranks; i++)
			wrong += in[i] != i / n * n * n_ranks + rank * n + i % n;
		MPI_Allgather(out, n, MPI_INT, in, n, MPI_INT, MPI_COMM_WORLD);
		for (int i = 0; i < n * n_ranks; i++)
			wrong += in[i] != i / n * n * n_ranks + i % n;
	}
	/* Process r sends 1000 times (r + k) numbers to process k, possibly none. */
	for (int k = 0, a = 0, b = 0; k < n_ranks; k++) {
		n_out[k] = n_in[k] = 1000 * (rank + k);
		at_out[k] = a;
		at_in[k] = b;
		a += n_out[k];
		b += n_in[k];
		for (int i = 0; i < n_out[k]; i++)
			out[at_out[k] + i] = rank * 100 + k;
	}
	MPI_Alltoallv(out, n_out, at_out, MPI_INT, in, n_in, at_in, MPI_INT, MPI_COMM_WORLD);
	for (int k = 0; k < n_ranks; k++)
		for (int i = 0; i < n_in[k]; i++)
			wrong += in[at_in[k] + i] != k * 100 + rank;
	WANT(wrong, 0);
	free(n_out);
}

/* Several nonblocking collectives run at once, together with point-to-point messages. */
void case_nonblocking(void)
{
	enum { N = 5000 };
	static int sum[N], most[N], mine[N], cast[N];
	MPI_Request requests[5];
	int from = -1, wrong = 0;

	for (int i = 0; i < N; i++) {
		mine[i] = rank + i;
		cast[i] = rank == 0 ? i : -1;
	}
	MPI_Irecv(&from, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &requests[0]);
	MPI_Iallreduce(mine, sum, N, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[1]);
	MPI_Ibcast(cast, N, MPI_INT, 0, MPI_COMM_WORLD, &requests[2]);
	MPI_Iallreduce(mine, most, N, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &requests[3]);
	MPI_Ibarrier(MPI_COMM_WORLD, &requests[4]);
	MPI_Send(&rank, 1, MPI_INT, (rank + 1) % n_ranks, 1, MPI_COMM_WORLD);
	MPI_Waitall(5, requests, MPI_STATUSES_IGNORE);
	for (int i = 0; i < N; i++)
		wrong += (sum[i] != n_ranks * (n_ranks - 1) / 2 + n_ranks * i) + (most[i] != n_ranks - 1 + i) +
			 (cast[i] != i);
	WANT(wrong, 0);
	WANT(from, (rank + n_ranks - 1) % n_ranks);
}

/* A message sent in one communicator is not received in another. */
void case_communicators(void)
{
	MPI_Comm half, twin;
	int in_half, n_half, sum = 0, want = 0, a = -1, b = -1;
	MPI_Request requests[2];

	MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
	MPI_Comm_rank(half, &in_half);
	MPI_Comm_size(half, &n_half);
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, half);
	for (int r = rank % 2; r < n_ranks; r += 2)
		want += r;
	WANT(sum, want);
	WANT(in_half, (n_ranks - 1 - rank) / 2);
	MPI_Comm_dup(half, &twin);
	MPI_Irecv(&a, 1, MPI_INT, (in_half + 1) % n_half, 1, half, &requests[0]);
	MPI_Irecv(&b, 1, MPI_INT, (in_half + 1) % n_half, 1, twin, &requests[1]);
	for (int i = 1; i >= 0; i--)
		MPI_Send(&i, 1, MPI_INT, (in_half + n_half - 1) % n_half, 1, i ? twin : half);
	MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
	WANT(a, 0);
	WANT(b, 1);
	MPI_Comm_free(&twin);
	MPI_Comm_free(&half);
}
