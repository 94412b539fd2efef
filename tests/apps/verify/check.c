/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check.c - checks every message: its completions, its data, and the memory around the data.
 *
 * The data of a completed message is also written to the shadow of its target area. At the end of a phase memory and
 * shadow must be equal: a wrong byte is found, and so is an extra byte written anywhere in the area.
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "verify.h"

static uint8_t *scratch(size_t len)
{
	static uint8_t *buf;
	static size_t size;

	if (len + 8 > size) {
		free(buf);
		size = len + 8;
		buf = malloc(size);
		if (!buf)
			die("out of memory");
	}
	return buf;
}

bool op_takes_recv(enum op op)
{
	return op == OP_SEND || op == OP_SEND_IMM || op == OP_SEND_INV || op == OP_WRITE_IMM;
}

bool op_is_atomic(enum op op)
{
	return op == OP_CAS || op == OP_FAA || op == OP_FAA_SHARED;
}

bool msg_is_signaled(const struct phase *ph, unsigned dir, unsigned qp, unsigned msg)
{
	return msg + 1 == ph->msgs || data_u64(data_key(ph, KIND_SIGNAL, dir, qp, msg)) & 3;
}

unsigned msg_offset(const struct phase *ph, unsigned dir, unsigned qp, unsigned msg)
{
	return op_is_atomic(ph->op) ? 0 : data_u64(data_key(ph, KIND_OFFSET, dir, qp, msg)) & 15;
}

uint8_t *msg_slot(const struct phase *ph, const struct area *area, unsigned qp, unsigned msg)
{
	return area->mem + ((size_t)qp * ph->msgs + msg) * ph->stride;
}

int msg_recv_sges(const struct end *end, const struct phase *ph, unsigned slot, struct ibv_sge *sge)
{
	const struct area *sink = &end->area[AREA_SINK];
	uint64_t key = data_key(ph, KIND_RX_SGE, !end->self, 0, slot);
	size_t len = ph->size + (ph->svc == SVC_UD ? GRH_LEN : 0) + (key >> 8 & 31);

	return sge_layout(sge, ph->sges, sink->mem + (size_t)slot * ph->stride, len, sink->mr->lkey, key);
}

int msg_result_sges(const struct end *end, const struct phase *ph, unsigned qp, unsigned msg, struct ibv_sge *sge)
{
	const struct area *result = &end->area[AREA_RESULT];
	uint8_t *at = msg_slot(ph, result, qp, msg) + msg_offset(ph, end->self, qp, msg);

	return sge_layout(sge, ph->sges, at, ph->size, result->mr->lkey, data_key(ph, KIND_TX_SGE, end->self, qp, msg));
}

uint64_t msg_atomic(const struct phase *ph, unsigned dir, unsigned qp, unsigned msg, uint64_t *compare_add,
		    uint64_t *swap, uint64_t *after)
{
	uint64_t value = data_u64(data_key(ph, KIND_VALUE, dir, ph->op == OP_FAA_SHARED ? 0 : qp, 0xffff)), before = 0;

	for (unsigned m = 0; m <= msg; m++) {
		uint64_t operand = data_u64(data_key(ph, KIND_VALUE, dir, qp, m));

		before = value;
		*swap = operand;
		if (ph->op == OP_CAS) {
			*compare_add = m & 1 ? value + 1 : value; /* every second compare-and-swap must fail */
			value = m & 1 ? value : operand;
		} else {
			*compare_add = ph->op == OP_FAA_SHARED ? 1 : operand;
			value += *compare_add;
		}
	}
	*after = value;
	return before;
}

static unsigned qp_index(const struct end *end, uint32_t qpn)
{
	for (unsigned i = 0; i < end->links; i++)
		if (end->link[i].qp->qp_num == qpn)
			return i;
	die("a completion names QP 0x%x, which is not ours", qpn);
}

