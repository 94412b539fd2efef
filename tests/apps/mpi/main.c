/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * main.c - checks what MPI's calls guarantee, in a job of any number of processes: `mpi_check GROUP... [OPTION...]`.
 * Process 0 prints "ok NAME" or "FAIL NAME" for each case.
 *
 * Groups: messages, collectives, one-sided, swap (the compare-and-swap cases of one-sided). Options: allocated: windows
 * have memory allocated by MPI; sums: accumulate only with sums.
 */
#include "mpi_check.h"

int rank, n_ranks, failures;
unsigned char *out_buf, *in_buf;
static char **arguments;

bool option(const char *name)
{
	for (char **argument = arguments; *argument; argument++)
		if (!strcmp(*argument, name))
			return true;
	return false;
}

void check_failed(const char *file, int line, const char *what, long got, long want)
{
	/* A loop reports only its first few failures. */
	if (failures++ < 5)
		printf("process %d: %s:%d: %s is %ld, not %ld\n", rank,
		       strrchr(file, '/') ? strrchr(file, '/') + 1 : file, line, what, got, want);
	fflush(stdout);
}

static unsigned char pattern_at(size_t i, int from, int seq)
{
	return (unsigned char)(i * 7 + i / 251 + (unsigned)from * 31 + (unsigned)seq * 13 + 1);
}

void pattern_fill(unsigned char *buf, size_t len, int from, int seq)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = pattern_at(i, from, seq);
}

size_t pattern_errors(const unsigned char *buf, size_t len, int from, int seq)
{
	size_t errors = 0;

	for (size_t i = 0; i < len; i++)
		errors += buf[i] != pattern_at(i, from, seq);
	return errors;
}

/* ---- datatypes ------------------------------------------------------------------------------------------- */

#define NUMBER(name, c_type)                                                                                           \
	static long get_##name(const void *at, size_t i)                                                               \
	{                                                                                                              \
		return (long)((const c_type *)at)[i];                                                                  \
	}                                                                                                              \
	static void set_##name(void *at, size_t i, long value)                                                         \
	{                                                                                                              \
		((c_type *)at)[i] = (c_type)value;                                                                     \
	}
NUMBER(int8, int8_t)
NUMBER(uint8, uint8_t)
NUMBER(int16, int16_t)
NUMBER(uint16, uint16_t)
NUMBER(int32, int32_t)
NUMBER(uint32, uint32_t)
NUMBER(int64, int64_t)
NUMBER(uint64, uint64_t)
NUMBER(float, float)
NUMBER(double, double)
NUMBER(long_double, long double)

/* This array is global, so its initializers must be constants. Open MPI's datatypes are addresses of objects, which C
 * allows here. */
const struct number numbers[] = {
	{"int8", MPI_INT8_T, 1, true, get_int8, set_int8},
	{"uint8", MPI_UINT8_T, 1, true, get_uint8, set_uint8},
	{"int16", MPI_INT16_T, 2, true, get_int16, set_int16},
	{"uint16", MPI_UINT16_T, 2, true, get_uint16, set_uint16},
	{"int32", MPI_INT32_T, 4, true, get_int32, set_int32},
	{"uint32", MPI_UINT32_T, 4, true, get_uint32, set_uint32},
	{"int64", MPI_INT64_T, 8, true, get_int64, set_int64},
	{"uint64", MPI_UINT64_T, 8, true, get_uint64, set_uint64},
	{"float", MPI_FLOAT, sizeof(float), false, get_float, set_float},
	{"double", MPI_DOUBLE, sizeof(double), false, get_double, set_double},
	{"long double", MPI_LONG_DOUBLE, sizeof(long double), false, get_long_double, set_long_double},
};
const size_t n_numbers = sizeof(numbers) / sizeof(numbers[0]);

/* ---- cases ----------------------------------------------------------------------------------------------- */

static const struct {
	const char *group, *name;
	void (*run)(void);
} cases[] = {
	{"messages", "messages of 0 bytes to 8 MiB", case_sizes},
	{"messages", "from any source, with any tag", case_any_source},
	{"messages", "order of messages of all sizes", case_order},
	{"messages", "probe", case_probe},
	{"messages", "cancel", case_cancel},
	{"messages", "synchronous send", case_synchronous},
	{"messages", "persistent requests", case_persistent},
	{"truncation", "truncation", case_truncation},
	{"messages", "derived datatypes", case_derived},
	{"messages", "many requests at once", case_many_pending},
	{"collectives", "barrier", case_barrier},
	{"collectives", "broadcast, gather, scatter", case_rooted},
	{"collectives", "reductions", case_reductions},
	{"collectives", "all to all", case_all_to_all},
	{"collectives", "nonblocking", case_nonblocking},
	{"collectives", "communicators", case_communicators},
	{"one-sided", "put, get", case_put_get},
	{"one-sided", "epochs", case_epochs},
	{"one-sided", "accumulate", case_accumulate},
	{"one-sided", "get and accumulate", case_get_accumulate},
	{"one-sided", "fetch and op", case_fetch_and_op},
	{"swap", "compare and swap", case_compare_and_swap},
	{"one-sided", "exclusive lock", case_lock},
};

int main(int argc, char **argv)
{
	int failed = 0;

	MPI_Init(&argc, &argv);
	arguments = argv + 1;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
	out_buf = malloc(LONGEST);
	in_buf = malloc(LONGEST);
	if (!out_buf || !in_buf)
		MPI_Abort(MPI_COMM_WORLD, 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int all = 0;

		if (!option(cases[i].group))
			continue;
		failures = 0;
		cases[i].run();
		MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
		failed |= all != 0;
		if (rank == 0) {
			printf("%s %s\n", all ? "FAIL" : "ok", cases[i].name);
			fflush(stdout);
		}
	}
	free(out_buf);
	free(in_buf);
	MPI_Finalize();
	return failed;
}
