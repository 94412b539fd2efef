/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * provider.c - the provider's entry point: libfabric loads the library and calls its one exported function. Owns: the
 * parameters.
 */
#include "provider.h"

struct ufi_params ufi_params = {
	.tx_size = 1024, .rx_size = 1024, .max_unexpected = 64u << 20, .connect_ms = 10000, .peer_ms = 6000};

static int provider_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	return ufi_fabric_open(attr, fabric, context);
}

static void provider_cleanup(void)
{
}

struct fi_provider ufi_provider = {
	.version = FI_VERSION(0, 1),
	.name = "uroce",
	.getinfo = ufi_getinfo,
	.fabric = provider_fabric,
	.cleanup = provider_cleanup,
};

static void param_size(const char *name, size_t *value, size_t least, size_t most, const char *help)
{
	size_t got;

	fi_param_define(&ufi_provider, name, FI_PARAM_SIZE_T, "%s (default: %zu)", help, *value);
	if (fi_param_get_size_t(&ufi_provider, name, &got))
		return;
	if (got < least || got > most)
		UFI_WARN(CORE, "%s must be from %zu to %zu; %zu is ignored\n", name, least, most, got);
	else
		*value = got;
}

/* The shortest and longest timeout in ms that a queue pair's ACK timer and retry count together can implement. */
#define PEER_MS_LEAST 200
#define PEER_MS_MOST  65000

static void params_read(void)
{
	int ms;

	param_size("tx_size", &ufi_params.tx_size, 1, UFI_QUEUE_MAX,
		   "Requests that an endpoint can have in flight, unless the program requests a number");
	param_size("rx_size", &ufi_params.rx_size, 1, UFI_QUEUE_MAX,
		   "Receives that an endpoint can have posted, unless the program requests a number");
	param_size("max_unexpected", &ufi_params.max_unexpected, NIC_RDM_EAGER_MAX, SIZE_MAX,
		   "Bytes of messages that an endpoint keeps before they are asked for; senders of more wait, and "
		   "datagrams are dropped");
	fi_param_define(&ufi_provider, "connect_timeout", FI_PARAM_INT,
			"Milliseconds for which a peer may leave a first request unanswered before it fails "
			"(default: %d)",
			ufi_params.connect_ms);
	if (!fi_param_get_int(&ufi_provider, "connect_timeout", &ms) && ms > 0)
		ufi_params.connect_ms = ms;
	fi_param_define(
		&ufi_provider, "peer_timeout", FI_PARAM_INT,
		"Milliseconds, about, for which a connected peer may leave a request unanswered before it fails; 200 "
		"at least, 65000 at most (default: %d)",
		ufi_params.peer_ms);
	if (!fi_param_get_int(&ufi_provider, "peer_timeout", &ms) && ms > 0)
		ufi_params.peer_ms = ms < PEER_MS_LEAST ? PEER_MS_LEAST : ms < PEER_MS_MOST ? ms : PEER_MS_MOST;
	fi_param_define(&ufi_provider, "scalable_mr", FI_PARAM_BOOL,
			"Let programs that are ready for basic registration choose keys, and address by offsets, too; "
			"otherwise they get the provider's keys and virtual addresses (default: no)");
	fi_param_get_bool(&ufi_provider, "scalable_mr", &ufi_params.scalable_mr);
}

FI_EXT_INI;

FI_EXT_INI
{
	if (ufi_library_find())
		return NULL;
	/* libfabric does not use a provider of a version before the program's. */
	ufi_provider.fi_version = fi_version();
	params_read();
	return &ufi_provider;
}