/** Write the expected result of a READ or atomic to the shadow, and compare the message's slot with it at once. */
static void result_check(struct end *end, const struct phase *ph, struct progress *pr, unsigned qp, unsigned msg)
{
	struct area *result = &end->area[AREA_RESULT];
	struct ibv_sge sge[MAX_SGES];
	int count = msg_result_sges(end, ph, qp, msg, sge);
	uint8_t *data = scratch(ph->size), *slot = msg_slot(ph, result, qp, msg);
	ptrdiff_t to_shadow = result->shadow - result->mem;
	uint64_t a, b, after, value;

	if (ph->op == OP_READ) {
		data_fill(data, ph->size, data_key(ph, KIND_DATA, end->self, qp, msg));
	} else {
		value = msg_atomic(ph, end->self, qp, msg, &a, &b, &after);
		if (ph->op == OP_FAA_SHARED) {
			uint64_t got = 0, first = msg_atomic(ph, end->self, 0, 0, &a, &b, &after);
			size_t done = 0;

			for (int i = 0; i < count; done += sge[i++].length)
				memcpy((uint8_t *)&got + done, (void *)(uintptr_t)sge[i].addr, sge[i].length);
			if (got - first >= (uint64_t)end->links * ph->msgs || pr->shared_seen[got - first]++)
				die("FETCH_ADD on the shared counter: QP %u message %u got start + %lld, taken or out "
				    "of range",
				    qp, msg, (long long)(got - first));
			value = got;
		}
		memcpy(data, &value, 8);
	}
	sge_scatter(sge, count, to_shadow, 0, data, ph->size);
	if (memcmp(slot, slot + to_shadow, ph->stride))
		die("%s: result of QP %u message %u is wrong", op_name(ph->op), qp, msg);
	end->total_msgs++;
	end->total_bytes += ph->size;
}

void check_send_wc(struct end *end, const struct phase *ph, struct progress *pr, const struct ibv_wc *wc)
{
	static const enum ibv_wc_opcode opcode[OP_COUNT] = {
		[OP_SEND] = IBV_WC_SEND,	[OP_SEND_IMM] = IBV_WC_SEND,	    [OP_SEND_INV] = IBV_WC_SEND,
		[OP_WRITE] = IBV_WC_RDMA_WRITE, [OP_WRITE_IMM] = IBV_WC_RDMA_WRITE, [OP_READ] = IBV_WC_RDMA_READ,
		[OP_CAS] = IBV_WC_COMP_SWAP,	[OP_FAA] = IBV_WC_FETCH_ADD,	    [OP_FAA_SHARED] = IBV_WC_FETCH_ADD,
	};
	unsigned qp = qp_index(end, wc->qp_num), msg = wc->wr_id & 0xffff;

	if (wc->status)
		die("%s %s size %u QP %u: request failed: %s (vendor 0x%x)", service_name(ph->svc), op_name(ph->op),
		    ph->size, qp, ibv_wc_status_str(wc->status), wc->vendor_err);
	if (wc->wr_id >> 16 != (0x5e000000u | qp))
		die("%s QP %u: completion with wr_id 0x%llx", op_name(ph->op), qp, (unsigned long long)wc->wr_id);
	if (wc->opcode != opcode[ph->op])
		die("%s QP %u: completion opcode %d", op_name(ph->op), qp, wc->opcode);
	if (msg < pr->sent[qp] || msg >= ph->msgs)
		die("%s QP %u: message %u completed after %u", op_name(ph->op), qp, msg, pr->sent[qp]);
	if (!msg_is_signaled(ph, end->self, qp, msg))
		die("%s QP %u: message %u was unsignaled and completed", op_name(ph->op), qp, msg);
	if ((ph->op == OP_READ || op_is_atomic(ph->op)) && wc->byte_len != ph->size)
		die("%s QP %u: byte_len %u for %u bytes", op_name(ph->op), qp, wc->byte_len, ph->size);
	for (unsigned m = pr->sent[qp]; m <= msg; m++) {
		if (m < msg && msg_is_signaled(ph, end->self, qp, m))
			die("%s QP %u: no completion for message %u", op_name(ph->op), qp, m);
		if (ph->op == OP_READ || op_is_atomic(ph->op))
			result_check(end, ph, pr, qp, m);
	}
	pr->sent[qp] = msg + 1;
	pr->send_left--;
}

