/* SPDX-License-Identifier: BSD-3-Clause */
/* ucma_id.c - commands on ids as such: create, destroy, migrate, options, events. Owns nothing. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ucma.h"

#define OPTION_MAX 4096 /* bytes */

static int qp_type_of(const struct rdma_ucm_create_id *cmd, uint8_t *out)
{
	switch (cmd->ps) {
	case RDMA_PS_TCP:
		*out = UCMA_QPT_RC;
		return 0;
	case RDMA_PS_UDP:
	case RDMA_PS_IPOIB:
		*out = UCMA_QPT_UD;
		return 0;
	case RDMA_PS_IB:
		*out = cmd->qp_type;
		return 0;
	default:
		return -EINVAL;
	}
}

int ucma_create_id(const struct ucma_call *call, const void *in)
{
	const struct rdma_ucm_create_id *cmd = in;
	struct rdma_ucm_create_id_resp resp;
	struct cma_id *id;
	uint8_t type;
	int err = qp_type_of(cmd, &type);

	err = err ? err : ucma_room(cmd->response, sizeof(resp));
	if (err)
		return err;
	pthread_mutex_lock(&cma_lock);
	id = cma_id_new(call->file, cmd->ps, type);
	if (id) {
		id->uid = cmd->uid;
		resp.id = id->number;
	}
	pthread_mutex_unlock(&cma_lock);
	return id ? ucma_reply(cmd->response, &resp, sizeof(resp)) : -ENOMEM;
}

int ucma_destroy_id(const struct ucma_call *call, const void *in)
{
	const struct rdma_ucm_destroy_id *cmd = in;
	struct rdma_ucm_destroy_id_resp resp;
	struct cma_id *id;
	int err = ucma_enter(call, cmd->id, &id);

	if (err)
		return err;
	resp.events_reported = cma_id_destroy(id);
	cma_id_leave(id);
	return ucma_reply(cmd->response, &resp, sizeof(resp));
}

int ucma_migrate_id(const struct ucma_call *call, const void *in)
{
	const struct rdma_ucm_migrate_id *cmd = in;
	struct cma_file *from = cma_file_get((int)cmd->fd);
	struct rdma_ucm_migrate_resp resp;
	struct cma_id *id;
	int err;

	if (!from)
		return -EINVAL;
	err = cma_id_enter(from, cmd->id, &id);
	if (!err) {
		pthread_mutex_lock(&cma_lock);
		if (from != call->file && !cma_file_migrate(call->file, id))
			err = -EBADF;
		resp.events_reported = id->events_reported;
		pthread_mutex_unlock(&cma_lock);
		cma_id_leave(id);
		err = err ? err : ucma_reply(cmd->response, &resp, sizeof(resp));
	}
	cma_file_put(from);
	return err;
}

/* ---- events ------------------------------------------------------------------------------------------ */

int ucma_get_event(const struct ucma_call *call, const void *in)
{
	const struct rdma_ucm_get_event *cmd = in;
	struct rdma_ucm_event_resp resp;
	size_t len = call->out < sizeof(resp) ? call->out : sizeof(resp);
	/* Check the memory for the answer first: an event that cannot be delivered stays queued. */
	int err = ucma_room(cmd->response, len);

	err = err ? err : cma_event_read(call->file, call->fd, call->block, call->cancel, &resp);
	return err ? err : ucma_reply(cmd->response, &resp, len);
}

int ucma_write_cm_event(const struct ucma_call *call, const void *in)
{
	const struct ucma_write_cm_event *cmd = in;
	struct cma_event *e;
	struct cma_id *id;
	int err;

	if (cmd->event != UCMA_USER && cmd->event != UCMA_INTERNAL)
		return -EINVAL;
	err = ucma_enter(call, cmd->id, &id);
	if (err)
		return err;
	e = calloc(1, sizeof(*e));
	if (e) {
		e->id = id;
		e->resp.event = cmd->event;
		e->resp.status = cmd->status;
		memcpy(&e->resp.param, &cmd->param.arg, sizeof(cmd->param.arg));
		pthread_mutex_lock(&cma_lock);
		e->resp.uid = id->uid;
		e->resp.id = id->number;
		cma_event_queue(e);
		pthread_mutex_unlock(&cma_lock);
	}
	cma_id_leave(id);
	return e ? 0 : -ENOMEM;
}

/* ---- options ----------------------------------------------------------------------------------------- */

static int set_one_family(struct cma_id *id, bool on)
{
	if (id->state != CMA_IDLE && id->state != CMA_ADDR_BOUND)
		return -EINVAL;
	id->one_family = on;
	return 0;
}

static int set_ack_timeout(struct cma_id *id, uint8_t timeout)
{
	if (id->qp_type != UCMA_QPT_RC && id->qp_type != UCMA_QPT_XRC_SEND)
		return -EINVAL;
	id->ack_timeout = timeout;
	id->ack_timeout_set = true;
	return 0;
}

static int set_of_id(struct cma_id *id, uint32_t name, const void *value, uint32_t len)
{
	int number = 0;

	switch (name) {
	case RDMA_OPTION_ID_TOS:
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		if (len != sizeof(uint8_t))
			return -EINVAL;
		if (name == RDMA_OPTION_ID_ACK_TIMEOUT)
			return set_ack_timeout(id, *(const uint8_t *)value);
		id->tos = *(const uint8_t *)value;
		id->tos_set = true;
		return 0;
	case RDMA_OPTION_ID_REUSEADDR:
	case RDMA_OPTION_ID_AFONLY:
		if (len != sizeof(number))
			return -EINVAL;
		memcpy(&number, value, sizeof(number));
		return name == RDMA_OPTION_ID_AFONLY ? set_one_family(id, number) : cma_set_reuse(id, number);
	default:
		return -ENOSYS;
	}
}

static int set_path(struct cma_id *id, const void *value, uint32_t len)
{
	struct ib_path_rec_data path;

	if (!id->device || len % sizeof(path))
		return -EINVAL;
	for (uint32_t at = 0; at < len; at += sizeof(path)) {
		memcpy(&path, (const char *)value + at, sizeof(path));
		if (path.flags == (IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL))
			return cma_path_take(id, &path);
	}
	return -EINVAL;
}

int ucma_set_option(const struct ucma_call *call, const void *in)
{
	const struct rdma_ucm_set_option *cmd = in;
	_Alignas(8) uint8_t value[OPTION_MAX];
	struct cma_id *id;
	int err;

	if (cmd->optlen > sizeof(value))
		return -EINVAL;
	err = ucma_enter(call, cmd->id, &id);
	if (err)
		return err;
	err = ucma_read(value, cmd->optval, cmd->optlen);
	if (!err) {
		if (cmd->level == RDMA_OPTION_ID)
			err = set_of_id(id, cmd->optname, value, cmd->optlen);
		else if (cmd->level == RDMA_OPTION_IB && cmd->optname == RDMA_OPTION_IB_PATH)
			err = set_path(id, value, cmd->optlen);
		else
			err = -ENOSYS;
	}
	cma_id_leave(id);
	return err;
}
