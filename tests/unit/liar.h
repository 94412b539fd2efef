/* SPDX-License-Identifier: BSD-3-Clause */
/* liar.h - a peer that sends WRITEs by reference and lies about its memory. Failures are assertions of cmocka. */
#ifndef TEST_LIAR_H
#define TEST_LIAR_H

#include "devices.h"
#include "engine_priv.h"
#include "fake_peer.h"
#include "links_priv.h"
#include "packet.h"

struct liar {
	struct fake_producer f;
	struct end end;
	struct nic_qp *qp; /* a QP of the end, connected to the liar */
};

/** A ring entry for a WRITE. */
struct lie {
	uint32_t psn, at, len; /* at: offset in the end's buffer */
	const struct link_piece *pieces;
	unsigned n, cut; /* cut: surplus bytes at the end of the entry */
};

/** Hand over a ring; unless `honestly`, the link's number in the message differs from the one in the liar's memory. */
void liar_introduce(struct fake_producer *f, const struct end *e, bool honestly);
void liar_open(struct liar *l, const struct pmd_device *device, bool honestly);
void liar_close(struct liar *l);
void liar_put(struct fake_producer *f, const struct end *e, const struct nic_qp *qp, const struct lie *lie);
/** The end receives what has arrived, in one round over its links. */
void liar_receive(struct end *e);
struct pmd_port_stats liar_stats(struct end *e);

#endif
