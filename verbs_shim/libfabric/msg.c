/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * msg.c - untagged messages (fi_msg(3)): translates the calls' arguments for post.c.
 */
#include "provider.h"
#include "requests.h"

static ssize_t msg_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t src_addr,
			 void *context)
{
	struct ufi_ep *ep = ufi_ep_of(fid);
	struct ufi_recv r = {
		.iov = iov, .n_iov = count, .from = src_addr, .flags = ep->rx_flags | FI_MSG, .context = context};

	return ufi_recv(ep, &r);
}

static ssize_t msg_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src_addr, void *context)
{
	struct iovec iov = {.iov_base = buf, .iov_len = len};

	return msg_recvv(fid, &iov, NULL, 1, src_addr, context);
}

static ssize_t msg_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	struct ufi_ep *ep = ufi_ep_of(fid);
	struct ufi_recv r = {
		.iov = msg->msg_iov,
		.n_iov = msg->iov_count,
		.from = msg->addr,
		.flags = flags | ep->rx_msg_flags | FI_MSG,
		.context = msg->context,
	};

	return ufi_recv(ep, &r);
}

static ssize_t msg_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t dest_addr,
			 void *context)
{
	struct ufi_ep *ep = ufi_ep_of(fid);
	struct ufi_send s = {
		.iov = iov, .n_iov = count, .to = dest_addr, .flags = ep->tx_flags | FI_MSG, .context = context};

	return ufi_send(ep, &s);
}

/** Send one buffer as an untagged message: adds FI_MSG to `flags`. */
static ssize_t msg_send_one(struct ufi_ep *ep, const void *buf, size_t len, fi_addr_t to, uint64_t data, uint64_t flags,
			    void *context)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
	struct ufi_send s = {
		.iov = &iov, .n_iov = 1, .to = to, .data = data, .flags = flags | FI_MSG, .context = context};

	return ufi_send(ep, &s);
}

static ssize_t msg_send(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t dest_addr, void *context)
{
	struct ufi_ep *ep = ufi_ep_of(fid);

	return msg_send_one(ep, buf, len, dest_addr, 0, ep->tx_flags, context);
}

static ssize_t msg_sendmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	struct ufi_ep *ep = ufi_ep_of(fid);
	struct ufi_send s = {
		.iov = msg->msg_iov,
		.n_iov = msg->iov_count,
		.to = msg->addr,
		.data = msg->data,
		.flags = ufi_msg_flags(ep, flags) | FI_MSG,
		.context = msg->context,
	};

	return ufi_send(ep, &s);
}

static ssize_t msg_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest_addr)
{
	struct ufi_ep *ep = ufi_ep_of(fid);

	return msg_send_one(ep, buf, len, dest_addr, 0, ufi_inject_flags(ep), NULL);
}

static ssize_t msg_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc, uint64_t data,
			    fi_addr_t dest_addr, void *context)
{
	struct ufi_ep *ep = ufi_ep_of(fid);

	return msg_send_one(ep, buf, len, dest_addr, data, ep->tx_flags | FI_REMOTE_CQ_DATA, context);
}

static ssize_t msg_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data, fi_addr_t dest_addr)
{
	struct ufi_ep *ep = ufi_ep_of(fid);

	return msg_send_one(ep, buf, len, dest_addr, data, ufi_inject_flags(ep) | FI_REMOTE_CQ_DATA, NULL);
}

struct fi_ops_msg ufi_msg_ops = {
	.size = sizeof(struct fi_ops_msg),
	.recv = msg_recv,
	.recvv = msg_recvv,
	.recvmsg = msg_recvmsg,
	.send = msg_send,
	.sendv = msg_sendv,
	.sendmsg = msg_sendmsg,
	.inject = msg_inject,
	.senddata = msg_senddata,
	.injectdata = msg_injectdata,
};
