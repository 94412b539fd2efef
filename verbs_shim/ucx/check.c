/* SPDX-License-Identifier: BSD-3-Clause */
/* check.c - what a caller may not ask of an interface: refused, and said in UCX's log, as UCX's own transports do. */
#include <stdio.h>

#include "ucx.h"

void ux_say(const struct ux_iface *iface, int level, const char *what)
{
	static struct ucs_log_component from = {.level = UCS_LOG_WARN, .name = "uroce", .file_filter = "*"};

	ux_libs.log(__FILE__, __LINE__, __func__, level, &from, "transport on %s: %s", iface->md->device.name, what);
}

bool ux_length_refused(struct uct_ep *ep, const char *what, size_t length, size_t most)
{
	char text[128];

	snprintf(text, sizeof(text), "%s has a length of %zu bytes, and may have %zu", what, length, most);
	ux_say(ux_ep_of(ep)->iface, UCS_LOG_ERROR, text);
	return true;
}

bool ux_am_id_refused(struct uct_ep *ep, uint8_t id)
{
	char text[128];

	snprintf(text, sizeof(text), "%u is no active message id: they are below %u", id, UCT_AM_ID_MAX);
	ux_say(ux_ep_of(ep)->iface, UCS_LOG_ERROR, text);
	return true;
}
