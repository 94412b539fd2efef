/* SPDX-License-Identifier: BSD-3-Clause */
/* md.c - memory domains. Each is an open device with a protection domain. Local buffers need no registration.
 *
 * With UROCE_UCX_ONE_KEY, one region of all memory stands for every registration. Peers learn its R_Key from the
 * interface's address and use no other, whatever key their programs name: UCX's TCP does not check keys either. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "settings.h"
#include "ucx.h"

#define RIGHTS (NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_REMOTE_READ | NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_ATOMIC)

/** Find the devices. @return how many. */
static unsigned devices_find(struct pmd_device devices[PMD_DEVICES_MAX])
{
	int n = pmd_devices(devices, PMD_DEVICES_MAX);

	return n < 0 ? 0 : n > PMD_DEVICES_MAX ? PMD_DEVICES_MAX : (unsigned)n;
}

ucs_status_t ux_md_resources(void *component, struct uct_md_resource **out, unsigned *n)
{
	struct pmd_device devices[PMD_DEVICES_MAX];
	unsigned found = devices_find(devices);

	*n = 0;
	*out = ux_libs.alloc((found ? found : 1) * sizeof(**out), "uroce devices");
	if (!*out)
		return UCS_ERR_NO_MEMORY;
	for (unsigned i = 0; i < found; i++)
		if (strlen(devices[i].name) < sizeof((*out)->md_name))
			strcpy((*out)[(*n)++].md_name, devices[i].name);
	return UCS_OK;
}

/* Ignore the NIC's events of queue pairs and ports. */
static void device_event(void *ctx, const struct nic_event *event)
{
}

static ucs_status_t device_open(struct ux_md *md, const char *name)
{
	struct pmd_device devices[PMD_DEVICES_MAX];
	unsigned n = devices_find(devices), i = 0;
	char sentence[256] = "";

	while (i < n && strcmp(devices[i].name, name))
		i++;
	if (i == n)
		return UCS_ERR_NO_DEVICE;
	md->device = devices[i];
	if (pmd_open(&md->device, device_event, NULL, &md->engine, sentence, sizeof(sentence))) {
		fprintf(stderr, "uroce: UCX transport: %s: %s\n", name, sentence);
		return UCS_ERR_NO_DEVICE;
	}
	md->nic = pmd_engine_nic(md->engine);
	return UCS_OK;
}

/* For one key, register all addresses that a pointer can have, except NULL. */
static int domain_create(struct ux_md *md, bool one_key)
{
	int rc = nic_pd_alloc(md->nic, &md->pd);

	if (rc || !one_key)
		return rc;
	rc = nic_mr_reg(md->pd, (void *)1, INT64_MAX - 1, 1, RIGHTS | NIC_ACCESS_ON_DEMAND, &md->all);
	if (rc)
		nic_pd_free(md->pd);
	return rc;
}

ucs_status_t ux_md_open(void *component, const char *name, const void *ops, struct uct_md **out)
{
	const char *setting = secure_getenv("UROCE_UCX_ONE_KEY");
	struct ux_md *md = calloc(1, sizeof(*md));
	ucs_status_t status;
	bool one_key;
	int rc = -1;

	if (!md)
		return UCS_ERR_NO_MEMORY;
	if (!pmd_setting_switch(setting, false, &one_key)) {
		fprintf(stderr, "uroce: UCX transport: %s: UROCE_UCX_ONE_KEY is '%.32s'; use on or off\n", name,
			setting);
		free(md);
		return UCS_ERR_INVALID_PARAM;
	}
	status = device_open(md, name);
	if (status) {
		free(md);
		return status;
	}
	if (ux_enter(md)) {
		rc = domain_create(md, one_key);
		ux_leave(md);
	}
	if (rc) {
		pmd_close(md->engine);
		free(md);
		return UCS_ERR_NO_MEMORY;
	}
	md->super.ops = ops;
	md->super.component = component;
	*out = &md->super;
	return UCS_OK;
}

static struct ux_md *md_of(struct uct_md *md)
{
	return (struct ux_md *)md;
}

uint64_t ux_md_flags(struct uct_md *uct_md)
{
	return UCT_MD_REG | (md_of(uct_md)->all ? 0 : UCT_MD_NEED_RKEY);
}

void ux_md_close(struct uct_md *uct_md)
{
	struct ux_md *md = md_of(uct_md);

	if (ux_enter(md)) {
		if (md->all)
			nic_mr_dereg(md->all);
		nic_pd_free(md->pd);
		ux_leave(md);
	}
	pmd_close(md->engine);
	free(md);
}

ucs_status_t ux_md_register(struct uct_md *uct_md, void *addr, size_t length, void **memh)
{
	struct ux_md *md = md_of(uct_md);
	struct nic_mr *mr = md->all;
	int rc = 0;

	if (!ux_enter(md))
		return UCS_ERR_IO_ERROR;
	if (!mr)
		rc = nic_mr_reg(md->pd, addr, length, (uintptr_t)addr, RIGHTS, &mr);
	ux_leave(md);
	if (rc)
		return rc == -ENOMEM ? UCS_ERR_NO_MEMORY : UCS_ERR_INVALID_PARAM;
	*memh = mr;
	return UCS_OK;
}

ucs_status_t ux_md_deregister(struct uct_md *uct_md, const struct uct_md_dereg_params *params)
{
	struct ux_md *md = md_of(uct_md);
	int rc = 0;

	if (params->flags & UCT_MD_DEREG_FLAG_INVALIDATE && params->field_mask & UCT_MD_DEREG_FLAGS)
		return UCS_ERR_UNSUPPORTED;
	if (!params->memh)
		return UCS_ERR_INVALID_PARAM;
	if (!ux_enter(md)) /* forked child: the region is registered only in the parent's NIC */
		return UCS_OK;
	if (params->memh != md->all)
		rc = nic_mr_dereg(params->memh);
	ux_leave(md);
	return rc ? UCS_ERR_BUSY : UCS_OK;
}

void ux_md_pack(void *memh, void *buffer)
{
	uint32_t rkey = nic_mr_rkey(memh);

	memcpy(buffer, &rkey, UX_RKEY_BYTES);
}

ucs_status_t ux_rkey_unpack(void *component, const void *buffer, uct_rkey_t *rkey, void **handle)
{
	uint32_t value;

	memcpy(&value, buffer, UX_RKEY_BYTES);
	*rkey = value;
	*handle = NULL;
	return UCS_OK;
}

ucs_status_t ux_rkey_release(void *component, uct_rkey_t rkey, void *handle)
{
	return UCS_OK;
}

/* Report the device under the name that libuct_ib gives the device's port, so that one name in UCX_NET_DEVICES selects
 * the device for this transport and for libuct_ib's. Unlike libuct_ib, do not report the device's PCI function
 * (sysfs/pci.c), from which UCX would derive how far the device is from memory. Without a PCI function, UCX assumes
 * that the device is near. This is true, because the device runs on the program's own CPUs. */
ucs_status_t ux_devices(struct uct_md *md, struct uct_device_resource **out, unsigned *n)
{
	*n = 0;
	*out = ux_libs.alloc(sizeof(**out), "uroce device");
	if (!*out)
		return UCS_ERR_NO_MEMORY;
	snprintf((*out)->name, sizeof((*out)->name), "%.16s:1", md_of(md)->device.name);
	(*out)->type = UCT_DEVICE_TYPE_NET;
	(*out)->sys_device = UCS_SYS_DEVICE_UNKNOWN;
	*n = 1;
	return UCS_OK;
}
