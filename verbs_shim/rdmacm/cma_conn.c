/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cma_conn.c - connect, accept, reject, disconnect, notify: commands on a connection of the device's connection manager
 * (nic_cm.h), or on a SIDR exchange for datagrams. QPs are modified by librdmacm, not here. Owns nothing.
 */
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cma.h"

#define PSN_MASK    0xffffffu
#define RETRY_MAX   7
#define VENDOR_MASK 0xffffffu

/* A direct system call, because the C library's getrandom is a cancellation point. */
uint32_t cma_psn_random(void)
{
	uint32_t psn = 0;

	if (syscall(SYS_getrandom, &psn, sizeof(psn), GRND_NONBLOCK) < 0)
		psn = 0;
	return psn & PSN_MASK;
}

static uint8_t at_most(uint8_t value, uint8_t max)
{
	return value < max ? value : max;
}

static struct nic_cm_route route_of(const struct cma_id *id)
{
	return (struct nic_cm_route){.own = id->src.gid,
				     .peer = id->dst.gid,
				     .flow_label = id->path.flow_label,
				     .traffic_class = id->path.traffic_class,
				     .hop_limit = id->path.hop_limit};
}

static int transport_of(const struct cma_id *id, enum nic_cm_transport *out)
{
	switch (id->qp_type) {
	case UCMA_QPT_RC:
		*out = NIC_CM_RC;
		return 0;
	case UCMA_QPT_UC:
		*out = NIC_CM_UC;
		return 0;
	case UCMA_QPT_XRC_SEND:
	case UCMA_QPT_XRC_RECV:
		*out = NIC_CM_XRC;
		return 0;
	default:
		return -EINVAL;
	}
}

/** Private data of a request: the RDMA IP header, then the program's data. */
struct request_data {
	uint8_t bytes[CMA_HEADER_LEN + RDMA_MAX_PRIVATE_DATA];
	uint32_t len;
};

static void data_write(struct request_data *d, const struct cma_id *id, const struct rdma_ucm_conn_param *param)
{
	cma_header_write(d->bytes, &id->src, &id->dst);
	memcpy(d->bytes + CMA_HEADER_LEN, param->private_data, param->private_data_len);
	d->len = CMA_HEADER_LEN + param->private_data_len;
}

static void conn_begin(struct cma_id *id, const struct rdma_ucm_conn_param *param)
{
	id->conn = (struct cma_conn){.qpn = param->qp_num,
				     .rq_psn = cma_psn_random(),
				     .responder_resources = param->responder_resources,
				     .initiator_depth = param->initiator_depth,
				     .retry_count = at_most(param->retry_count, RETRY_MAX),
				     .rnr_retry_count = at_most(param->rnr_retry_count, RETRY_MAX),
				     .ack_timeout = nic_cm_ack_timeout(id->path.packet_life, 0),
				     .mtu = id->path.mtu};
}

static int connect_qp(struct cma_id *id, const struct rdma_ucm_conn_param *param, const struct request_data *data,
		      const struct rdma_ucm_ece *ece)
{
	struct nic_cm_connect c = {
		.service_id = nic_cm_service_id(id->space, id->dst.port),
		.route = route_of(id),
		.mtu = id->path.mtu,
		.pkey = CMA_PKEY,
		.flow_control = param->flow_control,
		.srq = param->srq,
		.packet_life = id->path.packet_life,
		.sl = id->path.sl,
		.remote_cm_response_timeout = CMA_RESPONSE_TIMEOUT,
		.local_cm_response_timeout = CMA_RESPONSE_TIMEOUT,
		.max_cm_retries = CMA_RETRIES,
		.private_data = data->bytes,
		.private_len = data->len,
		.ece = {ece->vendor_id & VENDOR_MASK, ece->attr_mod},
		.user = id,
	};
	int err = transport_of(id, &c.transport);

	if (err)
		return err;
	conn_begin(id, param);
	c.qpn = id->conn.qpn;
	c.starting_psn = id->conn.rq_psn;
	c.responder_resources = id->conn.responder_resources;
	c.initiator_depth = id->conn.initiator_depth;
	c.retry_count = id->conn.retry_count;
	c.rnr_retry_count = id->conn.rnr_retry_count;
	return nic_cm_connect(id->device->cm, &c, &id->cm);
}

static int connect_ud(struct cma_id *id, const struct request_data *data)
{
	const struct nic_cm_sidr s = {
		.service_id = nic_cm_service_id(id->space, id->dst.port),
		.route = route_of(id),
		.pkey = CMA_PKEY,
		.timeout_ns = nic_timeout_ns(CMA_RESPONSE_TIMEOUT),
		.max_cm_retries = CMA_RETRIES,
		.private_data = data->bytes,
		.private_len = data->len,
		.user = id,
	};

	return nic_cm_sidr_request(id->device->cm, &s, &id->cm);
}

