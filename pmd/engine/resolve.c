/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * resolve.c - waits until the port knows the link-layer address of a peer, if the engine itself does ARP or neighbour
 * discovery.
 */
#include <pthread.h>
#include <time.h>

#include "engine_priv.h"

/* Time limit of pmd_resolve: it might never succeed, because a full neighbour table may evict every answer at once. */
#define RESOLVE_NS	 1000000000ull
#define RESOLVE_PAUSE_NS 50000

void pmd_resolve(struct pmd_engine *e, const struct nic_gid *dgid)
{
	const struct timespec pause = {.tv_nsec = RESOLVE_PAUSE_NS};
	bool asking = e->host.port->ops->resolve != NULL;
	uint64_t end_ns = asking ? pmd_now_ns() + RESOLVE_NS : 0;
	int cancel;

	if (!asking)
		return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	while (asking && pmd_now_ns() < end_ns) {
		pmd_lock(e);
		asking = !e->host.dead && e->host.port->ops->resolve(e->host.port, dgid, pmd_now_ns());
		if (!e->host.dead) /* a step even if no answer is pending: resolve() may have set a deadline */
			pmd_engine_step(e, THREAD_RX_BUDGET, true);
		pmd_unlock(e);
		if (asking)
			nanosleep(&pause, NULL);
	}
	pthread_setcancelstate(cancel, NULL);
}