/** The GRH area of a UD message over IPv4: 20 undefined bytes, then the IPv4 header (IBTA A17.4.5.1). */
static void grh_check(struct end *end, const struct ibv_sge *sge, int count, const struct ibv_wc *wc)
{
	struct area *sink = &end->area[AREA_SINK];
	const uint8_t *ip;
	uint8_t grh[GRH_LEN];
	size_t done = 0;

	for (int i = 0; i < count && done < GRH_LEN; i++) {
		size_t n = sge[i].length < GRH_LEN - done ? sge[i].length : GRH_LEN - done;

		memcpy(grh + done, (void *)(uintptr_t)sge[i].addr, n);
		done += n;
	}
	ip = grh + 20;
	if (!(wc->wc_flags & IBV_WC_GRH))
		die("UD: completion without the GRH flag");
	if (ip[0] != 0x45 || memcmp(ip + 12, end->remote.gid.raw + 12, 4) ||
	    memcmp(ip + 16, end->local.gid.raw + 12, 4))
		die("UD: the GRH area does not hold the IPv4 header (version byte 0x%02x)", ip[0]);
	sge_scatter(sge, count, sink->shadow - sink->mem, 0, grh, GRH_LEN);
}

static bool sges_hold(const struct ibv_sge *sge, int count, size_t skip, const uint8_t *data, size_t len)
{
	for (int i = 0; i < count && len; i++) {
		size_t room = sge[i].length, from = skip < room ? skip : room;

		skip -= from;
		room -= from;
		if (room > len)
			room = len;
		if (memcmp((uint8_t *)(uintptr_t)sge[i].addr + from, data, room))
			return false;
		data += room;
		len -= room;
	}
	return !len;
}

/** @return whether the received data and completion are those of message `msg` of the QP. */
static bool recv_is(const struct end *end, const struct phase *ph, unsigned qp, unsigned msg, const struct ibv_wc *wc,
		    const struct ibv_sge *sge, int count, uint8_t *data)
{
	uint32_t imm = data_u64(data_key(ph, KIND_IMM, !end->self, qp, msg));

	data_fill(data, ph->size, data_key(ph, KIND_DATA, !end->self, qp, msg));
	if ((wc->wc_flags & IBV_WC_WITH_IMM) && wc->imm_data != htonl(imm))
		return false;
	return ph->op == OP_WRITE_IMM || sges_hold(sge, count, ph->svc == SVC_UD ? GRH_LEN : 0, data, ph->size);
}

void check_recv_wc(struct end *end, const struct phase *ph, struct progress *pr, const struct ibv_wc *wc,
		   const uint32_t *mw_rkeys)
{
	unsigned qp = qp_index(end, wc->qp_num), slot = wc->wr_id & 0xffff, msg, limit;
	bool is_write = ph->op == OP_WRITE_IMM, with_imm = is_write || ph->op == OP_SEND_IMM;
	uint32_t len = ph->size + (ph->svc == SVC_UD ? GRH_LEN : 0);
	struct area *sink = &end->area[AREA_SINK];
	uint8_t *data = scratch(ph->size);
	struct ibv_sge sge[MAX_SGES];
	int count = msg_recv_sges(end, ph, slot, sge);

	if (wc->status)
		die("%s %s size %u QP %u: receive failed: %s", service_name(ph->svc), op_name(ph->op), ph->size, qp,
		    ibv_wc_status_str(wc->status));
	if (wc->wr_id >> 16 != 0x4ecf || slot >= end->links * ph->msgs || (!wc->qp_num))
		die("receive completion with wr_id 0x%llx", (unsigned long long)wc->wr_id);
	if (!(ph->svc == SVC_RC && end->srq) && slot / ph->msgs != qp)
		die("QP %u took a receive of QP %u", qp, slot / ph->msgs);
	if (wc->opcode != (is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV))
		die("%s: receive opcode %d", op_name(ph->op), wc->opcode);
	if (wc->byte_len != len)
		die("%s %s: byte_len %u, %u expected", service_name(ph->svc), op_name(ph->op), wc->byte_len, len);
	if (!!(wc->wc_flags & IBV_WC_WITH_IMM) != with_imm)
		die("%s: wc_flags 0x%x", op_name(ph->op), wc->wc_flags);
	if (ph->svc == SVC_UD) {
		grh_check(end, sge, count, wc);
		if (wc->src_qp != end->remote.link[qp].qpn)
			die("UD: src_qp 0x%x, sent by 0x%x", wc->src_qp, end->remote.link[qp].qpn);
	}
	/* An unreliable service may have lost messages before this one. */
	limit = ph->svc == SVC_RC ? pr->received[qp] + 1 : ph->msgs;
	for (msg = pr->received[qp]; msg < limit && !recv_is(end, ph, qp, msg, wc, sge, count, data);)
		msg++;
	if (msg >= limit || msg >= ph->msgs)
		die("%s %s size %u QP %u: message %u arrived with wrong data or immediate", service_name(ph->svc),
		    op_name(ph->op), ph->size, qp, pr->received[qp]);
	if (ph->op == OP_SEND_INV &&
	    (!(wc->wc_flags & end->inv_flag) || wc->invalidated_rkey != mw_rkeys[qp * ph->msgs + msg]))
		die("send_inv: flags 0x%x, invalidated R_Key 0x%x", wc->wc_flags, wc->invalidated_rkey);
	if (!is_write)
		sge_scatter(sge, count, sink->shadow - sink->mem, len - ph->size, data, ph->size);
	pr->received[qp] = msg + 1;
	pr->recv_left--;
	end->total_msgs++;
	end->total_bytes += ph->size;
}