int cma_connect(struct cma_id *id, const struct rdma_ucm_conn_param *param, const struct rdma_ucm_ece *ece)
{
	struct request_data data;
	int err;

	if (id->state != CMA_ROUTE_RESOLVED)
		return -EINVAL;
	data_write(&data, id, param);
	if (data.len > (cma_is_ud(id) ? NIC_CM_SIDR_REQ_PRIVATE : NIC_CM_REQ_PRIVATE))
		return -EINVAL;
	cma_engine_enter(id->device);
	id->state = CMA_CONNECT;
	err = cma_is_ud(id) ? connect_ud(id, &data) : connect_qp(id, param, &data, ece);
	if (err) {
		id->cm = NULL;
		id->state = CMA_ROUTE_RESOLVED;
	}
	cma_engine_leave(id->device);
	return err;
}

/* ---- the passive side -------------------------------------------------------------------------------- */

static int accept_qp(struct cma_id *id, const struct rdma_ucm_conn_param *param, const struct rdma_ucm_ece *ece)
{
	const struct nic_cm_accept a = {
		.qpn = param->qp_num,
		.starting_psn = id->conn.rq_psn,
		.responder_resources = param->responder_resources,
		.initiator_depth = param->initiator_depth,
		.target_ack_delay = cma_device_ack_delay(id->device),
		.flow_control = param->flow_control,
		.rnr_retry_count = at_most(param->rnr_retry_count, RETRY_MAX),
		.srq = param->srq,
		.private_data = param->private_data,
		.private_len = param->private_data_len,
		.ece = {ece->vendor_id & VENDOR_MASK, ece->attr_mod},
	};
	int err = nic_cm_accept(id->cm, &a);

	if (err)
		return err;
	id->conn.qpn = param->qp_num;
	id->conn.responder_resources = param->responder_resources;
	id->conn.initiator_depth = param->initiator_depth;
	return 0;
}

static int reply_ud(struct cma_id *id, const struct rdma_ucm_conn_param *param)
{
	const struct nic_cm_sidr_reply r = {
		.status = NIC_CM_SIDR_OK,
		.qpn = param ? param->qp_num : 0,
		.qkey = id->qkey,
		.private_data = param ? param->private_data : NULL,
		.private_len = param ? param->private_data_len : 0,
	};

	return nic_cm_sidr_reply(id->cm, &r);
}

static void refuse(struct cma_id *id)
{
	const struct nic_cm_reject r = {.reason = NIC_CM_REJ_CONSUMER};

	nic_cm_reject(id->cm, &r);
}

/** Set the value that later events of the id carry: librdmacm's pointer to its own id. */
static void uid_set(struct cma_id *id, uint64_t uid)
{
	pthread_mutex_lock(&cma_lock);
	id->uid = uid;
	pthread_mutex_unlock(&cma_lock);
}

static int reject_ud(struct cma_id *id, const void *private_data, uint8_t private_len)
{
	const struct nic_cm_sidr_reply r = {
		.status = NIC_CM_SIDR_REJECT, .private_data = private_data, .private_len = private_len};

	return nic_cm_sidr_reply(id->cm, &r);
}

int cma_accept(struct cma_id *id, const struct rdma_ucm_conn_param *param, const struct rdma_ucm_ece *ece, uint64_t uid)
{
	int err = -EINVAL;

	cma_engine_enter(id->device);
	if (id->state == CMA_CONNECT && id->cm) {
		if (cma_is_ud(id))
			err = reply_ud(id, param);
		else if (param)
			err = accept_qp(id, param, ece);
		else
			err = nic_cm_establish(id->cm, NULL, 0);
		if (err && cma_is_ud(id))
			reject_ud(id, NULL, 0);
		else if (err)
			refuse(id);
		if (!err && param)
			uid_set(id, uid);
	}
	cma_engine_leave(id->device);
	return err;
}

static int reject_qp(struct cma_id *id, uint8_t reason, const void *private_data, uint8_t private_len)
{
	const struct nic_cm_reject r = {.reason = reason, .private_data = private_data, .private_len = private_len};

	return nic_cm_reject(id->cm, &r);
}

int cma_reject(struct cma_id *id, uint8_t reason, const void *private_data, uint8_t private_len)
{
	int err = -EINVAL;

	cma_engine_enter(id->device);
	if (id->cm)
		err = cma_is_ud(id) ? reject_ud(id, private_data, private_len)
				    : reject_qp(id, reason, private_data, private_len);
	cma_engine_leave(id->device);
	return err;
}

/* ---- both sides -------------------------------------------------------------------------------------- */

/** As in the kernel, disconnecting also succeeds if the connection has already ended or has not been established.
 * @return 0; -EINVAL: the id has no connection */
int cma_disconnect(struct cma_id *id)
{
	int err = -EINVAL;

	cma_engine_enter(id->device);
	if (id->cm) {
		nic_cm_disconnect(id->cm, NULL, 0);
		err = 0;
	}
	cma_engine_leave(id->device);
	return err;
}

int cma_notify(struct cma_id *id, uint32_t event)
{
	int err = -EINVAL;

	cma_engine_enter(id->device);
	if (id->cm && event == UCMA_EVENT_COMM_EST && !cma_is_ud(id))
		err = nic_cm_notify(id->cm);
	cma_engine_leave(id->device);
	return err;
}
