/* SPDX-License-Identifier: BSD-3-Clause */
/* iface.c - interfaces: opening, closing, attributes and addresses. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ucx.h"

/* A device address. UCX passes us addresses of peers' devices in two layouts. An address from the worker address that
 * the peer has packed has this layout. An address from an rdma_cm connection has the layout of UCX's RoCE transports:
 * FROM_RDMA_CM is set in its first byte, the GID follows, and other fields take the place of `host`. The address of a
 * real ConnectX, whose transports have names that ours has, too (names.c), has that layout as well: then the
 * interface's address is not ours.
 */
#define OUR_FORM     0x80 /* no flag of the RoCE transports */
#define FROM_RDMA_CM 0x08
struct device_addr {
	uint8_t form; /* OUR_FORM, or flags of the RoCE transports */
	uint8_t gid[16];
	uint8_t host[8]; /* loopback address: identifies the host and its network namespace; other address: 0 */
};

struct iface_addr {
	uint8_t magic[4];
	uint8_t port[2], token[4], key[4]; /* big-endian; key: ux_md.all's R_Key; 0: each registration has its own */
};
static const uint8_t magic[4] = {0xae, 'u', 'c', 0x10};

/* ---- addresses ------------------------------------------------------------------------------------------ */

static bool is_ipv4(const uint8_t gid[16])
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return !memcmp(gid, mapped, sizeof(mapped));
}

static bool is_loopback(const uint8_t gid[16])
{
	static const uint8_t one[16] = {[15] = 1};

	return is_ipv4(gid) ? gid[12] == 127 : !memcmp(gid, one, sizeof(one));
}

/* FNV-1a hash of the kernel's boot id and of the network namespace's inode number. */
static uint64_t host_number(void)
{
	uint64_t hash = 14695981039346656037u;
	struct stat st = {0};
	char text[64];
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text));

	if (fd >= 0)
		close(fd);
	for (ssize_t i = 0; i < n; i++)
		hash = (hash ^ (uint8_t)text[i]) * 1099511628211u;
	if (!stat("/proc/self/ns/net", &st))
		hash = (hash ^ st.st_ino) * 1099511628211u;
	return hash;
}

static void device_address(const struct ux_md *md, struct device_addr *out)
{
	uint64_t host = is_loopback(md->device.gid.raw) ? host_number() : 0;

	out->form = OUR_FORM;
	memcpy(out->gid, md->device.gid.raw, sizeof(out->gid));
	memcpy(out->host, &host, sizeof(host));
}

static ucs_status_t get_device_address(struct uct_iface *iface, void *out)
{
	struct device_addr addr;

	device_address(ux_iface_of(iface)->md, &addr);
	memcpy(out, &addr, sizeof(addr));
	return UCS_OK;
}

static ucs_status_t get_address(struct uct_iface *tl_iface, void *out)
{
	const struct ux_iface *iface = ux_iface_of(tl_iface);
	uint16_t port = htobe16(iface->port);
	uint32_t token = htobe32(iface->token), key = iface->md->all ? htobe32(nic_mr_rkey(iface->md->all)) : 0;
	struct iface_addr addr;

	memcpy(addr.magic, magic, sizeof(magic));
	memcpy(addr.port, &port, sizeof(port));
	memcpy(addr.token, &token, sizeof(token));
	memcpy(addr.key, &key, sizeof(key));
	memcpy(out, &addr, sizeof(addr));
	return UCS_OK;
}

static uint32_t number(const uint8_t bytes[4])
{
	uint32_t value;

	memcpy(&value, bytes, sizeof(value));
	return be32toh(value);
}

struct nic_rdm_addr ux_address(const void *dev_addr, const void *iface_addr, struct ux_ep *ep)
{
	const struct device_addr *device = dev_addr;
	const struct iface_addr *in = iface_addr;
	struct nic_rdm_addr addr;
	uint16_t port;

	memcpy(addr.gid.raw, device->gid, sizeof(addr.gid.raw));
	memcpy(&port, in->port, sizeof(port));
	addr.port = be16toh(port);
	if (ep) {
		ep->token = number(in->token);
		ep->key = number(in->key);
	}
	return addr;
}

