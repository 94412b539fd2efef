/* SPDX-License-Identifier: BSD-3-Clause */
/* train.h - carries packets by reference from one NIC to another, one by one, predicting (nic_foresee) where the
 * payloads of later packets go and writing all but their last bytes there early. Checks that each prediction comes
 * true. */
#ifndef UNIT_TRAIN_H
#define UNIT_TRAIN_H

#include "nic.h"
#include "pieces.h"

#define TRAIN_MAX 8

struct train {
	struct nic *to;
	unsigned n, at; /* number of packets; index of the packet being delivered */
	struct {
		uint8_t data[NIC_FRAME_MAX];
		uint32_t len;
		struct nic_piece piece[NIC_PIECES_MAX];
		struct nic_reference reference;
		uint8_t *foreseen, *went; /* predicted and actual destination; NULL: none */
	} car[TRAIN_MAX];
};

static inline struct nic_rx_frame train_frame(const struct train *t, unsigned i)
{
	return (struct nic_rx_frame){.data = t->car[i].data,
				     .len = t->car[i].len,
				     .flags = NIC_RX_NO_ICRC,
				     .reference = t->car[i].reference.len ? &t->car[i].reference : NULL};
}

/** Read a part of a packet's referenced payload. */
static inline void train_read(const struct train *t, unsigned i, uint32_t offset, void *dst, uint32_t len, void *last,
			      uint32_t n_last)
{
	uint32_t n = 0;

	for (uint32_t left = t->car[i].reference.len; left; n++)
		left -= t->car[i].piece[n].len;
	pieces_fetch(t->car[i].piece, n, offset, dst, len, last, n_last);
}

static inline void train_look_ahead(struct train *t, const struct nic_rx_frame *frame)
{
	struct nic_foresight f;

	nic_foresee_behind(t->to, frame, &f);
	for (unsigned k = t->at + 1; k < t->n; k++) {
		const struct nic_rx_frame behind = train_frame(t, k);

		t->car[k].foreseen = nic_foresee(t->to, &behind, &f);
		if (t->car[k].foreseen)
			train_read(t, k, 0, t->car[k].foreseen, t->car[k].reference.len - NIC_REFERENCE_LAST, NULL, 0);
	}
}

/** The function for nic_reference.fetch. */
static inline bool train_fetch(void *ctx, uint32_t offset, void *dst, uint32_t len, void *last, uint32_t n_last)
{
	struct train *t = ctx;
	unsigned i = t->at;
	bool whole = offset == 0 && len == t->car[i].reference.len;

	if (whole) {
		const struct nic_rx_frame frame = train_frame(t, i);

		t->car[i].went = dst;
		if (!t->car[i].foreseen)
			train_look_ahead(t, &frame);
	}
	if (whole && t->car[i].foreseen) { /* all but the last bytes have been written early */
		assert_ptr_equal(dst, t->car[i].foreseen);
		train_read(t, i, len - n_last, last, n_last, NULL, 0);
	} else {
		train_read(t, i, offset, dst, len, last, n_last);
	}
	return true;
}

/** Append the next packet of a path to the train. @return whether there was one. */
static inline bool train_take(struct train *t, struct nic *from, uint32_t path, uint64_t now_ns)
{
	struct nic_tx_frame frame = {.data = t->car[t->n].data, .pieces = t->car[t->n].piece};

	if (t->n == TRAIN_MAX || nic_path_tx(from, path, &frame, 1, now_ns) == 0)
		return false;
	t->car[t->n].len = frame.len;
	t->car[t->n].reference = (struct nic_reference){.psns = frame.psns, .fetch = train_fetch, .ctx = t};
	for (uint32_t i = 0; i < frame.n_pieces; i++)
		t->car[t->n].reference.len += frame.pieces[i].len;
	t->car[t->n].foreseen = t->car[t->n].went = NULL;
	t->n++;
	return true;
}

/** Deliver all packets of the train in order. */
static inline void train_give(struct train *t, uint64_t now_ns)
{
	for (t->at = 0; t->at < t->n; t->at++) {
		const struct nic_rx_frame frame = train_frame(t, t->at);

		assert_true(nic_rx(t->to, &frame, now_ns));
	}
	t->n = 0;
}

#endif
