/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * names.c - the names of the transport: its own, and those of UCX's transports for ConnectX, because programs and
 * scripts select these. UCX_TLS=rc stands for rc_mlx5 and rc_verbs, of which only rc_mlx5 has all atomics.
 *
 * Each name is a transport to UCX, of which a worker opens an interface. So a name of ConnectX is reported only if
 * UCX_TLS selects it and does not select the transport under its own name.
 */
#include <stdlib.h>
#include <string.h>

#include "ucx.h"

/** Whether the word is one of those, which end with NULL. */
static bool is_among(const char *word, size_t length, const char *const names[])
{
	for (; *names; names++)
		if (strlen(*names) == length && !memcmp(word, *names, length))
			return true;
	return false;
}

/** Whether the list, whose words commas separate, has one of the names. */
static bool has(const char *list, const char *const names[])
{
	while (true) {
		size_t length = strcspn(list, ",");

		if (is_among(list, length, names))
			return true;
		if (!list[length])
			return false;
		list += length + 1;
	}
}

/** @param names the name, and the aliases of UCX_TLS that include it. */
static ucs_status_t devices_under(const char *const names[], struct uct_md *md, struct uct_device_resource **out,
				  unsigned *n)
{
	static const char *const own[] = {"uroce", "all", NULL};
	const char *selected = getenv("UCX_TLS");

	*n = 0;
	*out = NULL;
	if (!selected || *selected == '^' || has(selected, own) || !has(selected, names))
		return UCS_OK;
	return ux_devices(md, out, n);
}

static ucs_status_t devices_rc(struct uct_md *md, struct uct_device_resource **out, unsigned *n)
{
	static const char *const names[] = {"rc_mlx5", "rc_x", "rc", "ib", NULL};

	return devices_under(names, md, out, n);
}

static ucs_status_t devices_ud(struct uct_md *md, struct uct_device_resource **out, unsigned *n)
{
	static const char *const names[] = {"ud_mlx5", "ud_x", "ud", NULL};

	return devices_under(names, md, out, n);
}

static ucs_status_t devices_dc(struct uct_md *md, struct uct_device_resource **out, unsigned *n)
{
	static const char *const names[] = {"dc_mlx5", "dc_x", "dc", NULL};

	return devices_under(names, md, out, n);
}

const struct ux_name ux_names[UX_NAMES] = {
	{"uroce", ux_devices},
	{"rc_mlx5", devices_rc},
	{"ud_mlx5", devices_ud},
	{"dc_mlx5", devices_dc},
};
