/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * xrc_target.c - XRC target QPs (IBTA A14), which a process opens by their numbers. A target QP belongs to the NIC of
 * the process that has created it. Every structure of that process's verbs shares the NIC's QP (shim_qp.next_handle). A
 * structure of another process has the QP's number only (shim_qp.remote_qpn), and its verbs are calls to the process
 * that has the QP. That process must make progress for a call to end.
 */
#include <time.h>

#include "child.h"
#include "shim.h"
#include "xrc.h"

#define CALL_NS	 2000000000ull /* how long the other process may take for a call */
#define PAUSE_NS 100000

/* ---- calls to the process that has the QP ------------------------------------------------------------ */

static struct shim_context *ctx_of(const struct shim_qp *qp)
{
	return shim_ctx(qp->ibv.context);
}

/* Make a call and wait until it is done. Engine lock held; it is released meanwhile. */
static int call_wait(const struct shim_qp *qp, struct nic_xrc_call *call)
{
	const struct timespec pause = {0, PAUSE_NS};
	struct pmd_engine *engine = ctx_of(qp)->engine;
	uint64_t begun = pmd_clock_monotonic_ns();
	int cancel;

	call->qpn = qp->remote_qpn;
	nic_xrc_call(qp->xrcd->nic, call);
	pmd_doorbell(engine);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* the call is on this thread's stack */
	while (!call->done && pmd_clock_monotonic_ns() - begun < CALL_NS) {
		if (pmd_progress(engine, 1))
			continue;
		pmd_unlock(engine);
		nanosleep(&pause, NULL);
		pmd_lock(engine);
	}
	pthread_setcancelstate(cancel, NULL);
	if (call->done)
		return call->error;
	nic_xrc_forget(call);
	return -ETIMEDOUT;
}

/* Tell the process that has the QP that this process does not use the QP any more, and do not wait for its answer. */
static void call_close(const struct shim_qp *qp)
{
	struct nic_xrc_call call = {.verb = NIC_XRC_CLOSE, .qpn = qp->remote_qpn};

	nic_xrc_call(qp->xrcd->nic, &call);
	pmd_doorbell(ctx_of(qp)->engine);
	if (!call.done)
		nic_xrc_forget(&call);
}

static bool is_open(const struct shim_xrc_file *file, uint32_t qpn)
{
	const struct shim_qp *qp = file->remotes;

	while (qp && qp->remote_qpn != qpn)
		qp = qp->next_remote;
	return qp;
}

static void remotes_remove(const struct shim_qp *qp)
{
	for (struct shim_qp **at = &qp->xrcd->file->remotes; *at; at = &(*at)->next_remote) {
		if (*at == qp) {
			*at = qp->next_remote;
			break;
		}
	}
}

/* Open a target QP of another process. The process is one user of that QP, however many structures it has, until the
 * last of them closes it. The structure is in the list before the call is done, so that another thread that closes the
 * QP meanwhile does not think that its structure is the last. Engine lock held; it is released meanwhile. */
static int remote_open(struct shim_qp *qp, uint32_t qpn)
{
	struct shim_xrc_file *file = qp->xrcd->file;
	struct nic_xrc_call call = {.verb = NIC_XRC_OPEN};
	int err;

	if (!file || !file->shared || !qpn)
		return -EINVAL;
	qp->remote_qpn = qpn;
	qp->next_remote = file->remotes;
	file->remotes = qp;
	err = call_wait(qp, &call);
	if (!err) {
		qp->ibv.qp_num = qpn;
		qp->ibv.state = (enum ibv_qp_state)call.attr.qp_state;
		return 0;
	}
	remotes_remove(qp);
	if (err != -EINVAL && !is_open(file, qpn))
		call_close(qp); /* it may have been opened nevertheless, also by a QP that was closed meanwhile */
	return err;
}

int shim_remote_query(struct shim_qp *qp, struct nic_qp_attr *attr)
{
	struct nic_xrc_call call = {.verb = NIC_XRC_QUERY};
	int err = call_wait(qp, &call);

	*attr = call.attr;
	return err;
}

int shim_remote_modify(struct shim_qp *qp, const struct nic_qp_attr *attr, uint32_t mask)
{
	struct nic_xrc_call call = {.verb = NIC_XRC_MODIFY, .mask = mask, .attr = *attr};
	int err = call_wait(qp, &call);

	if (!err)
		qp->ibv.state = (enum ibv_qp_state)call.attr.qp_state;
	return err;
}

void shim_remote_leave(struct shim_qp *qp, bool wait)
{
	struct nic_xrc_call call = {.verb = NIC_XRC_CLOSE};

	remotes_remove(qp);
	if (is_open(qp->xrcd->file, qp->remote_qpn))
		return;
	if (wait)
		call_wait(qp, &call); /* if it fails, the process has ended, or will receive the call when it can */
	else
		call_close(qp);
}

/* ---- opening ----------------------------------------------------------------------------------------- */

