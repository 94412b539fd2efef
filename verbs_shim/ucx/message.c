/* SPDX-License-Identifier: BSD-3-Clause */
/* message.c - sending active messages. Each is one send of the NIC, whose data field contains the token and the id. */
#include <string.h>

#include "ucx.h"

ucs_status_t ux_am_short(struct uct_ep *tl_ep, uint8_t id, uint64_t header, const void *payload, unsigned len)
{
	struct nic_iov iov[] = {{&header, sizeof(header)}, {(void *)(uintptr_t)payload, len}};
	ucs_status_t status;
	struct ux_op *op;

	if (ux_no_am_id(tl_ep, id) || ux_too_long(tl_ep, "a short message", sizeof(header) + len, UX_SHORT_MAX))
		return UCS_ERR_INVALID_PARAM;
	op = ux_op_new(ux_ep_of(tl_ep), UX_PLAIN, NULL, &status);
	return op ? ux_post_send(op, id, iov, len ? 2 : 1, NIC_RDM_INJECT) : status;
}

ucs_status_t ux_am_short_iov(struct uct_ep *tl_ep, uint8_t id, const struct uct_iov *iov, size_t n)
{
	uint8_t bytes[UX_SHORT_MAX];
	struct nic_iov all = {bytes, 0};
	ucs_status_t status;
	struct ux_op *op;

	if (ux_no_am_id(tl_ep, id))
		return UCS_ERR_INVALID_PARAM;
	for (size_t i = 0; i < n; i++) {
		if (ux_too_long(tl_ep, "a short message", all.len + iov[i].length, sizeof(bytes)))
			return UCS_ERR_INVALID_PARAM;
		memcpy(bytes + all.len, iov[i].buffer, iov[i].length);
		all.len += iov[i].length;
	}
	op = ux_op_new(ux_ep_of(tl_ep), UX_PLAIN, NULL, &status);
	return op ? ux_post_send(op, id, &all, 1, NIC_RDM_INJECT) : status;
}

ssize_t ux_am_bcopy(struct uct_ep *tl_ep, uint8_t id, uct_pack_fn pack, void *arg, unsigned flags)
{
	struct nic_iov iov;
	ucs_status_t status;
	struct ux_op *op;

	if (ux_no_am_id(tl_ep, id))
		return UCS_ERR_INVALID_PARAM;
	op = ux_op_new_buffer(ux_ep_of(tl_ep), UX_PLAIN, NULL, &status);
	if (!op)
		return status;
	iov.base = op->buffer;
	iov.len = pack(op->buffer, arg);
	status = ux_post_send(op, id, &iov, 1, 0);
	return status ? status : (ssize_t)iov.len;
}

ucs_status_t ux_am_zcopy(struct uct_ep *tl_ep, uint8_t id, const void *header, unsigned header_len,
			 const struct uct_iov *in, size_t n, unsigned flags, struct uct_completion *comp)
{
	struct nic_iov iov[UX_IOV_MAX];
	size_t length = 0;
	ucs_status_t status;
	struct ux_op *op;
	int segments;

	if (ux_no_am_id(tl_ep, id) || ux_too_long(tl_ep, "a message's header", header_len, UX_HEADER_MAX))
		return UCS_ERR_INVALID_PARAM;
	segments = ux_iov(in, n, iov + 1, UX_IOV_MAX - 1, &length);
	if (segments < 0)
		return (ucs_status_t)segments;
	if (ux_too_long(tl_ep, "a message", length + header_len, UX_BCOPY_MAX))
		return UCS_ERR_INVALID_PARAM;
	op = ux_op_new(ux_ep_of(tl_ep), UX_PLAIN, comp, &status);
	if (!op)
		return status;
	memcpy(op->header, header, header_len);
	iov[0] = (struct nic_iov){op->header, header_len};
	status = ux_post_send(op, id, iov, (uint32_t)segments + 1, 0);
	return status ? status : UCS_INPROGRESS;
}
