/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * info.c - fi_getinfo(3): returns an entry for each matching endpoint type on each matching device, with the addresses
 * of the node and service.
 */
#include <sys/socket.h>
#include <unistd.h>

#include "endpoint.h"
#include "provider.h"
#include "settings.h"

/* libfabric's utility providers set this flag when they look for providers to layer themselves over. This provider
 * then returns no entry: such layers would add nothing, and their entries would be listed before this provider's. */
#define GETINFO_FOR_LAYERS (1ull << 59)

#define OBJECTS_MAX 16384 /* reported limit of each kind of object in a domain; not enforced */
#define FABRIC_NAME "uroce"

/* mem_tag_format of unstructured tags: 64 fields of one bit, so applications can use any mask (fi_endpoint(3)). */
#define TAG_ANY UINT64_C(0xaaaaaaaaaaaaaaaa)

/** The addresses that the application asked for. */
struct wanted {
	struct nic_rdm_addr src, dest;
	bool have_src, have_dest;
};

static const struct fi_tx_attr tx_default = {
	.msg_order = UFI_ORDER_FREE,
	.inject_size = NIC_RDM_INJECT_MAX,
	.iov_limit = NIC_RDM_IOV_MAX,
};

static const struct fi_rx_attr rx_default = {
	.msg_order = UFI_ORDER_FREE,
	.iov_limit = NIC_RDM_IOV_MAX,
};

static const struct fi_ep_attr ep_default = {
	.protocol = FI_PROTO_UNSPEC,
	.protocol_version = 1,
	.mem_tag_format = TAG_ANY,
	.tx_ctx_cnt = 1,
	.rx_ctx_cnt = 1,
};

static const struct fi_domain_attr domain_default = {
	.threading = FI_THREAD_SAFE,
	.control_progress = FI_PROGRESS_AUTO,
	.data_progress = FI_PROGRESS_AUTO,
	.resource_mgmt = FI_RM_ENABLED,
	.av_type = FI_AV_UNSPEC,
	.mr_key_size = UFI_KEY_SIZE,
	.cq_data_size = sizeof(uint64_t),
	.cq_cnt = OBJECTS_MAX,
	.ep_cnt = OBJECTS_MAX,
	.tx_ctx_cnt = OBJECTS_MAX,
	.rx_ctx_cnt = OBJECTS_MAX,
	.max_ep_tx_ctx = 1,
	.max_ep_rx_ctx = 1,
	.max_ep_stx_ctx = OBJECTS_MAX,
	.max_ep_srx_ctx = OBJECTS_MAX,
	.cntr_cnt = OBJECTS_MAX,
	.mr_iov_limit = 1,
	.mr_cnt = OBJECTS_MAX,
	.caps = UFI_DOMAIN_CAPS,
	.max_err_data = sizeof(union ufi_sockaddr),
};

/* ---- addresses ------------------------------------------------------------------------------------------- */

