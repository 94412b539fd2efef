/* SPDX-License-Identifier: BSD-3-Clause */
/* test_mcast.c - multicast groups (nic_mcast.h): attaching, and who gets a copy (IBTA 10.5, annex A17). */
#include "rig.h"

#define GRH 40u

static const struct nic_gid groups[2] = {{.raw = {[10] = 0xff, 0xff, 239, 1, 2, 3}}, {.raw = {0xff, 0x0e, [15] = 7}}};

static struct nic_gid group_of(bool v6)
{
	return groups[v6];
}

static struct rig *ready(bool v6)
{
	return rig_ready(&(struct rig_opts){.type = NIC_QPT_UD, .v6 = v6});
}

/** Another UD QP in RTS, with its own Q_Key. */
static struct nic_qp *qp_ready(struct rig *rig, uint32_t qkey)
{
	struct nic_qp *qp = rig_qp_create(rig);
	struct nic_qp_attr attr = {.qp_state = NIC_QPS_INIT, .port_num = 1, .qkey = qkey};

	assert_int_equal(nic_qp_modify(qp, &attr, NIC_QP_STATE | NIC_QP_PKEY_INDEX | NIC_QP_PORT | NIC_QP_QKEY), 0);
	attr.qp_state = NIC_QPS_RTR;
	assert_int_equal(nic_qp_modify(qp, &attr, NIC_QP_STATE), 0);
	attr.qp_state = NIC_QPS_RTS;
	assert_int_equal(nic_qp_modify(qp, &attr, NIC_QP_STATE | NIC_QP_SQ_PSN), 0);
	return qp;
}

static void post_recv(struct rig *rig, struct nic_qp *qp, uint64_t wr_id, uint32_t offset)
{
	struct nic_sge sge = {rig_va(rig, offset), 256, rig->lkey};
	struct nic_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1};

	assert_int_equal(nic_post_recv(qp, &wr), 0);
}

/** A datagram of the peer for a group. */
static struct packet to_group(struct rig *rig, const struct nic_gid *group, uint32_t len)
{
	struct packet p = rig_peer_data(rig, UD_SEND_ONLY, 0, 0, len);

	p.dest_qpn = NIC_MCAST_QPN;
	p.dgid = *group;
	return p;
}

static void mcast__HV_17_each_attached_qp_gets_a_copy(void **state)
{
	for (unsigned v6 = 0; v6 < 2; v6++) {
		struct rig *rig = ready(v6);
		struct nic_gid group = group_of(v6);
		struct packet p = to_group(rig, &group, 100);
		/* The second QP has another Q_Key, the third no receive; the fourth gets its copy all the same. */
		struct nic_qp *qps[4] = {rig->qp, qp_ready(rig, RIG_QKEY + 1), qp_ready(rig, RIG_QKEY),
					 qp_ready(rig, RIG_QKEY)};

		for (unsigned i = 0; i < 4; i++)
			assert_int_equal(nic_mcast_attach(qps[i], &group), 0);
		post_recv(rig, qps[0], 1, 0);
		post_recv(rig, qps[1], 2, 1000);
		post_recv(rig, qps[3], 4, 2000);
		assert_true(rig_rx(rig, &p));
		rig_expect_wc(rig->recv_cq, 1, NIC_WC_SUCCESS);
		assert_int_equal(rig_expect_wc(rig->recv_cq, 4, NIC_WC_SUCCESS).byte_len, GRH + 100);
		rig_expect_no_wc(rig->recv_cq);
		rig_expect_data(rig, GRH, 0, 100);
		rig_expect_data(rig, 2000 + GRH, 0, 100);
		rig_expect_untouched(rig, 1000, 256);
		/* The GRH area shows the group's address. */
		assert_memory_equal(rig->arena + (v6 ? 24 : 36), v6 ? group.raw : group.raw + 12, v6 ? 16 : 4);
		assert_int_equal(rig_counter(rig, rx_multicast), 1);
		assert_int_equal(rig_counter(rig, bad_qkey), 1);
		assert_int_equal(rig_counter(rig, ud_no_wqe), 1);
		rig_expect_silence(rig);
		rig_destroy(rig); /* destroys the QPs, although they are attached */
	}
}

static void mcast__HV_08_HV_11_the_multicast_qpn_goes_with_a_group_that_was_joined(void **state)
{
	struct rig *rig = ready(false);
	struct nic_gid group = group_of(false), other = group;
	struct packet p = to_group(rig, &group, 8);

	post_recv(rig, rig->qp, 1, 0);
	assert_true(rig_rx(rig, &p)); /* nobody is attached */
	assert_int_equal(rig_counter(rig, rx_no_group), 1);
	other.raw[15]++;
	assert_int_equal(nic_mcast_attach(rig->qp, &other), 0);
	assert_true(rig_rx(rig, &p)); /* to a group other than the one the QP is attached to */
	assert_int_equal(rig_counter(rig, rx_no_group), 2);
	p.dgid = rig->gid;
	assert_true(rig_rx(rig, &p)); /* to the device's own address */
	assert_int_equal(rig_counter(rig, rx_no_group), 3);
	p.dgid = other;
	p.dest_qpn = rig->qpn;
	assert_true(rig_rx(rig, &p)); /* to a group, but to the QP's own number */
	assert_int_equal(rig_counter(rig, rx_bad_dgid), 1);
	rig_expect_no_wc(rig->recv_cq);
	p.dest_qpn = NIC_MCAST_QPN;
	assert_true(rig_rx(rig, &p));
	rig_expect_wc(rig->recv_cq, 1, NIC_WC_SUCCESS);
	assert_int_equal(nic_mcast_detach(rig->qp, &other), 0);
	assert_true(rig_rx(rig, &p));
	assert_int_equal(rig_counter(rig, rx_no_group), 4);
	rig_destroy(rig);
}

