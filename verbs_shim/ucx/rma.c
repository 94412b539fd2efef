/* SPDX-License-Identifier: BSD-3-Clause */
/* rma.c - PUT and GET: RMA writes and reads of the NIC. A short or buffered PUT of no bytes is also sent, because
 * UCX uses it to check whether a peer is alive. */
#include <string.h>

#include "ucx.h"

int ux_iov(const struct uct_iov *in, size_t n, struct nic_iov *out, uint32_t room, size_t *length)
{
	uint32_t segments = 0;

	for (size_t i = 0; i < n; i++) {
		if (!in[i].length || !in[i].count)
			continue;
		if (in[i].count > 1) /* strides: UCX itself has never used them */
			return UCS_ERR_UNSUPPORTED;
		if (segments == room)
			return UCS_ERR_EXCEEDS_LIMIT;
		out[segments++] = (struct nic_iov){in[i].buffer, in[i].length};
		*length += in[i].length;
	}
	return (int)segments;
}

ucs_status_t ux_put_short(struct uct_ep *tl_ep, const void *buf, unsigned len, uint64_t addr, uct_rkey_t rkey)
{
	struct nic_iov iov = {(void *)(uintptr_t)buf, len};
	ucs_status_t status;
	struct ux_op *op;

	if (ux_too_long(tl_ep, "a short PUT", len, UX_SHORT_MAX))
		return UCS_ERR_INVALID_PARAM;
	op = ux_op_new(ux_ep_of(tl_ep), UX_PLAIN, NULL, &status);
	return op ? ux_post_rma(op, false, &iov, 1, addr, rkey, NIC_RDM_INJECT) : status;
}

ssize_t ux_put_bcopy(struct uct_ep *tl_ep, uct_pack_fn pack, void *arg, uint64_t addr, uct_rkey_t rkey)
{
	ucs_status_t status;
	struct ux_op *op = ux_op_new_buffer(ux_ep_of(tl_ep), UX_PLAIN, NULL, &status);
	struct nic_iov iov;

	if (!op)
		return status;
	iov.base = op->buffer;
	iov.len = pack(op->buffer, arg);
	status = ux_post_rma(op, false, &iov, 1, addr, rkey, 0);
	return status ? status : (ssize_t)iov.len;
}

static ucs_status_t zcopy(struct uct_ep *tl_ep, bool read, const struct uct_iov *in, size_t n, uint64_t addr,
			  uct_rkey_t rkey, struct uct_completion *comp)
{
	struct nic_iov iov[UX_IOV_MAX];
	size_t length = 0;
	ucs_status_t status;
	struct ux_op *op;
	int segments = ux_iov(in, n, iov, UX_IOV_MAX, &length);

	if (segments <= 0)
		return (ucs_status_t)segments;
	if (ux_too_long(tl_ep, read ? "a GET" : "a PUT", length, UX_ZCOPY_MAX))
		return UCS_ERR_INVALID_PARAM;
	op = ux_op_new(ux_ep_of(tl_ep), UX_PLAIN, comp, &status);
	if (!op)
		return status;
	status = ux_post_rma(op, read, iov, (uint32_t)segments, addr, rkey, 0);
	return status ? status : UCS_INPROGRESS;
}

ucs_status_t ux_put_zcopy(struct uct_ep *tl_ep, const struct uct_iov *iov, size_t n, uint64_t addr, uct_rkey_t rkey,
			  struct uct_completion *comp)
{
	return zcopy(tl_ep, false, iov, n, addr, rkey, comp);
}

ucs_status_t ux_get_zcopy(struct uct_ep *tl_ep, const struct uct_iov *iov, size_t n, uint64_t addr, uct_rkey_t rkey,
			  struct uct_completion *comp)
{
	return zcopy(tl_ep, true, iov, n, addr, rkey, comp);
}

ucs_status_t ux_get_bcopy(struct uct_ep *tl_ep, uct_unpack_fn unpack, void *arg, size_t len, uint64_t addr,
			  uct_rkey_t rkey, struct uct_completion *comp)
{
	ucs_status_t status;
	struct nic_iov iov;
	struct ux_op *op;

	if (ux_too_long(tl_ep, "a buffered GET", len, UX_BCOPY_MAX))
		return UCS_ERR_INVALID_PARAM;
	if (!len)
		return UCS_OK;
	op = ux_op_new_buffer(ux_ep_of(tl_ep), UX_UNPACK, comp, &status);
	if (!op)
		return status;
	op->unpack = unpack;
	op->arg = arg;
	op->length = len;
	iov = (struct nic_iov){op->buffer, len};
	status = ux_post_rma(op, true, &iov, 1, addr, rkey, 0);
	return status ? status : UCS_INPROGRESS;
}
