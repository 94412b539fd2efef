/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * version.c - registers the transport with UCX 1.13 or UCX 1.18. These versions differ in the structures of components,
 * transports and memory domains; only this file knows the differences.
 */
#include <string.h>

#include "ucx.h"

/** A table of configuration variables. */
struct config_1_13 {
	const char *name, *prefix;
	void *table;
	size_t size;
	struct ucs_list list;
};

struct config_1_18 {
	struct config_1_13 head;
	uint8_t flags;
};

/** Size of our configuration structures, which UCX fills in: more than the structures of either version need. */
#define CONFIG_BYTES 256u

/* The members of a component that precede its configurations. In 1.18 one more function follows them. */
#define COMPONENT_HEAD                                                                                                 \
	char name[16];                                                                                                 \
	ucs_status_t (*query_md_resources)(void *component, struct uct_md_resource **out, unsigned *n);                \
	ucs_status_t (*md_open)(void *component, const char *name, const void *config, struct uct_md **out);           \
	ucs_status_t (*cm_open)(void);                                                                                 \
	ucs_status_t (*rkey_unpack)(void *component, const void *buffer, uct_rkey_t *rkey, void **handle);             \
	ucs_status_t (*rkey_ptr)(void *component, uct_rkey_t rkey, void *handle, uint64_t addr, void **local);         \
	ucs_status_t (*rkey_release)(void *component, uct_rkey_t rkey, void *handle)

struct component_1_13 {
	COMPONENT_HEAD;
	struct config_1_13 md_config, cm_config;
	struct ucs_list tl_list, list;
	uint64_t flags;
	void (*md_vfs_init)(struct uct_md *md);
};

struct component_1_18 {
	COMPONENT_HEAD;
	ucs_status_t (*rkey_compare)(void *component, uct_rkey_t a, uct_rkey_t b, const void *params, int *result);
	struct config_1_18 md_config, cm_config;
	struct ucs_list tl_list, list;
	uint64_t flags;
	void (*md_vfs_init)(struct uct_md *md);
};

#define TRANSPORT_HEAD                                                                                                 \
	char name[10];                                                                                                 \
	ucs_status_t (*query_devices)(struct uct_md * md, struct uct_device_resource * *out, unsigned *n);             \
	ucs_status_t (*iface_open)(struct uct_md * md, struct uct_worker * worker, const struct uct_iface_params *,    \
				   const void *config, struct uct_iface **out)

struct transport_1_13 {
	TRANSPORT_HEAD;
	struct config_1_13 config;
	struct ucs_list list;
};

struct transport_1_18 {
	TRANSPORT_HEAD;
	struct config_1_18 config;
	struct ucs_list list;
};

/* ---- functions that take the same arguments in both versions --------------------------------------------- */

static ucs_status_t unsupported(void)
{
	return UCS_ERR_UNSUPPORTED;
}

static void nothing(void)
{
}

static int no(void)
{
	return 0;
}

static ucs_status_t rkey_ptr(void *component, uct_rkey_t rkey, void *handle, uint64_t addr, void **local)
{
	return UCS_ERR_UNSUPPORTED;
}

static void md_vfs_init(struct uct_md *md)
{
}

/* ---- memory domains -------------------------------------------------------------------------------------- */

#define REG_COST 1e-6 /* seconds; low, because registering pins no pages */

struct md_attr_1_13 {
	uint64_t max_alloc;
	size_t max_reg;
	uint64_t flags, reg_mem_types, detect_mem_types, alloc_mem_types, access_mem_types;
	struct ucs_linear_func reg_cost;
	char component_name[16];
	size_t rkey_packed_size;
	uint8_t local_cpus[128];
};

static ucs_status_t md_query_1_13(struct uct_md *md, struct md_attr_1_13 *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->max_reg = SIZE_MAX;
	attr->flags = ux_md_flags(md);
	attr->reg_mem_types = attr->access_mem_types = UCS_MEMORY_HOST_BIT;
	attr->reg_cost.c = REG_COST;
	attr->rkey_packed_size = UX_RKEY_BYTES;
	memset(attr->local_cpus, 0xff, sizeof(attr->local_cpus));
	return UCS_OK;
}

static ucs_status_t md_reg_1_13(struct uct_md *md, void *addr, size_t length, unsigned flags, void **memh)
{
	return ux_md_register(md, addr, length, memh);
}

static ucs_status_t md_pack_1_13(struct uct_md *md, void *memh, const void *params, void *buffer)
{
	ux_md_pack(memh, buffer);
	return UCS_OK;
}