/* Whether the kernel would send to `dest` from this GID's address. Sends no packet. */
static bool is_route_to(const struct nic_gid *gid, const struct nic_rdm_addr *dest)
{
	union ufi_sockaddr sockaddr;
	socklen_t len = ufi_addr_to_sockaddr(dest, &sockaddr);
	struct nic_rdm_addr from;
	bool is = false;
	int fd;

	if (!dest->port)
		sockaddr.in.sin_port = htons(NIC_UDP_PORT); /* right for IPv6 too: the port has the same offset */
	fd = socket(sockaddr.sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	if (!connect(fd, &sockaddr.sa, len) && !getsockname(fd, &sockaddr.sa, &len))
		is = ufi_addr_from_sockaddr(&sockaddr, len, &from) && !memcmp(&from.gid, gid, sizeof(*gid));
	close(fd);
	return is;
}

/** Find the addresses that the application asked for. @return 0, -FI_ENODATA: no such address in this family. */
static int wanted_find(struct wanted *w, const char *node, const char *service, int family, uint64_t flags,
		       const struct fi_info *hints)
{
	int rc = 0;

	memset(w, 0, sizeof(*w));
	if (hints && hints->src_addr) {
		w->have_src = ufi_addr_from_sockaddr(hints->src_addr, hints->src_addrlen, &w->src);
		rc = w->have_src ? 0 : -FI_ENODATA;
	}
	if (!rc && hints && hints->dest_addr && ((!node && !service) || flags & FI_SOURCE)) {
		w->have_dest = ufi_addr_from_sockaddr(hints->dest_addr, hints->dest_addrlen, &w->dest);
		rc = w->have_dest ? 0 : -FI_ENODATA;
	}
	if (rc || (!node && !service))
		return rc;
	if (flags & FI_SOURCE) {
		rc = ufi_addr_resolve(node, service, family, flags, &w->src);
		w->have_src = rc == 0;
	} else {
		rc = ufi_addr_resolve(node, service, family, flags, &w->dest);
		w->have_dest = rc == 0;
	}
	return rc;
}

static bool wanted_match(const struct wanted *w, const struct pmd_device *device)
{
	bool ipv4 = ufi_gid_is_ipv4(&device->gid);

	if (w->have_dest && ufi_gid_is_ipv4(&w->dest.gid) != ipv4)
		return false;
	if (!w->have_src)
		return true;
	if (w->src.port > NIC_SERVICE_PORT_MAX)
		return false;
	return ufi_addr_is_any(&w->src) || memcmp(&w->src.gid, &device->gid, sizeof(device->gid)) == 0;
}

/* ---- entries --------------------------------------------------------------------------------------------- */

/** Make an entry. @return NULL: no memory. */
static struct fi_info *info_new(uint32_t version, const struct ufi_type *type, const struct pmd_device *device,
				const struct wanted *w, const struct fi_info *hints)
{
	struct nic_rdm_addr src = {.gid = device->gid, .port = w->have_src ? w->src.port : 0};
	struct fi_info *info = ufi_info_dup(NULL);

	if (!info)
		return NULL;
	info->addr_format = ufi_gid_is_ipv4(&device->gid) ? FI_SOCKADDR_IN : FI_SOCKADDR_IN6;
	memcpy(info->tx_attr, &tx_default, UFI_SIZE_1_17(struct fi_tx_attr, tclass));
	memcpy(info->rx_attr, &rx_default, UFI_SIZE_1_17(struct fi_rx_attr, iov_limit));
	memcpy(info->ep_attr, &ep_default, UFI_SIZE_1_17(struct fi_ep_attr, auth_key));
	memcpy(info->domain_attr, &domain_default, UFI_SIZE_1_17(struct fi_domain_attr, tclass));
	info->tx_attr->size = ufi_params.tx_size;
	info->rx_attr->size = ufi_params.rx_size;
	ufi_hints_apply(version, type, hints, info);
	if (hints && hints->handle && ufi_pep_exists(hints->handle))
		info->handle = hints->handle; /* the endpoint will take over the address of the passive endpoint */
	info->domain_attr->name = strdup(device->name);
	info->fabric_attr->name = strdup(FABRIC_NAME);
	info->fabric_attr->prov_version = ufi_provider.version;
	info->fabric_attr->api_version = version;
	if (!info->domain_attr->name || !info->fabric_attr->name ||
	    ufi_addr_dup(&src, &info->src_addr, &info->src_addrlen) ||
	    (w->have_dest && ufi_addr_dup(&w->dest, &info->dest_addr, &info->dest_addrlen))) {
		ufi_info_free(info);
		return NULL;
	}
	return info;
}

static bool names_match(const struct fi_info *hints, const struct pmd_device *device)
{
	bool ipv4 = ufi_gid_is_ipv4(&device->gid);

	if (!hints)
		return true;
	if (hints->fabric_attr && hints->fabric_attr->name && strcmp(hints->fabric_attr->name, FABRIC_NAME) != 0)
		return false;
	if (hints->domain_attr && hints->domain_attr->name && strcmp(hints->domain_attr->name, device->name) != 0)
		return false;
	return hints->addr_format == (ipv4 ? FI_SOCKADDR_IN : FI_SOCKADDR_IN6) ||
	       hints->addr_format == FI_FORMAT_UNSPEC || hints->addr_format == FI_SOCKADDR;
}

/* Adapt the type to a device: the largest datagram is one packet of the device. */
static struct ufi_type type_of_device(const struct ufi_type *type, const struct pmd_device *device)
{
	struct ufi_type out = *type;
	enum nic_mtu mtu = NIC_MTU_256;
	char sentence[256];

	if (out.type != FI_EP_DGRAM)
		return out;
	if (pmd_device_mtu(device, getenv("UROCE_MTU"), &mtu, sentence, sizeof(sentence)))
		UFI_WARN(CORE, "%s: %s\n", device->name, sentence);
	out.max_msg_size = (128u << mtu) - NIC_RDM_UD_HEADER;
	return out;
}

/** The list of entries of one endpoint type. */
struct entries {
	struct fi_info *first, *last;
};

static void entries_add(struct entries *e, struct fi_info *info, bool in_front)
{
	if (in_front && e->first) {
		info->next = e->first;
		e->first = info;
		return;
	}
	if (e->first)
		e->last->next = info;
	else
		e->first = info;
	e->last = info;
}

/** Add entries of all matching types on a device. @return 0, -FI_ENOMEM. */
static int device_entries(uint32_t version, const struct pmd_device *device, const struct wanted *w,
			  const struct fi_info *hints, struct entries *entries)
{
	bool route = w->have_dest && is_route_to(&device->gid, &w->dest);
	struct fi_info *info;

	for (unsigned i = 0; i < UFI_TYPES; i++) {
		struct ufi_type type = type_of_device(ufi_type_at(i), device);

		if (!ufi_hints_match(&type, hints))
			continue;
		info = info_new(version, &type, device, w, hints);
		if (!info)
			return -FI_ENOMEM;
		entries_add(&entries[i], info, route);
	}
	return 0;
}

/** Join the lists, in the order of types. @return the list; NULL: empty. */
static struct fi_info *entries_join(struct entries *entries)
{
	struct entries all = {0};

	for (unsigned i = 0; i < UFI_TYPES; i++) {
		if (!entries[i].first)
			continue;
		entries_add(&all, entries[i].first, false);
		all.last = entries[i].last;
	}
	return all.first;
}

/* Whether any type can meet the hints. Checked first, before names are resolved. */
static bool any_type_matches(const struct fi_info *hints)
{
	for (unsigned i = 0; i < UFI_TYPES; i++) {
		struct ufi_type type = *ufi_type_at(i);

		if (type.type == FI_EP_DGRAM)
			type.max_msg_size = NIC_RDM_MSG_MAX; /* an upper bound: the device's limit is not known yet */
		if (ufi_hints_match(&type, hints))
			return true;
	}
	return false;
}

int ufi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
		struct fi_info **out)
{
	struct pmd_device devices[PMD_DEVICES_MAX];
	struct entries entries[UFI_TYPES] = {0};
	struct wanted w;
	int n, rc = 0;

	if (flags & GETINFO_FOR_LAYERS)
		return -FI_ENODATA;
	if (!any_type_matches(hints)) {
		UFI_INFO(CORE, "no device or endpoint type matches the hints\n");
		return -FI_ENODATA;
	}
	pmd_settings_tell();
	n = pmd_devices(devices, PMD_DEVICES_MAX);
	for (int i = 0; i < n && i < PMD_DEVICES_MAX && !rc; i++) {
		int family = ufi_gid_is_ipv4(&devices[i].gid) ? AF_INET : AF_INET6;

		if (!names_match(hints, &devices[i]) || wanted_find(&w, node, service, family, flags, hints) ||
		    !wanted_match(&w, &devices[i]))
			continue;
		rc = device_entries(version, &devices[i], &w, hints, entries);
	}
	*out = entries_join(entries);
	if (rc) {
		ufi_info_free(*out);
		*out = NULL;
		return rc;
	}
	return *out ? 0 : -FI_ENODATA;
}
