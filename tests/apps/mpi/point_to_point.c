/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * point_to_point.c - messages between processes: contents, order, matching, and all kinds of sends and receives.
 */
#include "mpi_check.h"

static int left(void)
{
	return (rank + n_ranks - 1) % n_ranks;
}

static int right(void)
{
	return (rank + 1) % n_ranks;
}

/** Send to the right neighbour, and receive from the left neighbour. */
static void shift(size_t len, int seq)
{
	MPI_Status status;
	int count = -1;

	pattern_fill(out_buf, len, rank, seq);
	memset(in_buf, 0, len);
	MPI_Sendrecv(out_buf, (int)len, MPI_BYTE, right(), seq, in_buf, (int)len, MPI_BYTE, left(), seq, MPI_COMM_WORLD,
		     &status);
	MPI_Get_count(&status, MPI_BYTE, &count);
	WANT(count, len);
	WANT(status.MPI_SOURCE, left());
	WANT(status.MPI_TAG, seq);
	WANT(pattern_errors(in_buf, len, left(), seq), 0);
}

void case_sizes(void)
{
	int seq = 0;

	shift(0, seq++);
	for (size_t len = 1; len <= LONGEST; len *= 2) {
		shift(len - 1, seq++);
		shift(len, seq++);
		if (len < LONGEST)
			shift(len + 1, seq++);
	}
}

/* Process 0 receives unexpected messages of several sizes from every process, without naming a source or a tag. */
void case_any_source(void)
{
	static const size_t lens[] = {0, 1, 64, 3000, 9000, 70000};
	enum { LENS = sizeof(lens) / sizeof(lens[0]), ROUNDS = 5 };
	int *next = calloc((size_t)n_ranks, sizeof(*next));
	MPI_Status status;
	int count;

	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; rank && i < LENS * ROUNDS; i++) {
		pattern_fill(out_buf, lens[i % LENS], rank, i);
		MPI_Send(out_buf, (int)lens[i % LENS], MPI_BYTE, 0, i, MPI_COMM_WORLD);
	}
	for (int i = 0; !rank && next && i < (n_ranks - 1) * LENS * ROUNDS; i++) {
		MPI_Recv(in_buf, LONGEST, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
		MPI_Get_count(&status, MPI_BYTE, &count);
		WANT(status.MPI_TAG, next[status.MPI_SOURCE]);
		WANT(count, lens[status.MPI_TAG % LENS]);
		WANT(pattern_errors(in_buf, (size_t)count, status.MPI_SOURCE, status.MPI_TAG), 0);
		next[status.MPI_SOURCE]++;
	}
	free(next);
}

/* Messages with the same tag are received in the order of sending, whatever their sizes. All are sent before the first
 * one is received. */
void case_order(void)
{
	enum { MESSAGES = 40 };
	static const size_t lens[] = {8, 100000, 0, 8192, 8193, 20000, 1};
	static unsigned char out[MESSAGES][100000], in[100000];
	MPI_Request requests[MESSAGES];

	for (int i = 0; i < MESSAGES; i++) {
		size_t len = lens[i % 7];

		pattern_fill(out[i], len, rank, i);
		MPI_Isend(out[i], (int)len, MPI_BYTE, right(), 5, MPI_COMM_WORLD, &requests[i]);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; i < MESSAGES; i++) {
		MPI_Status status;
		int count;

		MPI_Recv(in, sizeof(in), MPI_BYTE, left(), 5, MPI_COMM_WORLD, &status);
		MPI_Get_count(&status, MPI_BYTE, &count);
		WANT(count, lens[i % 7]);
		WANT(pattern_errors(in, (size_t)count, left(), i), 0);
	}
	MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE);
}