static const struct {
	void (*close)(struct uct_md *md);
	ucs_status_t (*query)(struct uct_md *md, struct md_attr_1_13 *attr);
	ucs_status_t (*mem_alloc)(void), (*mem_free)(void), (*mem_advise)(void);
	ucs_status_t (*mem_reg)(struct uct_md *md, void *addr, size_t length, unsigned flags, void **memh);
	ucs_status_t (*mem_dereg)(struct uct_md *md, const struct uct_md_dereg_params *params);
	ucs_status_t (*mem_query)(void);
	ucs_status_t (*mkey_pack)(struct uct_md *md, void *memh, const void *params, void *buffer);
	int (*is_sockaddr_accessible)(void);
	ucs_status_t (*detect_memory_type)(void);
} md_ops_1_13 = {ux_md_close,	   md_query_1_13, unsupported,	unsupported, unsupported, md_reg_1_13,
		 ux_md_deregister, unsupported,	  md_pack_1_13, no,	     unsupported};

/* UCX sets all members to defaults before it calls md_query_1_18(). */
struct md_attr_1_18 {
	uint64_t field_mask, max_alloc;
	size_t max_reg;
	uint64_t flags, reg_mem_types, reg_nonblock_mem_types, cache_mem_types, gva_mem_types;
	uint64_t detect_mem_types, alloc_mem_types, access_mem_types, dmabuf_mem_types;
	struct ucs_linear_func reg_cost;
	char component_name[16];
	size_t rkey_packed_size;
	uint8_t local_cpus[128];
	size_t exported_mkey_packed_size;
	char global_id[256];
	size_t reg_alignment;
};

static ucs_status_t md_query_1_18(struct uct_md *md, struct md_attr_1_18 *attr)
{
	attr->max_alloc = 0;
	attr->max_reg = SIZE_MAX;
	attr->flags = ux_md_flags(md);
	/* Rendezvous asserts that UCP caches the registrations of every domain that it uses. */
	attr->reg_mem_types = attr->access_mem_types = attr->cache_mem_types = UCS_MEMORY_HOST_BIT;
	attr->reg_nonblock_mem_types = attr->gva_mem_types = 0;
	attr->detect_mem_types = attr->alloc_mem_types = attr->dmabuf_mem_types = 0;
	attr->reg_cost = (struct ucs_linear_func){.c = REG_COST};
	attr->rkey_packed_size = UX_RKEY_BYTES;
	attr->exported_mkey_packed_size = 0;
	attr->reg_alignment = 1;
	memset(attr->local_cpus, 0xff, sizeof(attr->local_cpus));
	return UCS_OK;
}

static ucs_status_t md_reg_1_18(struct uct_md *md, void *addr, size_t length, const void *params, void **memh)
{
	return ux_md_register(md, addr, length, memh);
}

static ucs_status_t md_pack_1_18(struct uct_md *md, void *memh, void *addr, size_t length, const void *params,
				 void *buffer)
{
	ux_md_pack(memh, buffer);
	return UCS_OK;
}

static const struct {
	void (*close)(struct uct_md *md);
	ucs_status_t (*query)(struct uct_md *md, struct md_attr_1_18 *attr);
	ucs_status_t (*mem_alloc)(void), (*mem_free)(void), (*mem_advise)(void);
	ucs_status_t (*mem_reg)(struct uct_md *md, void *addr, size_t length, const void *params, void **memh);
	ucs_status_t (*mem_dereg)(struct uct_md *md, const struct uct_md_dereg_params *params);
	ucs_status_t (*mem_query)(void);
	ucs_status_t (*mkey_pack)(struct uct_md *md, void *memh, void *addr, size_t length, const void *params,
				  void *buffer);
	ucs_status_t (*mem_attach)(void), (*detect_memory_type)(void);
} md_ops_1_18 = {ux_md_close,	   md_query_1_18, unsupported,	unsupported, unsupported, md_reg_1_18,
		 ux_md_deregister, unsupported,	  md_pack_1_18, unsupported, unsupported};

static ucs_status_t md_open_1_13(void *component, const char *name, const void *config, struct uct_md **out)
{
	return ux_md_open(component, name, &md_ops_1_13, out);
}

static ucs_status_t md_open_1_18(void *component, const char *name, const void *config, struct uct_md **out)
{
	return ux_md_open(component, name, &md_ops_1_18, out);
}

static ucs_status_t rkey_compare(void *component, uct_rkey_t a, uct_rkey_t b, const void *params, int *result)
{
	*result = a < b ? -1 : a > b;
	return UCS_OK;
}

/* ---- internal functions of interfaces; 1.13 knows only the first four ------------------------------------- */

