/* SPDX-License-Identifier: BSD-3-Clause */
/* engine_host.c - implements the interface of engine_host.h, by which the layers below the engine reach each other's
 * state and call the engine. Owns nothing. */
#include "engine_priv.h"

static struct pmd_engine *engine_of(struct pmd_host *host)
{
	return (struct pmd_engine *)(void *)((char *)host - offsetof(struct pmd_engine, host));
}

static void host_wake(struct pmd_host *host)
{
	pmd_engine_wake(engine_of(host));
}

static void host_take(struct pmd_host *host, const struct nic_rx_frame *frame, uint64_t now_ns)
{
	pmd_engine_take(engine_of(host), frame, now_ns);
}

void pmd_engine_host_init(struct pmd_engine *e)
{
	static const struct pmd_host_ops ops = {.wake = host_wake, .take = host_take};

	e->host = (struct pmd_host){
		.rx_until = UINT64_MAX,
		.services = &e->services,
		.tools = &e->tools,
		.stages = &e->stages,
		.device = &e->device,
		.ops = &ops,
	};
}
