/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job.h - deferred work (fi_trigger(3)) and the structures it refers to.
 */
#ifndef TEST_FABRIC_JOB_H
#define TEST_FABRIC_JOB_H

#include "fabric.h"

#define WORD 8u

/** A piece of deferred work, with the structures that it points to. */
struct job {
	struct fi_deferred_work work;
	struct iovec iov;
	struct fi_rma_iov remote;
	struct fi_ioc operand, result, compare;
	struct fi_rma_ioc target;
	union {
		struct fi_op_msg msg;
		struct fi_op_tagged tagged;
		struct fi_op_rma rma;
		struct fi_op_atomic atomic;
		struct fi_op_fetch_atomic fetch;
		struct fi_op_compare_atomic compared;
		struct fi_op_cntr cntr;
	};
};

/** Must be called first: clears the job and sets its type, trigger and completion counter. The functions below fill in
 * the operation. */
void job_init(struct job *j, enum fi_op_type type, struct fid_cntr *trigger, uint64_t threshold,
	      struct fid_cntr *completion);
void job_message(struct job *j, struct fid_ep *ep, void *buf, size_t len, fi_addr_t addr);
void job_tagged(struct job *j, struct fid_ep *ep, void *buf, size_t len, fi_addr_t addr, uint64_t tag);
/** Fill in an RMA operation on the memory of end b, `at` bytes from the beginning. */
void job_rma(struct pair *p, struct job *j, void *buf, size_t len, size_t at);
/** @return an atomic message for the job, whose target is the first word of end b's memory. */
struct fi_msg_atomic job_on_word(struct pair *p, struct job *j, uint64_t *operand, enum fi_op op);
void job_add_to(struct job *j, struct fid_cntr *cntr, uint64_t value);

int job_queue(struct pair *p, struct job *j);
int job_cancel(struct pair *p, struct job *j);

/** Open an endpoint that uses the CQs of end a. @param shared a shared context to bind; NULL: none. */
struct fid_ep *job_endpoint(struct pair *p, struct fi_info *info, struct fid *shared);
/** Insert the endpoint's address in the pair's address vector. @return its fi_addr_t there. */
fi_addr_t job_address(struct pair *p, struct fid_ep *ep);

#endif
