/* SPDX-License-Identifier: BSD-3-Clause */
/* observe.c - for observers: counters and the trace, with names from the .def tables; the QPs and their paths. */
#include "qp.h"
#include "source.h"

static const struct {
	const char *name, *sentence;
} counter_rows[] = {
#define NIC_COUNTER(name, sentence) {#name, sentence},
#include "counters.def"
#undef NIC_COUNTER
};

static const char *const trace_names[] = {
#define NIC_TRACE(name, sentence) #name,
#include "trace.def"
#undef NIC_TRACE
};

uint64_t nic_completions(const struct nic *nic)
{
	return nic->completions;
}

const uint64_t *nic_counters(const struct nic *nic)
{
	return nic->counters;
}

const char *nic_counter_name(unsigned counter)
{
	return counter < NIC_CNT_COUNT ? counter_rows[counter].name : NULL;
}

const char *nic_counter_sentence(unsigned counter)
{
	return counter < NIC_CNT_COUNT ? counter_rows[counter].sentence : NULL;
}

uint32_t nic_qp_path(const struct nic_qp *qp)
{
	return qp_path(qp);
}

unsigned nic_qp_list(const struct nic *nic, uint32_t from, struct nic_qp **out, unsigned n)
{
	unsigned count = 0;

	for (uint32_t i = 0; n && nic->qps.slots && i <= nic->qps.mask; i++) {
		struct nic_qp *qp = nic->qps.slots[i].value;
		unsigned at;

		/* no guests of shared XRC domains: they are other NICs' QPs (xrc/guest.c) */
		if (!qp || source_is_closed(qp) || qp->qpn < from || (count == n && qp->qpn > out[n - 1]->qpn))
			continue;
		for (at = count < n ? count++ : n - 1; at > 0 && out[at - 1]->qpn > qp->qpn; at--)
			out[at] = out[at - 1];
		out[at] = qp;
	}
	return count;
}

bool nic_trace_get(const struct nic *nic, uint64_t index, struct nic_trace_entry *out)
{
	if (index >= nic->trace_head || nic->trace_head - index > nic->cfg.trace_len)
		return false;
	*out = nic->trace[index & (nic->cfg.trace_len - 1)];
	return true;
}

uint64_t nic_trace_head(const struct nic *nic)
{
	return nic->trace_head;
}

const char *nic_trace_name(unsigned event)
{
	return event < NIC_TR_COUNT ? trace_names[event] : NULL;
}
