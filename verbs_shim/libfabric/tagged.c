/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tagged.c - tagged messages (fi_tagged(3)): translates the arguments of the calls for post.c. A receive can ignore any
 * bits of the tag.
 */
#include "provider.h"
#include "requests.h"

static ssize_t tagged_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t src_addr,
			    uint64_t tag, uint64_t ignore, void *context)
{
	struct ufi_ep *ep = ufi_ep_of(fid);
	struct ufi_recv r = {
		.iov = iov,
		.n_iov = count,
		.from = src_addr,
		.tag = tag,
		.ignore = ignore,
		.flags = (ep->rx_flags & ~FI_MULTI_RECV) | FI_TAGGED,
		.context = context,
	};

	return ufi_recv(ep, &r);
}

static ssize_t tagged_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src_addr, uint64_t tag,
			   uint64_t ignore, void *context)
{
	struct iovec iov = {.iov_base = buf, .iov_len = len};

	return tagged_recvv(fid, &iov, NULL, 1, src_addr, tag, ignore, context);
}

static ssize_t tagged_recvmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
	struct ufi_ep *ep = ufi_ep_of(fid);
	struct ufi_recv r = {
		.iov = msg->msg_iov,
		.n_iov = msg->iov_count,
		.from = msg->addr,
		.tag = msg->tag,
		.ignore = msg->ignore,
		.flags = flags | ep->rx_msg_flags | FI_TAGGED,
		.context = msg->context,
	};

	return ufi_recv(ep, &r);
}

/** Send a tagged message; adds FI_TAGGED to `flags`. */
static ssize_t tagged_send_any(struct ufi_ep *ep, const struct iovec *iov, size_t count, fi_addr_t to, uint64_t tag,
			       uint64_t data, uint64_t flags, void *context)
{
	struct ufi_send s = {
		.iov = iov,
		.n_iov = count,
		.to = to,
		.tag = tag,
		.data = data,
		.flags = flags | FI_TAGGED,
		.context = context,
	};

	return ufi_send(ep, &s);
}

static ssize_t tagged_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t dest_addr,
			    uint64_t tag, void *context)
{
	struct ufi_ep *ep = ufi_ep_of(fid);

	return tagged_send_any(ep, iov, count, dest_addr, tag, 0, ep->tx_flags, context);
}

static ssize_t tagged_send(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t dest_addr,
			   uint64_t tag, void *context)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};

	return tagged_sendv(fid, &iov, NULL, 1, dest_addr, tag, context);
}

static ssize_t tagged_sendmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
	struct ufi_ep *ep = ufi_ep_of(fid);

	return tagged_send_any(ep, msg->msg_iov, msg->iov_count, msg->addr, msg->tag, msg->data,
			       ufi_msg_flags(ep, flags), msg->context);
}

static ssize_t tagged_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest_addr, uint64_t tag)
{
	struct ufi_ep *ep = ufi_ep_of(fid);
	struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};

	return tagged_send_any(ep, &iov, 1, dest_addr, tag, 0, ufi_inject_flags(ep), NULL);
}

static ssize_t tagged_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc, uint64_t data,
			       fi_addr_t dest_addr, uint64_t tag, void *context)
{
	struct ufi_ep *ep = ufi_ep_of(fid);
	struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};

	return tagged_send_any(ep, &iov, 1, dest_addr, tag, data, ep->tx_flags | FI_REMOTE_CQ_DATA, context);
}

static ssize_t tagged_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data, fi_addr_t dest_addr,
				 uint64_t tag)
{
	struct ufi_ep *ep = ufi_ep_of(fid);
	struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};

	return tagged_send_any(ep, &iov, 1, dest_addr, tag, data, ufi_inject_flags(ep) | FI_REMOTE_CQ_DATA, NULL);
}

struct fi_ops_tagged ufi_tagged_ops = {
	.size = sizeof(struct fi_ops_tagged),
	.recv = tagged_recv,
	.recvv = tagged_recvv,
	.recvmsg = tagged_recvmsg,
	.send = tagged_send,
	.sendv = tagged_sendv,
	.sendmsg = tagged_sendmsg,
	.inject = tagged_inject,
	.senddata = tagged_senddata,
	.injectdata = tagged_injectdata,
};
