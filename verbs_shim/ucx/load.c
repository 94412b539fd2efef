/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * load.c - finds libuct, libucs and their version, and registers the transport. The module is not linked with
 * UCX, so that one module serves all supported versions of UCX, and can be built without UCX.
 */
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load.h"
#include "ucx.h"

struct ux_libs ux_libs;

/* Whether UCX_TLS names the transport. Only then is a refusal reported. */
static bool is_wanted(void)
{
	const char *tls = getenv("UCX_TLS");

	return tls && strstr(tls, "uroce");
}

static void refuse(const char *why)
{
	if (is_wanted())
		fprintf(stderr, "uroce: no UCX transport: %s\n", why);
}

static bool libs_find(void *uct, void *ucs)
{
	const struct {
		void *lib;
		const char *name;
		void *to;
	} symbols[] = {
		{uct, "uct_component_register", &ux_libs.component_register},
		{uct, "uct_tl_register", &ux_libs.tl_register},
		{uct, "uct_base_iface_t_init", &ux_libs.base_init},
		{uct, "uct_base_iface_t_class", &ux_libs.base_class},
		{uct, "uct_base_iface_query", &ux_libs.base_query},
		{uct, "uct_base_iface_progress_enable", &ux_libs.progress_enable},
		{uct, "uct_base_iface_progress_disable", &ux_libs.progress_disable},
		{uct, "uct_base_iface_estimate_perf", &ux_libs.estimate_perf},
		{uct, "uct_iface_handle_ep_err", &ux_libs.ep_error},
		{uct, "uct_iface_param_am_alignment", &ux_libs.am_alignment},
		{uct, "uct_iface_config_table", &ux_libs.iface_config_table},
		{uct, "uct_md_config_table", &ux_libs.md_config_table},
		{ucs, "ucs_class_call_cleanup_chain", &ux_libs.class_cleanup},
		{ucs, "ucs_log_dispatch", &ux_libs.log},
		{ucs, "ucs_malloc", &ux_libs.alloc},
	};

	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *at = dlsym(symbols[i].lib, symbols[i].name);

		if (!at)
			return false;
		memcpy(symbols[i].to, &at, sizeof(at));
	}
	return true;
}

/* Open libucp.so.0 from the folder that libuct comes from. */
static void *ucp_beside(void *uct)
{
	struct link_map *map;
	const char *slash;
	char path[PATH_MAX];
	int n;

	if (dlinfo(uct, RTLD_DI_LINKMAP, &map) || !(slash = strrchr(map->l_name, '/')))
		return NULL;
	n = snprintf(path, sizeof(path), "%.*s/libucp.so.0", (int)(slash - map->l_name), map->l_name);
	return n > 0 && (size_t)n < sizeof(path) ? dlopen(path, RTLD_LAZY | RTLD_LOCAL) : NULL;
}

/* Ask libucp for UCX's version: the libucp that the process has loaded, which uses this libuct, or else the one that is
 * installed with this libuct. The one that the loader would find may belong to another UCX. */
static bool version_find(void *uct, unsigned *major, unsigned *minor)
{
	void *loaded = dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD), *ucp = loaded ? loaded : ucp_beside(uct);
	void (*get)(unsigned *, unsigned *, unsigned *) = NULL;
	unsigned release;
	void *at = ucp ? dlsym(ucp, "ucp_get_version") : NULL;

	memcpy(&get, &at, sizeof(at));
	if (get)
		get(major, minor, &release);
	return get;
}

static void load(void)
{
	void *uct = dlopen("libuct.so.0", RTLD_LAZY | RTLD_NOLOAD);
	void *ucs = dlopen("libucs.so.0", RTLD_LAZY | RTLD_NOLOAD);
	unsigned major = 0, minor = 0;
	char why[80];

	if (!uct || !ucs || !version_find(uct, &major, &minor)) {
		refuse("libuct.so.0, libucs.so.0, or libucp.so.0 beside libuct.so.0 was not found");
	} else if (!libs_find(uct, ucs)) {
		refuse("this UCX lacks functions that transports need");
	} else if (!ux_register(major, minor)) {
		snprintf(why, sizeof(why), "it is made for UCX 1.13 and 1.18, and this is %u.%u", major, minor);
		refuse(why);
	}
}

void uroce_ucx_load(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load);
}