static int reaches(const struct uct_iface *iface, const struct uct_reachable_params *params)
{
	bool within_device = params->field_mask & UCT_REACHABLE_SCOPE && params->scope == UCT_SCOPE_DEVICE;

	if (!(params->field_mask & UCT_REACHABLE_DEVICE_ADDR))
		return 0;
	return within_device
		       ? ux_iface_is_near(iface, params->device_addr)
		       : ux_iface_reaches(iface, params->device_addr,
					  params->field_mask & UCT_REACHABLE_IFACE_ADDR ? params->iface_addr : NULL);
}

static int is_connected(struct uct_ep *ep, const struct uct_reachable_params *params)
{
	uint64_t needs = UCT_REACHABLE_DEVICE_ADDR | UCT_REACHABLE_IFACE_ADDR;

	return (params->field_mask & needs) == needs && ux_ep_connects(ep, params->device_addr, params->iface_addr);
}

static struct {
	ucs_status_t (*estimate_perf)(struct uct_iface *iface, void *attr);
	void (*vfs_refresh)(void);
	ucs_status_t (*ep_query)(void), (*ep_invalidate)(void), (*ep_connect_to_ep_v2)(void);
	int (*is_reachable_v2)(const struct uct_iface *iface, const struct uct_reachable_params *params);
	int (*ep_is_connected)(struct uct_ep *ep, const struct uct_reachable_params *params);
} internal_ops = {NULL, nothing, unsupported, unsupported, unsupported, reaches, is_connected};

const void *ux_internal_ops = &internal_ops;

/* ---- the components and transports ----------------------------------------------------------------------- */

static struct component_1_13 component_1_13 = {
	.name = "uroce",
	.query_md_resources = ux_md_resources,
	.md_open = md_open_1_13,
	.cm_open = unsupported,
	.rkey_unpack = ux_rkey_unpack,
	.rkey_ptr = rkey_ptr,
	.rkey_release = ux_rkey_release,
	.md_config = {.name = "uroce memory domain", .prefix = "UROCE_", .size = CONFIG_BYTES},
	.cm_config = {.name = "", .prefix = ""},
	.tl_list = {&component_1_13.tl_list, &component_1_13.tl_list},
	.md_vfs_init = md_vfs_init,
};

static struct component_1_18 component_1_18 = {
	.name = "uroce",
	.query_md_resources = ux_md_resources,
	.md_open = md_open_1_18,
	.cm_open = unsupported,
	.rkey_unpack = ux_rkey_unpack,
	.rkey_ptr = rkey_ptr,
	.rkey_release = ux_rkey_release,
	.rkey_compare = rkey_compare,
	.md_config = {.head = {.name = "uroce memory domain", .prefix = "UROCE_", .size = CONFIG_BYTES}},
	.cm_config = {.head = {.name = "", .prefix = ""}},
	.tl_list = {&component_1_18.tl_list, &component_1_18.tl_list},
	.md_vfs_init = md_vfs_init,
};

/* The transport under each of its names. */
static struct transport_1_13 transports_1_13[UX_NAMES];
static struct transport_1_18 transports_1_18[UX_NAMES];

static struct config_1_13 transport_config(void)
{
	return (struct config_1_13){
		"uroce transport", "UROCE_", ux_libs.iface_config_table, CONFIG_BYTES, {NULL, NULL}};
}

static void register_1_13(void)
{
	component_1_13.md_config.table = ux_libs.md_config_table;
	ux_libs.component_register(&component_1_13);
	for (unsigned i = 0; i < UX_NAMES; i++) {
		struct transport_1_13 *transport = &transports_1_13[i];

		strcpy(transport->name, ux_names[i].name);
		transport->query_devices = ux_names[i].devices;
		transport->iface_open = ux_iface_open;
		transport->config = transport_config();
		ux_libs.tl_register(&component_1_13, transport);
	}
}

static void register_1_18(void)
{
	component_1_18.md_config.head.table = ux_libs.md_config_table;
	ux_libs.component_register(&component_1_18);
	for (unsigned i = 0; i < UX_NAMES; i++) {
		struct transport_1_18 *transport = &transports_1_18[i];

		strcpy(transport->name, ux_names[i].name);
		transport->query_devices = ux_names[i].devices;
		transport->iface_open = ux_iface_open;
		transport->config.head = transport_config();
		ux_libs.tl_register(&component_1_18, transport);
	}
}

bool ux_register(unsigned major, unsigned minor)
{
	if (major != 1 || (minor != 13 && minor != 18))
		return false;
	internal_ops.estimate_perf = ux_libs.estimate_perf;
	if (minor == 13)
		register_1_13();
	else
		register_1_18();
	return true;
}
