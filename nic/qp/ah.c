/* SPDX-License-Identifier: BSD-3-Clause */
/* ah.c - address vectors, address handles (IBTA 11.2.2). */
#include "ah.h"
#include "core.h"
#include "gid.h"
#include "list.h"
#include "mem.h"

bool av_legal(const struct nic *nic, const struct nic_av *av)
{
	return av->sgid_index < NIC_GID_TABLE_LEN && !gid_is_zero(&nic->gids[av->sgid_index]) &&
	       !gid_is_zero(&av->dgid) && gid_is_v4(&nic->gids[av->sgid_index]) == gid_is_v4(&av->dgid);
}

int nic_ah_create(struct nic_pd *pd, const struct nic_av *av, struct nic_ah **out)
{
	if (!av_legal(pd->nic, av))
		return -EINVAL;
	if (pd->nic->n_ah >= pd->nic->cfg.limits.max_ah)
		return -ENOMEM;

	struct nic_ah *ah = malloc(sizeof(*ah));

	if (!ah)
		return -ENOMEM;
	*ah = (struct nic_ah){.pd = pd, .av = *av};
	list_append(&pd->nic->all_ahs, &ah->node);
	pd->users++;
	pd->nic->n_ah++;
	*out = ah;
	return 0;
}

int nic_ah_destroy(struct nic_ah *ah)
{
	ah->pd->users--;
	ah->pd->nic->n_ah--;
	list_remove(&ah->node);
	free(ah);
	return 0;
}