/** The other end has written to this end's target area: write the same data into the area's shadow. */
static void target_expect(struct end *end, const struct phase *ph)
{
	struct area *target = &end->area[AREA_TARGET];
	ptrdiff_t to_shadow = target->shadow - target->mem;
	unsigned dir = !end->self;
	uint64_t a, b, after;

	for (unsigned qp = 0; qp < end->links; qp++) {
		for (unsigned m = 0; m < ph->msgs; m++) {
			uint8_t *at = msg_slot(ph, target, qp, m) + to_shadow + msg_offset(ph, dir, qp, m);

			if (ph->op == OP_WRITE || ph->op == OP_WRITE_IMM || ph->op == OP_SEND_INV)
				data_fill(at, ph->size, data_key(ph, KIND_DATA, dir, qp, m));
		}
		if (ph->op == OP_CAS || ph->op == OP_FAA) {
			msg_atomic(ph, dir, qp, ph->msgs - 1, &a, &b, &after);
			memcpy(msg_slot(ph, target, qp, 0) + to_shadow, &after, 8);
		}
	}
	if (ph->op == OP_FAA_SHARED) {
		after = msg_atomic(ph, dir, 0, 0, &a, &b, &after) + (uint64_t)end->links * ph->msgs;
		memcpy(target->shadow, &after, 8);
	}
}

/** A WRITE lost on UC may have placed some of its bytes (UC-03); any other change is an error. */
static void target_only_old_or_new(const struct area *target, const uint8_t *old, size_t used)
{
	for (size_t i = 0; i < used; i++)
		if (target->mem[i] != target->shadow[i] && target->mem[i] != old[i])
			die("UC write: byte %zu of the target area is neither old nor new", i);
}

int check_memory(struct end *end, const struct phase *ph, struct progress *pr, bool requester, bool responder)
{
	static const char *const name[] = {"source", "sink", "target", "result"};
	size_t used = (size_t)end->links * ph->msgs * ph->stride;
	struct area *target = &end->area[AREA_TARGET];
	uint64_t deadline = now_ms() + ph->plan->stall_ms;
	uint8_t *old = NULL;
	long at;

	if (responder) {
		if (ph->svc == SVC_UC && (old = malloc(used)))
			memcpy(old, target->shadow, used);
		target_expect(end, ph);
	}
	while (ph->svc == SVC_UC && responder && area_diff(target, used) >= 0 && now_ms() < deadline)
		usleep(1000);
	for (int i = AREA_SINK; i < AREA_COUNT; i++) {
		at = area_diff(&end->area[i], used);
		if (at < 0)
			continue;
		if (i == AREA_TARGET && old) {
			target_only_old_or_new(target, old, used);
			free(old);
			return PHASE_LOST;
		}
		die("%s %s size %u: byte %ld of the %s area is 0x%02x, must be 0x%02x (slot %lu, byte %lu of it)",
		    service_name(ph->svc), op_name(ph->op), ph->size, at, name[i], end->area[i].mem[at],
		    end->area[i].shadow[at], at / ph->stride, at % ph->stride);
	}
	free(old);
	if (responder && !op_takes_recv(ph->op)) {
		end->total_msgs += end->links * ph->msgs;
		end->total_bytes += (uint64_t)end->links * ph->msgs * ph->size;
	}
	return PHASE_OK;
}
