/* SPDX-License-Identifier: BSD-3-Clause */
/* multicast.c - multicast groups as programs use them (IBTA 10.5.2, A17.9.1), between two devices of this process. */
#include "rig.h"

#include <dirent.h>
#include <poll.h>
#include <unistd.h>

/** A multicast group that no other test process uses at the same time. */
static union ibv_gid group_gid(uint8_t n)
{
	union ibv_gid group = {.raw = {[10] = 0xff, 0xff, 239, n}};

	group.raw[14] = (uint8_t)getpid();
	group.raw[15] = (uint8_t)(getpid() >> 8);
	return group;
}

static unsigned descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static bool readable(int fd, int ms)
{
	struct pollfd p = {fd, POLLIN, 0};

	return poll(&p, 1, ms) == 1;
}

/** A datagram to a group reaches the attached QPs of both devices, the sender's own QP included. */
static void ud__HV_17_a_datagram_to_a_group_reaches_all_attached_qps(void **state)
{
	struct rig *rig = *state;
	union ibv_gid group = group_gid(0);
	unsigned before = 0;
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = group, .hop_limit = 1}};
	struct ibv_sge sge = rig_sge(&rig->end[0], 0, 100);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	struct ibv_wc wc;

	rig_connect(rig, IBV_QPT_UD);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(ibv_attach_mcast(rig->end[i].qp, &rig->end[i].gid, 0), EINVAL); /* not a group */
		assert_int_equal(ibv_detach_mcast(rig->end[i].qp, &group, 0), EINVAL);
	}
	/* From its second socket on, a port has an epoll set: open it before the descriptors are counted. */
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(ibv_attach_mcast(rig->end[i].qp, &group, 0), 0);
		assert_int_equal(ibv_detach_mcast(rig->end[i].qp, &group, 0), 0);
	}
	before = descriptors();
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(ibv_attach_mcast(rig->end[i].qp, &group, 0), 0);
		assert_int_equal(ibv_destroy_qp(rig->end[i].qp), EBUSY);
		rig_post_recv(&rig->end[i], 5 + i, 1000, 140);
	}
	memset(rig->end[0].buf, 0x77, 100);
	wr.wr.ud.ah = ibv_create_ah(rig->end[0].pd, &attr);
	assert_non_null(wr.wr.ud.ah);
	wr.wr.ud.remote_qpn = 0xffffff;
	wr.wr.ud.remote_qkey = RIG_QKEY;
	assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
	wc = rig_wait(rig->end[0].cq);
	if (wc.opcode == IBV_WC_SEND)
		wc = rig_wait(rig->end[0].cq);
	else
		assert_int_equal(rig_wait(rig->end[0].cq).opcode, IBV_WC_SEND);
	assert_int_equal(wc.wr_id, 5);
	assert_int_equal(rig_wait(rig->end[1].cq).byte_len, 140);
	for (unsigned i = 0; i < 2; i++) {
		assert_memory_equal(rig->end[i].buf + 1036, group.raw + 12, 4); /* the GRH area: the destination */
		assert_memory_equal(rig->end[i].buf + 1040, rig->end[0].buf, 100);
		assert_int_equal(ibv_detach_mcast(rig->end[i].qp, &group, 0), 0);
	}
	assert_int_equal(descriptors(), before); /* the port's sockets of the group are closed */
	assert_int_equal(ibv_destroy_ah(wr.wr.ud.ah), 0);
}

/** The device is idle when the QP is attached, and its thread sleeps until something arrives for the group. */
static void ud__a_datagram_to_a_group_wakes_a_sleeping_device(void **state)
{
	struct rig *rig = *state;
	struct ibv_comp_channel *ch = ibv_create_comp_channel(rig->end[1].ctx);
	struct ibv_cq *plain = rig->end[1].cq, *cq = ibv_create_cq(rig->end[1].ctx, 8, NULL, ch, 0), *got;
	union ibv_gid group = group_gid(1);
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = group, .hop_limit = 1}};
	struct ibv_sge sge = rig_sge(&rig->end[0], 0, 100);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	void *context;

	rig->end[1].cq = cq;
	rig_connect(rig, IBV_QPT_UD);
	wr.wr.ud.ah = ibv_create_ah(rig->end[0].pd, &attr);
	wr.wr.ud.remote_qpn = 0xffffff;
	wr.wr.ud.remote_qkey = RIG_QKEY;
	rig_post_recv(&rig->end[1], 0, 1000, 140);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	assert_false(readable(ch->fd, 200)); /* the threads go to sleep */
	assert_int_equal(ibv_attach_mcast(rig->end[1].qp, &group, 0), 0);
	assert_false(readable(ch->fd, 50));
	assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
	assert_true(readable(ch->fd, 10000));
	assert_int_equal(ibv_get_cq_event(ch, &got, &context), 0);
	ibv_ack_cq_events(got, 1);
	assert_int_equal(ibv_detach_mcast(rig->end[1].qp, &group, 0), 0);
	assert_int_equal(ibv_destroy_ah(wr.wr.ud.ah), 0);
	rig_disconnect(rig);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(ch), 0);
	rig->end[1].cq = plain;
}

/** Send a datagram of this length from end 0 to a group. */
static void send_to_group(struct rig *rig, struct ibv_ah *ah, uint32_t length)
{
	struct ibv_sge sge = rig_sge(&rig->end[0], 0, length);
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.ud = {ah, 0xffffff, RIG_QKEY}},
			   *bad;

	assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
	assert_int_equal(rig_wait(rig->end[0].cq).status, IBV_WC_SUCCESS);
}

static void ud__a_qp_that_is_attached_twice_gets_one_copy(void **state)
{
	struct rig *rig = *state;
	struct rig_end *to = &rig->end[1];
	union ibv_gid group = group_gid(2);
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = group, .hop_limit = 1}};
	struct ibv_ah *ah = ibv_create_ah(rig->end[0].pd, &attr);

	assert_non_null(ah);
	rig_connect(rig, IBV_QPT_UD);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(ibv_attach_mcast(to->qp, &group, 0), 0);
		rig_post_recv(to, i, 1000, 140);
	}
	send_to_group(rig, ah, 100);
	send_to_group(rig, ah, 60);
	assert_int_equal(rig_wait(to->cq).byte_len, 140);
	assert_int_equal(rig_wait(to->cq).byte_len, 100); /* the second datagram, not the first again */
	assert_int_equal(ibv_detach_mcast(to->qp, &group, 0), 0);
	assert_int_equal(ibv_detach_mcast(to->qp, &group, 0), EINVAL); /* once is enough */
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

static void connected__qps_cannot_be_attached(void **state)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC};
	struct rig *rig = *state;
	union ibv_gid group = group_gid(3);

	for (unsigned i = 0; i < 2; i++) {
		rig_connect(rig, types[i]);
		assert_int_equal(ibv_attach_mcast(rig->end[0].qp, &group, 0), EINVAL);
		assert_int_equal(ibv_detach_mcast(rig->end[0].qp, &group, 0), EINVAL);
		rig_disconnect(rig);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ud__HV_17_a_datagram_to_a_group_reaches_all_attached_qps),
		TEST(ud__a_datagram_to_a_group_wakes_a_sleeping_device),
		TEST(ud__a_qp_that_is_attached_twice_gets_one_copy),
		TEST(connected__qps_cannot_be_attached),
	};

	return cmocka_run_group_tests_name("shim_multicast", tests, NULL, NULL);
}