/** Only datagrams have groups: a packet of another service does not reach the attached QPs. */
static void mcast__packets_of_other_services_are_dropped(void **state)
{
	struct rig *rig = ready(false);
	struct nic_gid group = group_of(false);
	struct packet p = rig_peer_data(rig, SEND_ONLY, 0, 0, 8);

	p.dest_qpn = NIC_MCAST_QPN;
	p.dgid = group;
	assert_int_equal(nic_mcast_attach(rig->qp, &group), 0);
	post_recv(rig, rig->qp, 1, 0);
	rig_rx(rig, &p);
	assert_int_equal(rig_counter(rig, rx_bad_service), 1);
	rig_expect_no_wc(rig->recv_cq);
	rig_expect_silence(rig);
	rig_destroy(rig);
}

static void mcast__QS_12_an_attached_qp_cannot_be_destroyed(void **state)
{
	struct rig *rig = ready(false);
	struct nic_qp *qp = qp_ready(rig, RIG_QKEY);
	struct nic_gid group;

	for (unsigned i = 0; i < 2; i++) {
		group = group_of(i);
		assert_int_equal(nic_mcast_attach(qp, &group), 0);
		assert_int_equal(nic_mcast_attach(qp, &group), 0); /* a second time: no change */
	}
	assert_int_equal(nic_qp_destroy(qp), -EBUSY);
	for (unsigned left = 2; left > 0; left--) {
		assert_true(nic_mcast_any(qp, &group));
		assert_int_equal(nic_mcast_detach(qp, &group), 0);
		assert_false(nic_mcast_has(rig->nic, &group));
		assert_int_equal(nic_mcast_detach(qp, &group), -EINVAL);
	}
	assert_false(nic_mcast_any(qp, &group));
	assert_int_equal(nic_qp_destroy(qp), 0);
	rig_destroy(rig);
}

static void mcast__wrong_qps_and_addresses_are_refused(void **state)
{
	struct nic_gid group = group_of(false);
	struct rig *rig = rig_ready(NULL);

	assert_int_equal(nic_mcast_attach(rig->qp, &group), -EINVAL); /* RC */
	rig_destroy(rig);
	rig = ready(false);
	assert_int_equal(nic_mcast_attach(rig->qp, &rig->gid), -EINVAL);
	group.raw[12] = 240; /* the first address after the IPv4 groups */
	assert_int_equal(nic_mcast_attach(rig->qp, &group), -EINVAL);
	group.raw[12] = 223;
	assert_int_equal(nic_mcast_attach(rig->qp, &group), -EINVAL);
	group = (struct nic_gid){.raw = {[12] = 239}}; /* neither IPv6 multicast nor IPv4-mapped */
	assert_int_equal(nic_mcast_attach(rig->qp, &group), -EINVAL);
	rig_destroy(rig);
}

static void mcast__the_limits_are_those_reported(void **state)
{
	struct rig *rig = ready(false);
	struct nic_gid group = group_of(false);
	struct nic_qp *qp = NULL;

	for (unsigned i = 0; i < NIC_MCAST_GROUPS_MAX; i++, group.raw[15]++)
		assert_int_equal(nic_mcast_attach(rig->qp, &group), 0);
	assert_int_equal(nic_mcast_attach(rig->qp, &group), -ENOMEM);
	assert_false(nic_mcast_has(rig->nic, &group));
	group = group_of(false);
	for (unsigned i = 1; i < NIC_MCAST_QPS_MAX; i++)
		assert_int_equal(nic_mcast_attach(rig_qp_create(rig), &group), 0);
	qp = rig_qp_create(rig);
	assert_int_equal(nic_mcast_attach(qp, &group), -ENOMEM);
	assert_int_equal(nic_qp_destroy(qp), 0);
	rig_destroy(rig);
}

static void mcast__datagrams_to_a_group_leave_by_the_port(void **state)
{
	for (unsigned v6 = 0; v6 < 2; v6++) {
		struct rig *rig = ready(v6);
		struct nic_av av = rig->attr.av;
		struct nic_send_wr wr;
		struct nic_ah *ah;
		struct packet p;

		av.dgid = group_of(v6);
		av.hop_limit = 1;
		wr = rig_wr(rig, 1, NIC_WR_SEND, 0, 24);
		assert_int_equal(nic_ah_create(rig->pd, &av, &ah), 0);
		wr.ud.ah = ah;
		wr.ud.remote_qpn = NIC_MCAST_QPN;
		wr.ud.remote_qkey = RIG_QKEY;
		rig_post(rig, &wr);
		p = rig_expect_tx(rig, UD_SEND_ONLY, RIG_SQ_PSN);
		assert_int_equal(p.dest_qpn, NIC_MCAST_QPN);
		assert_memory_equal(&p.dgid, &av.dgid, 16);
		assert_int_equal(p.hop_limit, 1);
		rig_expect_wc(rig->send_cq, 1, NIC_WC_SUCCESS);
		assert_int_equal(rig_counter(rig, tx_multicast), 1);
		rig_destroy(rig);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mcast__HV_17_each_attached_qp_gets_a_copy),
		cmocka_unit_test(mcast__HV_08_HV_11_the_multicast_qpn_goes_with_a_group_that_was_joined),
		cmocka_unit_test(mcast__packets_of_other_services_are_dropped),
		cmocka_unit_test(mcast__QS_12_an_attached_qp_cannot_be_destroyed),
		cmocka_unit_test(mcast__wrong_qps_and_addresses_are_refused),
		cmocka_unit_test(mcast__the_limits_are_those_reported),
		cmocka_unit_test(mcast__datagrams_to_a_group_leave_by_the_port),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