/* Create a struct shim_qp for a target QP. @param get creates or finds the QP. */
static struct ibv_qp *target_new(struct ibv_context *context, struct ibv_xrcd *ibv, void *qp_context,
				 int (*get)(struct shim_qp *qp, uint32_t qpn), uint32_t qpn)
{
	struct shim_context *ctx = shim_ctx(context);
	struct shim_qp *qp;
	int err = -EIO;

	if (!ibv || ibv->context != context)
		return shim_fail(EINVAL);
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return shim_fail(ENOMEM);
	qp->xrcd = container_of(ibv, struct shim_xrcd, ibv);
	qp->ibv.context = context;
	qp->ibv.qp_context = qp_context;
	qp->ibv.qp_type = IBV_QPT_XRC_RECV;
	atomic_fetch_add(&qp->xrcd->users, 1);
	if (shim_enter(ctx)) {
		err = get(qp, qpn);
		if (!err)
			shim_object_add(ctx, SHIM_QP, &qp->link);
		if (!err && qp->nic) {
			qp->ibv.qp_num = nic_qp_num(qp->nic);
			qp->ibv.state = (enum ibv_qp_state)nic_qp_state(qp->nic);
		}
		shim_leave(ctx);
	}
	if (err) {
		atomic_fetch_sub(&qp->xrcd->users, 1);
		free(qp);
		return shim_fail(-err);
	}
	qp->ibv.handle = qp->link.handle;
	pthread_mutex_init(&qp->ibv.mutex, NULL);
	pthread_cond_init(&qp->ibv.cond, NULL);
	return &qp->ibv;
}

static int target_create(struct shim_qp *qp, uint32_t qpn)
{
	struct nic_qp_init init = {.type = NIC_QPT_XRC_TGT, .xrcd = qp->xrcd->nic, .user = qp};

	(void)qpn;
	qp->next_handle = qp;
	return nic_qp_create(ctx_of(qp)->nic, &init, &qp->nic);
}

/* Find the QP in this process, or else in another one. */
static int target_find(struct shim_qp *qp, uint32_t qpn)
{
	struct nic_qp *own = nic_xrc_target(qp->xrcd->nic, qpn);
	struct nic_qp_attr attr;
	struct nic_qp_init init;
	struct shim_qp *first;

	if (!own)
		return remote_open(qp, qpn);
	nic_qp_query(own, &attr, &init);
	first = init.user;
	qp->nic = own;
	if (!first) { /* this process has left it to others */
		nic_xrc_target_join(own, qp);
		qp->next_handle = qp;
		return 0;
	}
	qp->next_handle = first->next_handle;
	first->next_handle = qp;
	return 0;
}

struct ibv_qp *shim_target_create(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *qp = target_new(context, attr->xrcd, attr->qp_context, target_create, 0);

	if (!qp)
		return NULL;
	attr->cap = (struct ibv_qp_cap){0};
	if (attr->comp_mask & IBV_QP_INIT_ATTR_PD) /* a target QP uses no PD, but librdmacm reads qp->pd */
		qp->pd = attr->pd;
	return qp;
}

struct ibv_qp *shim_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr)
{
	const uint32_t needed = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;

	if (attr->comp_mask >= IBV_QP_OPEN_ATTR_RESERVED)
		return shim_fail(EOPNOTSUPP);
	if ((attr->comp_mask & needed) != needed || attr->qp_type != IBV_QPT_XRC_RECV)
		return shim_fail(EINVAL);
	return target_new(shim_context_here(context), attr->xrcd,
			  attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT ? attr->qp_context : NULL, target_find,
			  attr->qp_num);
}

/* ---- leaving own target QPs -------------------------------------------------------------------------- */

/* Make room for one more number in file->left, whose QPs may have gone. @return false: no memory */
static bool left_reserve(struct shim_xrc_file *file)
{
	uint32_t *left;
	unsigned n = 0;

	for (unsigned i = 0; i < file->n_left; i++)
		if (nic_xrc_target(file->xrcd, file->left[i]))
			file->left[n++] = file->left[i];
	file->n_left = n;
	left = realloc(file->left, (n + 1) * sizeof(*left));
	if (left)
		file->left = left;
	return left;
}

/* Leave the QP to other processes. @return false: they do not use it */
static bool leave_to_others(struct shim_qp *qp)
{
	struct shim_xrc_file *file = qp->xrcd->file;
	uint32_t qpn = nic_qp_num(qp->nic);

	if (!file || !file->shared || !left_reserve(file) || !nic_xrc_target_leave(qp->nic))
		return false;
	file->left[file->n_left++] = qpn;
	return true;
}

bool shim_target_leave(struct shim_qp *qp)
{
	struct shim_qp *before = qp;

	if (!qp->next_handle)
		return false;
	if (qp->next_handle == qp)
		return leave_to_others(qp);
	while (before->next_handle != qp)
		before = before->next_handle;
	before->next_handle = qp->next_handle;
	qp->next_handle = NULL;
	nic_qp_set_user(qp->nic, before);
	return true;
}

void shim_targets_left_destroy(struct shim_context *ctx, struct shim_xrc_file *file)
{
	if (file->n_left)
		pmd_settle(ctx->engine);
	for (unsigned i = 0; i < file->n_left; i++) {
		struct nic_qp *qp = nic_xrc_target(file->xrcd, file->left[i]);

		if (qp)
			nic_qp_destroy(qp);
	}
	free(file->left);
	file->left = NULL;
	file->n_left = 0;
}
