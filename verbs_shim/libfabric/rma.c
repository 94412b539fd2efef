/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rma.c - RMA reads and writes of peers' memory (fi_rma(3)).
 */
#include "provider.h"
#include "requests.h"

#define RMA_FLAGS (FI_COMPLETION | FI_INJECT | FI_MORE | FI_FENCE | FI_REMOTE_CQ_DATA | UFI_LEVELS)

static bool remote_translate(const struct fi_rma_iov *in, size_t n, struct nic_rdm_remote *out)
{
	for (size_t i = 0; i < n; i++) {
		if (in[i].key > UINT32_MAX)
			return false;
		out[i] = (struct nic_rdm_remote){.addr = in[i].addr, .len = in[i].len, .rkey = (uint32_t)in[i].key};
	}
	return true;
}

int ufi_rma_check(const struct ufi_core *core, const struct ufi_rma *r)
{
	bool read = r->flags & FI_READ;
	int rc = ufi_ep_check(core, FI_RMA | (r->flags & (FI_READ | FI_WRITE)));

	if (rc)
		return rc;
	if (r->flags & ~(RMA_FLAGS | FI_READ | FI_WRITE) || (read && r->flags & (FI_INJECT | FI_REMOTE_CQ_DATA)))
		return -FI_EBADFLAGS;
	return r->n_iov > NIC_RDM_IOV_MAX || r->n_remote > NIC_RDM_REMOTE_MAX || (r->n_iov && !r->iov) ||
			       (r->n_remote && !r->remote)
		       ? -FI_EINVAL
		       : 0;
}

/** Post an RMA request. `remote` is its target, translated for the NIC. Engine lock held. */
static int rma_post(struct ufi_core *core, const struct ufi_rma *r, const struct nic_rdm_remote *remote,
		    const struct ufi_way *way)
{
	bool read = r->flags & FI_READ;
	struct nic_rdm_peer *peer;
	int rc = ufi_post_begin(core, r->to, way, &peer);

	if (rc)
		return rc;

	struct nic_rdm_rma request = {
		.context = r->context,
		.cookie = ufi_cookie(way, r->flags),
		.read = read,
		.flags = ufi_request_flags(core, r->flags, way),
		.iov = (const struct nic_iov *)r->iov,
		.n_iov = (uint32_t)r->n_iov,
		.remote = remote,
		.n_remote = (uint32_t)r->n_remote,
		.data = r->data,
	};

	if (read && !(r->flags & FI_FENCE))
		request.flags &= ~(uint32_t)NIC_RDM_FENCE; /* a read cannot overtake an earlier read */
	core->reads += read;
	rc = nic_rdm_rma(peer, &request);
	if (rc || way->check)
		core->reads -= read;
	return ufi_post_end(core, way, rc);
}

int ufi_rma_post(struct ufi_core *core, const struct ufi_rma *r, const struct ufi_way *way)
{
	struct nic_rdm_remote remote[NIC_RDM_REMOTE_MAX];

	return remote_translate(r->remote, r->n_remote, remote) ? rma_post(core, r, remote, way) : -FI_EINVAL;
}

static ssize_t rma_request(struct ufi_ep *ep, const struct ufi_rma *r)
{
	struct nic_rdm_remote remote[NIC_RDM_REMOTE_MAX];
	struct ufi_core *core = ep->core;
	int rc;

	if (r->flags & FI_TRIGGER)
		return ufi_trigger_rma(core, r);
	rc = ufi_rma_check(core, r);
	if (!rc && !remote_translate(r->remote, r->n_remote, remote))
		rc = -FI_EINVAL;
	if (rc)
		return rc;
	if (!ufi_enter(core->domain))
		return -FI_EIO;
	return ufi_call_end(core, rma_post(core, r, remote, &ufi_at_once));
}

