/* SPDX-License-Identifier: BSD-3-Clause */
/* liar.c - see liar.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "liar.h"

#define WRITE_ONLY 0x0a

void liar_introduce(struct fake_producer *f, const struct end *e, bool honestly)
{
	struct proto_link self = {.key = e->gid, .to = e->gid, .function = FAKE_FUNCTION};
	int memfd = fake_connect(f, e);

	assert_int_equal(links_introduce(f->fd, &f->ring, &self), 0);
	if (!honestly)
		self.number ^= 1;
	assert_int_equal(proto_send(f->fd, PROTO_LINK, &self, sizeof(self), &memfd, 1), 0);
	close(memfd);
}

void liar_open(struct liar *l, const struct pmd_device *device, bool honestly)
{
	static struct fake_consumer sink;

	end_open(&l->end, device);
	fake_listen(&sink, device, FAKE_FUNCTION);
	l->qp = fake_qp(&l->end, NIC_QPT_RC, l->end.scq, &l->end.gid, FAKE_QPN, 0);
	pmd_lock(l->end.engine);
	assert_int_equal(nic_qp_modify(l->qp, &(struct nic_qp_attr){.qp_access_flags = NIC_ACCESS_REMOTE_WRITE},
				       NIC_QP_ACCESS_FLAGS),
			 0);
	pmd_unlock(l->end.engine);
	fake_take(&sink);
	liar_introduce(&l->f, &l->end, honestly);
	fake_upkeep(&l->end);
	fake_close(&sink);
}

void liar_close(struct liar *l)
{
	fake_gone(&l->f);
	end_close(&l->end);
}

void liar_put(struct fake_producer *f, const struct end *e, const struct nic_qp *qp, const struct lie *lie)
{
	struct packet p = {.op = op_get(WRITE_ONLY), .sgid = e->gid, .dgid = e->gid, .v4 = true, .hop_limit = 64};
	uint8_t *place = NULL;

	packet_init(&p);
	p.payload = NULL;
	p.payload_len = p.pad = 0;
	p.no_icrc = p.ackreq = true;
	p.udp_sport = 49152;
	p.dest_qpn = nic_qp_num(qp);
	p.psn = lie->psn;
	p.va = (uintptr_t)e->buf + lie->at;
	p.rkey = nic_mr_rkey(e->mr);
	p.dma_len = lie->len;
	assert_int_equal(ring_reserve(&f->ring, &place), 1);
	packet_encode(&p, place);
	for (unsigned i = 0; i < lie->n; i++) {
		struct link_piece piece = lie->pieces[i];

		piece.psns = i == 0 ? (lie->len + 1023) / 1024 : 0;
		memcpy(place + LINK_PIECES_AT + i * sizeof(piece), &piece, sizeof(piece));
	}
	ring_commit(&f->ring, LINK_PIECES_AT + lie->n * (uint32_t)sizeof(*lie->pieces) + lie->cut, LINK_REFERENCE);
}

void liar_receive(struct end *e)
{
	pmd_lock(e->engine);
	pmd_links_rx(e->engine->host.links, 64, pmd_now_ns());
	pmd_unlock(e->engine);
}

struct pmd_port_stats liar_stats(struct end *e)
{
	struct pmd_port_stats stats;

	pmd_lock(e->engine);
	stats = e->engine->host.port->stats;
	pmd_unlock(e->engine);
	return stats;
}
