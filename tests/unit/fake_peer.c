/* SPDX-License-Identifier: BSD-3-Clause */
/* fake_peer.c - see fake_peer.h. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine_priv.h"
#include "fake_peer.h"
#include "links_priv.h"

#define LONG_MS	   20000
#define JUNK_BYTES 56

bool fake_readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, LONG_MS) == 1;
}

void fake_upkeep(struct end *e)
{
	pmd_lock(e->engine);
	pmd_engine_upkeep(e->engine);
	pmd_unlock(e->engine);
}

/* ---- consumer --------------------------------------------------------------------------------------------------- */

void fake_listen(struct fake_consumer *f, const struct pmd_device *device, unsigned function)
{
	struct proto_name name;

	memset(f, 0, sizeof(*f));
	f->fd = -1;
	pmd_name_function(&device->gid, function, &name);
	f->listen_fd = proto_listen(&name);
	assert_true(f->listen_fd >= 0);
}

void fake_take(struct fake_consumer *f)
{
	PROTO_MSG(m);
	int memfd;

	f->fd = -1;
	do { /* skip connections that only ask PROTO_WHOIS */
		if (f->fd >= 0)
			close(f->fd);
		assert_true(fake_readable(f->listen_fd));
		f->fd = proto_accept(f->listen_fd);
		assert_true(f->fd >= 0);
		assert_int_equal(proto_recv_wait(f->fd, &m, LONG_MS), 1);
	} while (m.type == PROTO_WHOIS);
	assert_true(proto_msg_is(&m, PROTO_LINK, sizeof(struct proto_link), 1));
	memcpy(&f->said, m.data, sizeof(f->said));
	memfd = proto_msg_take(&m, 0);
	assert_int_equal(ring_map(&f->ring, memfd), 0);
	assert_true(ring_take(&f->ring));
	close(memfd);
}

void fake_answer(const struct fake_consumer *f, int bell)
{
	assert_int_equal(proto_send(f->fd, PROTO_LINK_TAKEN, NULL, 0, &bell, bell >= 0), 0);
}

bool fake_is_knocked(const struct fake_consumer *f)
{
	PROTO_MSG(m);

	return proto_recv_wait(f->fd, &m, LONG_MS) == 1 && proto_msg_is(&m, PROTO_LINK_KNOCK, 0, 0);
}

void fake_end(struct fake_consumer *f)
{
	close(f->fd);
	f->fd = -1;
	ring_unmap(f->ring.memory);
}

void fake_close(struct fake_consumer *f)
{
	if (f->fd >= 0)
		fake_end(f);
	close(f->listen_fd);
}

/* ---- producer --------------------------------------------------------------------------------------------------- */

void fake_hand_over(struct fake_producer *f, const struct end *e)
{
	fake_hand_over_for(f, e, 0);
}

int fake_connect(struct fake_producer *f, const struct end *e)
{
	int memfd = ring_create(&f->ring);
	struct proto_name name;

	assert_true(memfd >= 0);
	pmd_name_function(&e->gid, FAKE_FUNCTION, &name);
	/* Listen under the fake function's name, because the engine checks which process owns the name. The result is
	 * < 0 if another part of the test already listens. */
	f->name_fd = proto_listen(&name);
	pmd_name_function(&e->gid, e->engine->host.function, &name);
	f->fd = proto_connect(&name);
	assert_true(f->fd >= 0);
	return memfd;
}

void fake_hand_over_for(struct fake_producer *f, const struct end *e, uint16_t service)
{
	const struct proto_link self = {.key = e->gid, .to = e->gid, .function = FAKE_FUNCTION, .service = service};
	int memfd = fake_connect(f, e);

	assert_int_equal(proto_send(f->fd, PROTO_LINK, &self, sizeof(self), &memfd, 1), 0);
	close(memfd);
}

unsigned fake_put(struct fake_producer *f, unsigned n)
{
	uint8_t *place;

	for (unsigned i = 0; i < n; i++) {
		if (ring_reserve(&f->ring, &place) != 1)
			return i;
		memset(place, 0, JUNK_BYTES);
		ring_commit(&f->ring, JUNK_BYTES, LINK_PACKET);
	}
	return n;
}

void fake_ring(struct fake_producer *f, const struct end *e)
{
	const uint64_t one = 1;

	if (ring_must_wake(&f->ring))
		assert_int_equal(write(e->engine->host.bell_fd, &one, sizeof(one)), sizeof(one));
}

void fake_gone(struct fake_producer *f)
{
	if (f->name_fd >= 0)
		close(f->name_fd);
	close(f->fd);
	ring_unmap(f->ring.memory);
}

/* ---- QPs and routes of the engine ------------------------------------------------------------------------------- */

static void modify(struct nic_qp *qp, struct nic_qp_attr *attr, enum nic_qp_state state, uint32_t mask)
{
	attr->qp_state = state;
	assert_int_equal(nic_qp_modify(qp, attr, NIC_QP_STATE | mask), 0);
}

struct nic_qp *fake_qp(struct end *e, enum nic_qp_type type, struct nic_cq *cq, const struct nic_gid *gid, uint32_t qpn,
		       uint8_t timeout)
{
	struct nic_qp_init init = {
		.type = type, .cap = {1024, 64, 1, 1, 64}, .pd = e->pd, .send_cq = cq, .recv_cq = cq};
	struct nic_qp_attr attr = {.port_num = 1,
				   .path_mtu = NIC_MTU_1024,
				   .dest_qp_num = qpn,
				   .qkey = 1,
				   .max_rd_atomic = 4,
				   .max_dest_rd_atomic = 4,
				   .min_rnr_timer = 12,
				   .timeout = timeout,
				   .retry_cnt = 7,
				   .rnr_retry = 7};
	struct nic_qp *qp;

	if (gid)
		attr.av.dgid = *gid;
	pmd_lock(e->engine);
	assert_int_equal(nic_qp_create(e->nic, &init, &qp), 0);
	modify(qp, &attr, NIC_QPS_INIT,
	       NIC_QP_PKEY_INDEX | NIC_QP_PORT | (type == NIC_QPT_UD ? NIC_QP_QKEY : NIC_QP_ACCESS_FLAGS));
	modify(qp, &attr, NIC_QPS_RTR,
	       (type == NIC_QPT_UD   ? 0
		: type == NIC_QPT_UC ? NIC_QP_AV | NIC_QP_PATH_MTU | NIC_QP_DEST_QPN | NIC_QP_RQ_PSN
				     : NIC_QP_AV | NIC_QP_PATH_MTU | NIC_QP_DEST_QPN | NIC_QP_RQ_PSN |
					       NIC_QP_MAX_DEST_RD_ATOMIC | NIC_QP_MIN_RNR_TIMER));
	modify(qp, &attr, NIC_QPS_RTS,
	       NIC_QP_SQ_PSN | (type == NIC_QPT_RC
					? NIC_QP_TIMEOUT | NIC_QP_RETRY_CNT | NIC_QP_RNR_RETRY | NIC_QP_MAX_QP_RD_ATOMIC
					: 0));
	pmd_unlock(e->engine);
	return qp;
}

uint32_t fake_route(struct end *e)
{
	uint32_t path;

	pmd_lock(e->engine);
	path = pmd_links_route(e->engine->host.links, &e->gid, FAKE_QPN);
	pmd_unlock(e->engine);
	return path;
}