void case_probe(void)
{
	static const int lens[] = {0, 5, 5000, 500000};
	MPI_Request request;
	MPI_Message message;
	MPI_Status status;
	int flag = 1, count;

	MPI_Iprobe(left(), 77, MPI_COMM_WORLD, &flag, &status);
	WANT(flag, 0);
	for (int i = 0; i < 4; i++) {
		pattern_fill(out_buf, (size_t)lens[i], rank, i);
		MPI_Isend(out_buf, lens[i], MPI_BYTE, right(), 40 + i, MPI_COMM_WORLD, &request);
		if (i % 2) {
			MPI_Mprobe(left(), MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
		} else {
			MPI_Probe(MPI_ANY_SOURCE, 40 + i, MPI_COMM_WORLD, &status);
			MPI_Improbe(left(), 40 + i, MPI_COMM_WORLD, &flag, &message, &status);
			WANT(flag, 1);
		}
		MPI_Get_count(&status, MPI_BYTE, &count);
		WANT(count, lens[i]);
		WANT(status.MPI_TAG, 40 + i);
		WANT(status.MPI_SOURCE, left());
		/* A message that MPI_Mprobe has matched is invisible to other probes. */
		MPI_Iprobe(left(), 40 + i, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
		WANT(flag, 0);
		MPI_Mrecv(in_buf, count, MPI_BYTE, &message, &status);
		WANT(pattern_errors(in_buf, (size_t)count, left(), i), 0);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	}
}

/* A canceled receive does not receive the next message. */
void case_cancel(void)
{
	MPI_Request cancelled, other;
	MPI_Status status;
	int flag = 0, nothing = -1, got = -1;

	MPI_Irecv(&nothing, 1, MPI_INT, left(), 9, MPI_COMM_WORLD, &cancelled);
	MPI_Irecv(&got, 1, MPI_INT, left(), 9, MPI_COMM_WORLD, &other);
	MPI_Cancel(&cancelled);
	MPI_Wait(&cancelled, &status);
	MPI_Test_cancelled(&status, &flag);
	WANT(flag, 1);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Send(&rank, 1, MPI_INT, right(), 9, MPI_COMM_WORLD);
	MPI_Wait(&other, &status);
	WANT(got, left());
	WANT(nothing, -1);
}

/* A synchronous send does not complete before its receive is posted. */
void case_synchronous(void)
{
	static const size_t lens[] = {0, 8, 5000, 100000, 1u << 20};

	for (int i = 0; i < 5; i++) {
		MPI_Request request;
		int flag = 0;

		pattern_fill(out_buf, lens[i], rank, i);
		MPI_Issend(out_buf, (int)lens[i], MPI_BYTE, right(), i, MPI_COMM_WORLD, &request);
		for (int tries = 0; tries < 20 && !flag; tries++)
			MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
		WANT(flag, 0);
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Recv(in_buf, LONGEST, MPI_BYTE, left(), i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		WANT(pattern_errors(in_buf, lens[i], left(), i), 0);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	}
}

void case_persistent(void)
{
	enum { ROUNDS = 20, LEN = 3000 };
	MPI_Request requests[4];

	MPI_Send_init(out_buf, LEN, MPI_BYTE, right(), 1, MPI_COMM_WORLD, &requests[0]);
	MPI_Ssend_init(out_buf + LEN, LEN * 10, MPI_BYTE, left(), 2, MPI_COMM_WORLD, &requests[1]);
	MPI_Recv_init(in_buf, LEN, MPI_BYTE, left(), 1, MPI_COMM_WORLD, &requests[2]);
	MPI_Recv_init(in_buf + LEN, LEN * 10, MPI_BYTE, right(), 2, MPI_COMM_WORLD, &requests[3]);
	for (int i = 0; i < ROUNDS; i++) {
		pattern_fill(out_buf, LEN, rank, i);
		pattern_fill(out_buf + LEN, LEN * 10, rank, i + 1);
		MPI_Startall(4, requests);
		MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
		WANT(pattern_errors(in_buf, LEN, left(), i), 0);
		WANT(pattern_errors(in_buf + LEN, LEN * 10, right(), i + 1), 0);
	}
	for (int i = 0; i < 4; i++)
		MPI_Request_free(&requests[i]);
}

/* A message is longer than its receive buffer: the receive reports an error, nothing is written beyond the buffer, and
 * the next message arrives intact. */
void case_truncation(void)
{
	static const int lens[] = {100, 100000};

	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	for (int i = 0; i < 2; i++) {
		MPI_Request receive, sends[2];
		int class = MPI_SUCCESS, rc, next = -1;

		memset(in_buf, 0xee, 200);
		MPI_Irecv(in_buf, 50, MPI_BYTE, left(), 3, MPI_COMM_WORLD, &receive);
		MPI_Barrier(MPI_COMM_WORLD);
		pattern_fill(out_buf, (size_t)lens[i], rank, i);
		MPI_Isend(out_buf, lens[i], MPI_BYTE, right(), 3, MPI_COMM_WORLD, &sends[0]);
		MPI_Isend(&rank, 1, MPI_INT, right(), 3, MPI_COMM_WORLD, &sends[1]);
		rc = MPI_Wait(&receive, MPI_STATUS_IGNORE);
		if (rc)
			MPI_Error_class(rc, &class);
		WANT(class, MPI_ERR_TRUNCATE);
		WANT(in_buf[50], 0xee);
		MPI_Recv(&next, 1, MPI_INT, left(), 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		WANT(next, left());
		MPI_Waitall(2, sends, MPI_STATUSES_IGNORE);
	}
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* A derived datatype sends columns of one matrix into rows of another. */
void case_derived(void)
{
	enum { N = 200 };
	static double out[N][N], in[N][N];
	MPI_Datatype column;
	int wrong = 0;

	MPI_Type_vector(N, 1, N, MPI_DOUBLE, &column);
	MPI_Type_create_resized(column, 0, sizeof(double), &column);
	MPI_Type_commit(&column);
	for (int i = 0; i < N; i++)
		for (int j = 0; j < N; j++)
			out[i][j] = rank * 1e6 + i * N + j;
	MPI_Sendrecv(out, N, column, right(), 1, in, N * N, MPI_DOUBLE, left(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (int i = 0; i < N; i++)
		for (int j = 0; j < N; j++)
			wrong += in[i][j] != left() * 1e6 + j * N + i;
	WANT(wrong, 0);
	MPI_Type_free(&column);
}

/* Every process sends to every other, with receives posted in the opposite order. */
void case_many_pending(void)
{
	enum { EACH = 200, LEN = 500 };
	int n = n_ranks * EACH;
	MPI_Request *requests = malloc(2 * (size_t)n * sizeof(*requests));

	if (!requests || (size_t)n * LEN > LONGEST)
		MPI_Abort(MPI_COMM_WORLD, 1);
	for (int i = n - 1; i >= 0; i--)
		MPI_Irecv(in_buf + (size_t)i * LEN, LEN, MPI_BYTE, i / EACH, i % EACH, MPI_COMM_WORLD, &requests[i]);
	for (int i = 0; i < n; i++) {
		pattern_fill(out_buf + (size_t)i * LEN, LEN, rank, i % EACH);
		MPI_Isend(out_buf + (size_t)i * LEN, LEN, MPI_BYTE, i / EACH, i % EACH, MPI_COMM_WORLD,
			  &requests[n + i]);
	}
	MPI_Waitall(2 * n, requests, MPI_STATUSES_IGNORE);
	for (int i = 0; i < n; i++)
		WANT(pattern_errors(in_buf + (size_t)i * LEN, LEN, i / EACH, i % EACH), 0);
	free(requests);
}