/** Post a request with one remote segment, which is as long as the local segments together. */
static ssize_t rma_simple(struct ufi_ep *ep, const struct iovec *iov, size_t count, fi_addr_t to, uint64_t addr,
			  uint64_t key, uint64_t data, uint64_t flags, void *context)
{
	struct fi_rma_iov remote = {.addr = addr, .key = key};
	struct ufi_rma r = {
		.iov = iov,
		.n_iov = count,
		.remote = &remote,
		.n_remote = 1,
		.to = to,
		.data = data,
		.flags = flags,
		.context = context,
	};

	if (count > NIC_RDM_IOV_MAX || (count && !iov))
		return -FI_EINVAL;
	for (size_t i = 0; i < count; i++)
		remote.len += iov[i].iov_len;
	return rma_request(ep, &r);
}

static ssize_t rma_readv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t src_addr,
			 uint64_t addr, uint64_t key, void *context)
{
	struct ufi_ep *ep = ufi_ep_of(fid);

	return rma_simple(ep, iov, count, src_addr, addr, key, 0, (ep->tx_flags & ~FI_INJECT) | FI_READ, context);
}

static ssize_t rma_read(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src_addr, uint64_t addr,
			uint64_t key, void *context)
{
	struct iovec iov = {.iov_base = buf, .iov_len = len};

	return rma_readv(fid, &iov, NULL, 1, src_addr, addr, key, context);
}

static ssize_t rma_msg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	struct ufi_ep *ep = ufi_ep_of(fid);
	struct ufi_rma r = {
		.iov = msg->msg_iov,
		.n_iov = msg->iov_count,
		.remote = msg->rma_iov,
		.n_remote = msg->rma_iov_count,
		.to = msg->addr,
		.data = msg->data,
		.flags = ufi_msg_flags(ep, flags),
		.context = msg->context,
	};

	return rma_request(ep, &r);
}

static ssize_t rma_readmsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	return flags & FI_WRITE ? -FI_EBADFLAGS : rma_msg(fid, msg, flags | FI_READ);
}

static ssize_t rma_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	return flags & FI_READ ? -FI_EBADFLAGS : rma_msg(fid, msg, flags | FI_WRITE);
}

static ssize_t rma_writev(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t dest_addr,
			  uint64_t addr, uint64_t key, void *context)
{
	struct ufi_ep *ep = ufi_ep_of(fid);

	return rma_simple(ep, iov, count, dest_addr, addr, key, 0, ep->tx_flags | FI_WRITE, context);
}

static ssize_t rma_write(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t dest_addr,
			 uint64_t addr, uint64_t key, void *context)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};

	return rma_writev(fid, &iov, NULL, 1, dest_addr, addr, key, context);
}

static ssize_t rma_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest_addr, uint64_t addr,
			  uint64_t key)
{
	struct ufi_ep *ep = ufi_ep_of(fid);
	struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};

	return rma_simple(ep, &iov, 1, dest_addr, addr, key, 0, ufi_inject_flags(ep) | FI_WRITE, NULL);
}

static ssize_t rma_writedata(struct fid_ep *fid, const void *buf, size_t len, void *desc, uint64_t data,
			     fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
	struct ufi_ep *ep = ufi_ep_of(fid);
	struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};

	return rma_simple(ep, &iov, 1, dest_addr, addr, key, data, ep->tx_flags | FI_REMOTE_CQ_DATA | FI_WRITE,
			  context);
}

static ssize_t rma_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data, fi_addr_t dest_addr,
			      uint64_t addr, uint64_t key)
{
	struct ufi_ep *ep = ufi_ep_of(fid);
	struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};

	return rma_simple(ep, &iov, 1, dest_addr, addr, key, data, ufi_inject_flags(ep) | FI_REMOTE_CQ_DATA | FI_WRITE,
			  NULL);
}

struct fi_ops_rma ufi_rma_ops = {
	.size = sizeof(struct fi_ops_rma),
	.read = rma_read,
	.readv = rma_readv,
	.readmsg = rma_readmsg,
	.write = rma_write,
	.writev = rma_writev,
	.writemsg = rma_writemsg,
	.inject = rma_inject,
	.writedata = rma_writedata,
	.injectdata = rma_injectdata,
};