/** Whether the hosts of both addresses can talk to each other. A connection of rdma_cm shows that they can. */
static bool hosts_fit(const struct device_addr *ours, const struct device_addr *theirs)
{
	return theirs->form & FROM_RDMA_CM || !memcmp(ours->host, theirs->host, sizeof(ours->host));
}

bool ux_iface_is_near(const struct uct_iface *iface, const void *dev_addr)
{
	const struct device_addr *theirs = dev_addr;
	struct device_addr ours;

	device_address(ux_iface_of(iface)->md, &ours);
	return hosts_fit(&ours, theirs) && !memcmp(ours.gid, theirs->gid, sizeof(ours.gid));
}

int ux_iface_reaches(const struct uct_iface *iface, const void *dev_addr, const void *iface_addr)
{
	const struct device_addr *theirs = dev_addr;
	struct device_addr ours;

	if (theirs->form != OUR_FORM && !(theirs->form & FROM_RDMA_CM))
		return 0;
	if (iface_addr && memcmp(iface_addr, magic, sizeof(magic)))
		return 0;
	device_address(ux_iface_of(iface)->md, &ours);
	return hosts_fit(&ours, theirs) && is_ipv4(ours.gid) == is_ipv4(theirs->gid);
}

static int is_reachable(const struct uct_iface *iface, const void *dev_addr, const void *iface_addr)
{
	return ux_iface_reaches(iface, dev_addr, iface_addr);
}

/* ---- attributes ----------------------------------------------------------------------------------------- */

static const struct uct_rma_limits rma_limits = {
	.max_short = UX_SHORT_MAX,
	.max_bcopy = UX_BCOPY_MAX,
	.max_zcopy = UX_ZCOPY_MAX,
	.opt_zcopy_align = 1,
	.align_mtu = 4096,
	.max_iov = UX_IOV_MAX,
};

/* UCX chooses between transports by overhead, latency and bandwidth. These are near those that UCX assumes for rc_verbs
 * on the same device, but overhead and latency are lower, so that UCX prefers this transport. UCX must use it for PUT
 * and GET as well as for atomics: Open MPI's one-sided operations rely on fences, and the fences of UCX 1.13 hold only
 * within a transport. */
static ucs_status_t query(struct uct_iface *iface, struct uct_iface_attr *attr)
{
	ux_libs.base_query(ux_iface_of(iface)->base, attr);
	attr->put = attr->get = rma_limits;
	attr->get.max_short = 0;
	attr->am.max_short = UX_SHORT_MAX;
	attr->am.max_bcopy = attr->am.max_zcopy = UX_BCOPY_MAX;
	attr->am.opt_zcopy_align = 1;
	attr->am.align_mtu = 4096;
	attr->am.max_hdr = UX_HEADER_MAX;
	attr->am.max_iov = UX_IOV_MAX - 1;
	attr->atomic32.op_flags = attr->atomic64.op_flags = UX_ATOMIC_POST;
	attr->atomic32.fop_flags = attr->atomic64.fop_flags = UX_ATOMIC_FETCH;
	attr->flags = UCT_IFACE_AM_SHORT | UCT_IFACE_AM_BCOPY | UCT_IFACE_AM_ZCOPY | UCT_IFACE_PUT_SHORT |
		      UCT_IFACE_PUT_BCOPY | UCT_IFACE_PUT_ZCOPY | UCT_IFACE_GET_BCOPY | UCT_IFACE_GET_ZCOPY |
		      UCT_IFACE_PENDING | UCT_IFACE_ATOMIC_CPU | UCT_IFACE_ATOMIC_DEVICE |
		      UCT_IFACE_ERRHANDLE_REMOTE_MEM | UCT_IFACE_ERRHANDLE_PEER_FAILURE | UCT_IFACE_EP_CHECK |
		      UCT_IFACE_CONNECT_TO_IFACE | UCT_IFACE_CB_SYNC | UCT_IFACE_INTER_NODE;
	if (!pmd_progress_is_inline())
		attr->event_flags = UCT_IFACE_EVENT_SEND_COMP | UCT_IFACE_EVENT_RECV | UCT_IFACE_EVENT_FD;
	attr->device_addr_len = sizeof(struct device_addr);
	attr->iface_addr_len = sizeof(struct iface_addr);
	attr->overhead = 70e-9;
	attr->latency.c = 700e-9;
	attr->bandwidth.dedicated = 12.3e9;
	return UCS_OK;
}

