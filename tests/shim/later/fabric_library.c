/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric_library.c - stands for the libfabric of a release to come: of what a provider calls, it has new versions where
 * structures have grown. Programs and providers of earlier releases would be bound to the old ones.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#include "fabric.h"

struct fi_info *dup_old(const struct fi_info *info);
struct fi_info *dup_new(const struct fi_info *info);
void free_old(struct fi_info *info);
void free_new(struct fi_info *info);

__asm__(".symver dup_old,fi_dupinfo@FABRIC_1.3");
__asm__(".symver free_old,fi_freeinfo@FABRIC_1.3");
__asm__(".symver dup_new,fi_dupinfo@@FABRIC_1.99");
__asm__(".symver free_new,fi_freeinfo@@FABRIC_1.99");

uint32_t fi_version(void)
{
	return LATER_VERSION;
}

int fi_log_enabled(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys)
{
	(void)prov;
	(void)level;
	(void)subsys;
	return 0;
}

void fi_log(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys, const char *func,
	    int line, const char *fmt, ...)
{
	(void)prov;
	(void)level;
	(void)subsys;
	(void)func;
	(void)line;
	(void)fmt;
}

int fi_param_define(const struct fi_provider *prov, const char *name, enum fi_param_type type, const char *help, ...)
{
	(void)prov;
	(void)name;
	(void)type;
	(void)help;
	return 0;
}

int fi_param_get(struct fi_provider *prov, const char *name, void *value)
{
	(void)prov;
	(void)name;
	(void)value;
	return -FI_ENODATA;
}

const char *fi_strerror(int code)
{
	return strerror(code);
}

struct fi_info *dup_old(const struct fi_info *info)
{
	(void)info;
	abort();
}

void free_old(struct fi_info *info)
{
	(void)info;
	abort();
}

/** @return zeroes, and behind them LATER_GROWTH bytes of LATER_FILL: fields of the release to come. */
static void *grown(size_t size)
{
	char *memory = calloc(1, size + LATER_GROWTH);

	if (!memory)
		abort();
	memset(memory + size, LATER_FILL, LATER_GROWTH);
	return memory;
}

struct fi_info *dup_new(const struct fi_info *info)
{
	struct fi_info *out = grown(LATER_SIZE(struct fi_info, nic));

	if (info)
		abort(); /* not called by what program fabric.c does */
	out->tx_attr = grown(LATER_SIZE(struct fi_tx_attr, tclass));
	out->rx_attr = grown(LATER_SIZE(struct fi_rx_attr, iov_limit));
	out->ep_attr = grown(LATER_SIZE(struct fi_ep_attr, auth_key));
	out->domain_attr = grown(LATER_SIZE(struct fi_domain_attr, tclass));
	out->fabric_attr = grown(LATER_SIZE(struct fi_fabric_attr, api_version));
	return out;
}

void free_new(struct fi_info *info)
{
	struct fi_info *next;

	for (; info; info = next) {
		next = info->next;
		free(info->src_addr);
		free(info->dest_addr);
		free(info->domain_attr->name);
		free(info->fabric_attr->name);
		free(info->tx_attr);
		free(info->rx_attr);
		free(info->ep_attr);
		free(info->domain_attr);
		free(info->fabric_attr);
		free(info);
	}
}
