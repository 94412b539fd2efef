/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_check.h - test cases that all processes of an MPI job run, and their checks. A failed check prints a line with
 * the process's rank, and the case continues, so that no other process waits in vain.
 */
#ifndef TEST_MPI_CHECK_H
#define TEST_MPI_CHECK_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST (8u << 20)

/** This process's rank, and the number of processes, in MPI_COMM_WORLD. */
extern int rank, n_ranks;
/** Number of failed checks of the running case in this process. */
extern int failures;

/** @return whether the program was started with this option. */
bool option(const char *name);

void check_failed(const char *file, int line, const char *what, long got, long want);
#define WANT(got, want)                                                                                                \
	do {                                                                                                           \
		long got_ = (long)(got), want_ = (long)(want);                                                         \
		if (got_ != want_)                                                                                     \
			check_failed(__FILE__, __LINE__, #got, got_, want_);                                           \
	} while (0)

/** Buffers of LONGEST bytes each, for any case. */
extern unsigned char *out_buf, *in_buf;

/** Fill buf with the contents of message `seq` of process `from`. */
void pattern_fill(unsigned char *buf, size_t len, int from, int seq);
/** @return how many bytes of buf differ from message `seq` of process `from`. */
size_t pattern_errors(const unsigned char *buf, size_t len, int from, int seq);

/** A datatype for operations, and how to store a small number in it. */
struct number {
	const char *name;
	MPI_Datatype type;
	size_t size;
	bool bits; /* the type is an integer type, for which bitwise operations are defined */
	long (*get)(const void *at, size_t i);
	void (*set)(void *at, size_t i, long value);
};
extern const struct number numbers[];
extern const size_t n_numbers;

/* point_to_point.c */
void case_sizes(void);
void case_any_source(void);
void case_order(void);
void case_probe(void);
void case_cancel(void);
void case_synchronous(void);
void case_persistent(void);
void case_truncation(void);
void case_derived(void);
void case_many_pending(void);
/* collectives.c */
void case_barrier(void);
void case_rooted(void);
void case_reductions(void);
void case_all_to_all(void);
void case_nonblocking(void);
void case_communicators(void);
/* one_sided.c */
void case_put_get(void);
void case_epochs(void);
void case_accumulate(void);
void case_get_accumulate(void);
void case_fetch_and_op(void);
void case_compare_and_swap(void);
void case_lock(void);

#endif