/* ---- flush, fence --------------------------------------------------------------------------------------- */

static ucs_status_t flush(struct uct_iface *iface, unsigned flags, struct uct_completion *comp)
{
	if (comp)
		return UCS_ERR_UNSUPPORTED;
	return ux_iface_of(iface)->in_flight || !list_empty(&ux_iface_of(iface)->waiting) ? UCS_INPROGRESS : UCS_OK;
}

static ucs_status_t fence(struct uct_iface *iface, unsigned flags)
{
	ux_iface_of(iface)->fences++;
	return UCS_OK;
}

/* ---- opening, closing ----------------------------------------------------------------------------------- */

static void iface_free(struct ux_iface *iface)
{
	while (iface->free_buffers) {
		void *buffer = iface->free_buffers;

		iface->free_buffers = *iface->free_buffers;
		free(buffer);
	}
	if (iface->event_fd >= 0)
		close(iface->event_fd);
	if (iface->receive_memory)
		munmap(iface->receive_memory, UX_BUFFERS * UX_BUFFER_BYTES);
	free(iface->arrived.ring);
	free(iface->ops);
	free(iface->base);
}

static void iface_close(struct uct_iface *tl_iface)
{
	struct ux_iface *iface = ux_iface_of(tl_iface);
	struct pmd_engine *engine = iface->md->engine;

	ux_libs.progress_disable(tl_iface, ~0u);
	if (ux_enter(iface->md)) {
		nic_rdm_no_delay(iface->rdm);
		pmd_settle(engine);
		while (nic_rdm_leave(iface->rdm) > 0)
			pmd_settle(engine);
		nic_rdm_destroy(iface->rdm);
		ux_leave(iface->md);
		pmd_service_close(engine, iface->port);
	}
	if (iface->strange)
		fprintf(stderr,
			"uroce: UCX transport on %s: dropped %" PRIu64 " messages that were not for this worker\n",
			iface->md->device.name, iface->strange);
	ux_libs.class_cleanup(ux_libs.base_class, iface->base, -1);
	iface_free(iface);
}

static struct uct_iface_ops iface_ops = {
	.ep_put_short = ux_put_short,
	.ep_put_bcopy = ux_put_bcopy,
	.ep_put_zcopy = ux_put_zcopy,
	.ep_get_bcopy = ux_get_bcopy,
	.ep_get_zcopy = ux_get_zcopy,
	.ep_am_short = ux_am_short,
	.ep_am_short_iov = ux_am_short_iov,
	.ep_am_bcopy = ux_am_bcopy,
	.ep_am_zcopy = ux_am_zcopy,
	.ep_atomic_cswap64 = ux_cswap64,
	.ep_atomic_cswap32 = ux_cswap32,
	.ep_atomic32_post = ux_atomic32_post,
	.ep_atomic64_post = ux_atomic64_post,
	.ep_atomic32_fetch = ux_atomic32_fetch,
	.ep_atomic64_fetch = ux_atomic64_fetch,
	.ep_pending_add = ux_ep_pending_add,
	.ep_pending_purge = ux_ep_pending_purge,
	.ep_flush = ux_ep_flush,
	.ep_fence = ux_ep_fence,
	.ep_check = ux_ep_check,
	.ep_create = ux_ep_create,
	.ep_destroy = ux_ep_destroy,
	.iface_flush = flush,
	.iface_fence = fence,
	.iface_progress = ux_progress,
	.iface_event_fd_get = ux_event_fd,
	.iface_event_arm = ux_event_arm,
	.iface_close = iface_close,
	.iface_query = query,
	.iface_get_device_address = get_device_address,
	.iface_get_address = get_address,
	.iface_is_reachable = is_reachable,
};

