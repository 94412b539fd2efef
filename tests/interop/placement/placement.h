/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * placement.h - declarations shared by the files of the test of FLUSH and ATOMIC WRITE (IBTA A19). It is an ordinary
 * verbs program. The client requests, the server is the memory.
 */
#ifndef PLACEMENT_H
#define PLACEMENT_H

#include <infiniband/verbs.h>
#include "../../apps/verify/verify.h"

/* What older versions of verbs.h lack. */
#define FLUSH_GLOBAL	 (1 << 8)  /* IBV_ACCESS_FLUSH_GLOBAL */
#define FLUSH_PERSISTENT (1 << 9)  /* IBV_ACCESS_FLUSH_PERSISTENT */
#define WITH_FLUSH	 (1 << 11) /* IBV_QP_EX_WITH_FLUSH */
#define WC_FLUSH	 8	   /* IBV_WC_FLUSH */
#define CAPS_SHIFT	 38	   /* device_cap_flags_ex: FLUSH of either kind, ATOMIC WRITE */
enum type { GLOBAL = 1, PERSISTENT = 2 };
enum level { RANGE, REGION };

#define LEN	  65536
#define DATA_AT	  256	    /* where the WRITEs of a case go */
#define DATA_LEN  9000	    /* several packets */
#define WORD_AT	  16392	    /* where an ATOMIC WRITE of a case goes */
#define FILE_LEN  (2 << 20) /* mapped; a page of persistent memory */
#define SLOTS	  8	    /* of a batch */
#define SLOT_LEN  4096
#define FLAGS_AT  40960
#define WAIT_MS	  90000
#define EXIT_SKIP 77

#define REMOTE (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)
#define RIGHTS (REMOTE | FLUSH_GLOBAL | FLUSH_PERSISTENT)

/* Regions of the server. All but FILE_BACKED are in the same memory. */
enum region { OPEN, NO_FLUSH, NO_WRITE, FILE_BACKED, REGIONS };

struct key {
	uint64_t addr;
	uint32_t rkey; /* 0: the device refuses this region */
};

struct hello {
	union ibv_gid gid;
	uint32_t qpn, is_rxe;
	struct key key[REGIONS];
};

/** What the client wants. */
struct wish {
	uint32_t timeout_code, batches, only_batches;
};

struct side {
	int oob;
	bool client;
	uint8_t gid_index;
	const char *file_name;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_qp_ex *ex;
	uint8_t *mem, *file, *expected;
	struct ibv_mr *mr[REGIONS];
	struct hello mine, peer;
	struct wish wish;
};

/* side.c: device, memory, queue pairs, requests */
void side_open(struct side *me);
void side_close(struct side *me);
/** Make a QP, and connect it with that of the other end; `rights` are those that this QP grants. */
void side_connect(struct side *me, int rights);
void side_disconnect(struct side *me);
/** ibv_wr_flush(), which older versions of verbs.h lack. */
void wr_flush(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, size_t len, uint8_t type, uint8_t level);
/** A WRITE of the client's memory. */
void wr_write(struct side *me, const struct key *to, uint64_t at, const uint8_t *data, uint32_t len);
/** Wait for a completion. @return whether it is this one; else it prints what is wrong. */
bool wc_is(struct side *me, uint64_t id, enum ibv_wc_status status, int opcode);

/* cases.c: requests one by one, @return whether all are well */
bool cases_run(struct side *me);

/* batches.c: WRITE, FLUSH and ATOMIC WRITE in a row. @return whether all are well */
bool batches_run(struct side *me);

#endif
