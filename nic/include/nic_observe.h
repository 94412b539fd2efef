/* SPDX-License-Identifier: BSD-3-Clause */
/* nic_observe.h - counters, the trace ring, names of errors; see nic.h. */
#ifndef NIC_NIC_OBSERVE_H
#define NIC_NIC_OBSERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "nic_types.h"

/** Ids of the counters of the whole NIC: NIC_CNT_<name>, one for each line of counters.def. */
enum nic_counter {
#define NIC_COUNTER(name, sentence) NIC_CNT_##name,
#include "counters.def"
#undef NIC_COUNTER
	NIC_CNT_COUNT
};

/** All counters, indexed by enum nic_counter; they are never reset. The pointer is valid as long as the instance. */
const uint64_t *nic_counters(const struct nic *nic);
/** Completions of CQs and callbacks of endpoints (nic_rdm.h) so far. A thread that receives packets because its
 *  application polls a CQ can stop receiving when this number has grown. */
uint64_t nic_completions(const struct nic *nic);
/** Whether there are delayed ACKs that nic_ack_flush can make due. */
bool nic_acks_wait(const struct nic *nic);
/** Name and one-sentence meaning of a counter; NULL when out of range. */
const char *nic_counter_name(unsigned counter);
const char *nic_counter_sentence(unsigned counter);

/** Counters of one QP. */
struct nic_qp_counters {
	uint64_t tx_packets, tx_bytes, rx_packets, rx_bytes; /* bytes are payload */
	uint64_t retransmits;				     /* packets sent again */
	uint64_t timeouts, rnr_naks_rx, rnr_naks_tx, seq_naks_rx, seq_naks_tx, duplicates_rx, dropped_rx;
};
void nic_qp_counters(const struct nic_qp *qp, struct nic_qp_counters *out);

/** The path on which a QP sends; for a UD QP, the path of its next request. */
uint32_t nic_qp_path(const struct nic_qp *qp);

/** List up to n QPs in ascending order of QPN, beginning with the lowest QPN that is at least `from`. @return how
 *  many were listed. */
unsigned nic_qp_list(const struct nic *nic, uint32_t from, struct nic_qp **out, unsigned n);

/** Events of the trace ring, one for each line of trace.def. */
enum nic_trace_event {
#define NIC_TRACE(name, sentence) NIC_TR_##name,
#include "trace.def"
#undef NIC_TRACE
	NIC_TR_COUNT
};

struct nic_trace_entry {
	uint64_t now_ns;
	uint32_t qpn;	/* 0: none */
	uint32_t event; /* enum nic_trace_event */
	uint32_t a, b;	/* meaning: see the event's sentence in trace.def; mostly PSN and opcode */
};

/** Copy the trace entry with running number `index` to *out. @return false: the entry has been overwritten, or is
 *  not written yet. */
bool nic_trace_get(const struct nic *nic, uint64_t index, struct nic_trace_entry *out);
/** Running number of the next entry to be written. */
uint64_t nic_trace_head(const struct nic *nic);
const char *nic_trace_name(unsigned event);

/** What nic_wc.vendor_err means: the sentence of its line in error.def. NULL when out of range. */
const char *nic_vendor_err_str(uint32_t vendor_err);

#endif