static ucs_status_t memory_alloc(struct ux_iface *iface)
{
	size_t bytes = (size_t)UX_BUFFERS * UX_BUFFER_BYTES;
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	iface->receive_memory = memory == MAP_FAILED ? NULL : memory;
	iface->ops = calloc(UX_OPS, sizeof(*iface->ops));
	iface->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!iface->receive_memory || !iface->ops || iface->event_fd < 0 ||
	    getrandom(&iface->token, sizeof(iface->token), 0) != sizeof(iface->token))
		return UCS_ERR_NO_MEMORY;
	for (uint32_t i = 0; i < UX_OPS; i++)
		list_append(&iface->free_ops, &iface->ops[i].node);
	for (uint32_t i = 0; i < UX_BUFFERS; i++)
		iface->buffers[i].bytes = iface->receive_memory + (size_t)i * UX_BUFFER_BYTES;
	return UCS_OK;
}

/** Create the interface's endpoint of the NIC, on a port of its own, and post its receive buffers. */
static ucs_status_t endpoint_create(struct ux_iface *iface)
{
	struct nic_rdm_init init = {
		.pd = iface->md->pd,
		.addr = {.gid = iface->md->device.gid},
		.max_tx = UX_OPS,
		.strict = true,
		.done = ux_done,
		.ctx = iface,
	};
	int rc = pmd_service_open(iface->md->engine, &iface->port);

	if (rc) {
		fprintf(stderr, "uroce: UCX transport on %s: no port for a worker: %s\n", iface->md->device.name,
			strerror(-rc));
		return UCS_ERR_NO_DEVICE;
	}
	init.addr.port = iface->port;
	rc = -ENODEV;
	if (ux_enter(iface->md)) {
		rc = nic_rdm_create(iface->md->nic, &init, &iface->rdm);
		for (uint32_t i = 0; !rc && i < UX_BUFFERS; i++)
			ux_buffer_post(iface, &iface->buffers[i]);
		ux_leave(iface->md);
	}
	if (rc)
		pmd_service_close(iface->md->engine, iface->port);
	return !rc ? UCS_OK : rc == -ENOMEM ? UCS_ERR_NO_MEMORY : UCS_ERR_NO_DEVICE;
}

ucs_status_t ux_iface_open(struct uct_md *md, struct uct_worker *worker, const struct uct_iface_params *params,
			   const void *config, struct uct_iface **out)
{
	size_t align, align_offset;
	struct uct_base_iface *base;
	struct ux_iface *iface;
	ucs_status_t status;
	int count = 1;

	if (!(params->field_mask & UCT_IFACE_PARAM_OPEN_MODE) || !(params->open_mode & UCT_IFACE_OPEN_MODE_DEVICE))
		return UCS_ERR_UNSUPPORTED;
	/* Check the requested alignment only because UCX expects an invalid one to be refused. Received messages lie
	 * back to back, unaligned. */
	status = ux_libs.am_alignment(params, SIZE_MAX, 0, 0, &align, &align_offset);
	if (status || !align || align & (align - 1))
		return status ? status : UCS_ERR_INVALID_PARAM;
	base = calloc(1, ux_base_size() + sizeof(*iface));
	if (!base)
		return UCS_ERR_NO_MEMORY;
	iface = ux_iface_of(&base->super);
	iface->base = base;
	iface->md = (struct ux_md *)md;
	iface->event_fd = -1;
	iface->failure_level = ((const struct uct_iface_config *)config)->failure;
	list_init(&iface->free_ops);
	list_init(&iface->waiting);
	list_init(&iface->due);
	iface_ops.iface_progress_enable = ux_libs.progress_enable;
	iface_ops.iface_progress_disable = ux_libs.progress_disable;
	status = memory_alloc(iface);
	if (!status)
		status = ux_libs.base_init(base, ux_libs.base_class, &count, &iface_ops, ux_internal_ops, md, worker,
					   params, config);
	if (status) {
		iface_free(iface);
		return status;
	}
	status = endpoint_create(iface);
	if (status) {
		ux_libs.class_cleanup(ux_libs.base_class, base, -1);
		iface_free(iface);
		return status;
	}
	*out = &base->super;
	return UCS_OK;
}
