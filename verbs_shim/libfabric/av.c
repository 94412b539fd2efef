/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * av.c - address vectors (fi_av(3)): a table of addresses, indexed by fi_addr_t for both FI_AV_MAP and FI_AV_TABLE, and
 * a hash table of these addresses to find the sources of messages. An address can be in the table several times;
 * messages from it are attributed to the first entry.
 *
 * A table can be shared with other processes (av_share.c). Every lookup then first takes over the changes of other
 * processes.
 *
 * Insertion is complete when the call returns; if the application wants an event, it is queued at once. Insertion does
 * not contact the address: only the first use shows whether an endpoint has this address. Guarded by the engine's lock.
 */
#include "endpoint.h"
#include "share.h"

#define WORD 64u /* indices per word of ufi_av.taken; ufi_av.room is a multiple of it */

static struct ufi_av *av_of(struct fid_av *av)
{
	return container_of(av, struct ufi_av, av);
}

/* ---- the table ------------------------------------------------------------------------------------------- */

static uint32_t *av_bucket(const struct ufi_av *av, const struct nic_rdm_addr *addr)
{
	uint64_t hash = addr->port, part;

	for (unsigned i = 0; i < sizeof(addr->gid.raw); i += sizeof(part)) {
		memcpy(&part, addr->gid.raw + i, sizeof(part));
		hash = (hash ^ part) * 0x9e3779b97f4a7c15u;
		hash ^= hash >> 32;
	}
	return &av->buckets[hash & (av->room - 1)];
}

static bool addr_equal(const struct nic_rdm_addr *a, const struct nic_rdm_addr *b)
{
	return a->port == b->port && memcmp(&a->gid, &b->gid, sizeof(a->gid)) == 0;
}

const struct nic_rdm_addr *ufi_av_at(struct ufi_av *av, fi_addr_t fi_addr)
{
	if (av->share)
		ufi_av_follow(av);
	return fi_addr < av->n && av->entries[fi_addr].used ? &av->entries[fi_addr].addr : NULL;
}

fi_addr_t ufi_av_find(struct ufi_av *av, const struct nic_rdm_addr *addr)
{
	fi_addr_t first = FI_ADDR_NOTAVAIL;

	if (av->share)
		ufi_av_follow(av);
	for (uint32_t i = *av_bucket(av, addr); i != UFI_AV_NONE; i = av->entries[i].next)
		if (addr_equal(&av->entries[i].addr, addr) && i < first)
			first = i;
	return first;
}

static void av_link(struct ufi_av *av, uint32_t i)
{
	uint32_t *bucket = av_bucket(av, &av->entries[i].addr);

	av->entries[i].next = *bucket;
	*bucket = i;
}

static int av_resize(struct ufi_av *av, uint32_t room)
{
	struct ufi_av_entry *entries = realloc(av->entries, room * sizeof(*entries));
	uint32_t *buckets;
	uint64_t *taken;

	if (!entries)
		return -FI_ENOMEM;
	av->entries = entries;
	buckets = realloc(av->buckets, room * sizeof(*buckets));
	if (!buckets)
		return -FI_ENOMEM;
	av->buckets = buckets;
	taken = realloc(av->taken, room / WORD * sizeof(*taken));
	if (!taken)
		return -FI_ENOMEM;
	memset(taken + av->room / WORD, 0, (room - av->room) / WORD * sizeof(*taken));
	av->taken = taken;
	av->room = room;
	for (uint32_t i = 0; i < room; i++)
		buckets[i] = UFI_AV_NONE;
	for (uint32_t i = 0; i < av->n; i++)
		if (entries[i].used)
			av_link(av, i);
	return 0;
}

/** Take the lowest free index. @return 0, -FI_ENOMEM. */
static int av_index(struct ufi_av *av, uint32_t *out)
{
	uint32_t i;

	while (av->lowest < av->room / WORD && av->taken[av->lowest] == UINT64_MAX)
		av->lowest++;
	if (av->lowest == av->room / WORD && (av->room > UINT32_MAX / 4 || av_resize(av, av->room * 2)))
		return -FI_ENOMEM;
	i = av->lowest * WORD + (uint32_t)__builtin_ctzll(~av->taken[av->lowest]);
	av->taken[av->lowest] |= 1ull << i % WORD;
	av->n = i < av->n ? av->n : i + 1;
	av->entries[i] = (struct ufi_av_entry){0};
	*out = i;
	return 0;
}

/** Add an address. @return 0, -FI_ENOMEM. */
static int av_add(struct ufi_av *av, const struct nic_rdm_addr *addr, fi_addr_t *out)
{
	uint32_t i;
	int rc = av->share ? ufi_share_add(av->share, addr, &i) : av_index(av, &i);

	if (rc)
		return rc;
	*out = i;
	if (av->share) {
		ufi_av_follow(av);
		return i < av->n && av->entries[i].used ? 0 : -FI_ENOMEM;
	}
	av->entries[i] = (struct ufi_av_entry){.addr = *addr, .used = true};
	av_link(av, i);
	return 0;
}

/** Use up an index for an address that cannot be inserted, because with FI_AV_TABLE applications rely on consecutive
 * indices. @return -FI_EINVAL. */
static int av_skip(struct ufi_av *av)
{
	uint32_t i;

	if (av->table && av->share)
		ufi_share_add(av->share, NULL, &i);
	else if (av->table)
		av_index(av, &i);
	return -FI_EINVAL;
}

/** Remove an entry, and make all endpoints forget the peer that they found for it. */
static void av_forget(struct ufi_av *av, uint32_t i)
{
	uint32_t *at = av_bucket(av, &av->entries[i].addr);

	while (*at != i)
		at = &av->entries[*at].next;
	*at = av->entries[i].next;
	av->entries[i].used = false;
	for (struct ufi_core *core = av->endpoints; core; core = core->next_of_av)
		ufi_ep_forget(core, i);
}

static void av_drop(struct ufi_av *av, uint32_t i)
{
	av_forget(av, i);
	if (av->share) { /* the index is not freed: other processes may still use it */
		ufi_share_remove(av->share, i);
		return;
	}
	av->taken[i / WORD] &= ~(1ull << i % WORD);
	av->lowest = i / WORD < av->lowest ? i / WORD : av->lowest;
}

/* ---- shared tables ---------------------------------------------------------------------------------------- */

static bool addr_usable(const struct ufi_av *av, const struct nic_rdm_addr *addr)
{
	return ufi_gid_is_ipv4(&addr->gid) == ufi_gid_is_ipv4(&av->domain->device.gid) && !ufi_addr_is_any(addr) &&
	       addr->port != 0 && addr->port <= NIC_SERVICE_PORT_MAX;
}

/** Copy an entry of the shared table, written by this or another process, to the private table. @return false: the
 * entry is not written yet, or no memory. */
static bool av_adopt(struct ufi_av *av, uint32_t i)
{
	struct nic_rdm_addr addr;
	enum ufi_share_state state = ufi_share_at(av->share, i, &addr);
	uint32_t room = av->room;

	while (room <= i)
		room *= 2;
	if (state != UFI_SHARE_NAMES || !addr_usable(av, &addr))
		return state != UFI_SHARE_LATER;
	if (room > av->room && av_resize(av, room))
		return false;
	while (av->n <= i)
		av->entries[av->n++] = (struct ufi_av_entry){0};
	av->entries[i] = (struct ufi_av_entry){.addr = addr, .used = true};
	av_link(av, i);
	for (struct ufi_core *core = av->endpoints; core; core = core->next_of_av)
		ufi_ep_meet(core, i);
	return true;
}

void ufi_av_follow(struct ufi_av *av)
{
	uint32_t n = ufi_share_count(av->share), removals = ufi_share_removals(av->share);
	struct nic_rdm_addr addr;
	bool all = true;

	if (av->following)
		return; /* a recursive call: av_adopt and av_forget call endpoints, which look up addresses */
	av->following = true;
	for (uint32_t i = av->pending; i < n; i++) {
		if (i >= av->n || !av->entries[i].used)
			all = av_adopt(av, i) && all;
		if (all)
			av->pending = i + 1;
	}
	for (uint32_t i = 0; removals != av->removals && i < av->n; i++)
		if (av->entries[i].used && ufi_share_at(av->share, i, &addr) == UFI_SHARE_NOBODY)
			av_forget(av, i);
	av->removals = removals;
	av->following = false;
}

/* ---- calls ----------------------------------------------------------------------------------------------- */

static bool addr_parse(const struct ufi_av *av, const void *sockaddr, struct nic_rdm_addr *addr)
{
	bool ipv4 = ufi_gid_is_ipv4(&av->domain->device.gid);
	size_t len = ipv4 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);

	return ufi_addr_from_sockaddr(sockaddr, len, addr) && addr_usable(av, addr);
}

static void av_report(struct ufi_av *av, size_t index, int err, void *context)
{
	struct fi_eq_err_entry error = {
		.fid = &av->av.fid, .context = context, .data = index, .err = err, .prov_errno = err};

	ufi_eq_put_error(av->eq, &error);
}

static int av_insert(struct fid_av *fid, const void *addr, size_t count, fi_addr_t *fi_addr, uint64_t flags,
		     void *context)
{
	struct ufi_av *av = av_of(fid);
	size_t size =
		ufi_gid_is_ipv4(&av->domain->device.gid) ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	int *errors = flags & FI_SYNC_ERR ? context : NULL;
	struct nic_rdm_addr one;
	fi_addr_t at;
	size_t done = 0;
	int rc;

	if (flags & ~(FI_MORE | FI_SYNC_ERR) || (count && !addr) || (flags & FI_SYNC_ERR && (av->async || !context)))
		return -FI_EINVAL;
	if (av->read_only)
		return -FI_EACCES;
	if (av->async && !av->eq)
		return -FI_ENOEQ;
	if (!ufi_enter(av->domain))
		return -FI_EIO;
	for (size_t i = 0; i < count; i++) {
		rc = addr_parse(av, (const char *)addr + i * size, &one) ? av_add(av, &one, &at) : av_skip(av);
		for (struct ufi_core *core = rc ? NULL : av->endpoints; core; core = core->next_of_av)
			ufi_ep_meet(core, at);
		done += rc == 0;
		if (fi_addr)
			fi_addr[i] = rc ? FI_ADDR_NOTAVAIL : at;
		if (errors)
			errors[i] = -rc;
		if (rc && av->async)
			av_report(av, i, -rc, context);
	}
	ufi_leave(av->domain);
	if (av->async) {
		struct fi_eq_entry entry = {.fid = &av->av.fid, .context = context, .data = done};

		return ufi_eq_put(av->eq, FI_AV_COMPLETE, &entry, sizeof(entry));
	}
	return (int)done;
}

static int av_remove(struct fid_av *fid, fi_addr_t *fi_addr, size_t count, uint64_t flags)
{
	struct ufi_av *av = av_of(fid);
	int rc = 0;

	if (flags || (count && !fi_addr))
		return -FI_EINVAL;
	if (av->read_only)
		return -FI_EACCES;
	if (!ufi_enter(av->domain))
		return -FI_EIO;
	for (size_t i = 0; i < count; i++) {
		if (ufi_av_at(av, fi_addr[i]))
			av_drop(av, (uint32_t)fi_addr[i]);
		else
			rc = -FI_EINVAL;
	}
	ufi_leave(av->domain);
	return rc;
}

static int av_lookup(struct fid_av *fid, fi_addr_t fi_addr, void *addr, size_t *addrlen)
{
	struct ufi_av *av = av_of(fid);
	const struct nic_rdm_addr *found;
	struct nic_rdm_addr copy;

	if (!ufi_enter(av->domain))
		return -FI_EIO;
	found = ufi_av_at(av, fi_addr);
	if (found)
		copy = *found;
	ufi_leave(av->domain);
	if (!found)
		return -FI_EINVAL;
	ufi_addr_copy_out(&copy, addr, addrlen); /* truncated to addrlen */
	return 0;
}

static const char *av_straddr(struct fid_av *fid, const void *addr, char *buf, size_t *len)
{
	struct nic_rdm_addr parsed;
	int need;

	if (!ufi_addr_from_sockaddr(addr, sizeof(struct sockaddr_in), &parsed) &&
	    !ufi_addr_from_sockaddr(addr, sizeof(struct sockaddr_in6), &parsed))
		return NULL;
	need = ufi_addr_print(&parsed, buf, buf ? *len : 0);
	*len = (size_t)need + 1;
	return buf;
}

static int av_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct ufi_av *av = container_of(fid, struct ufi_av, av.fid);

	if (bfid->fclass != FI_CLASS_EQ || flags || av->eq)
		return -FI_EINVAL;
	av->eq = container_of(bfid, struct ufi_eq, eq.fid);
	atomic_fetch_add(&av->eq->users, 1);
	return 0;
}

static int av_close(struct fid *fid)
{
	struct ufi_av *av = container_of(fid, struct ufi_av, av.fid);

	if (atomic_load(&av->users))
		return -FI_EBUSY;
	if (av->eq)
		atomic_fetch_sub(&av->eq->users, 1);
	atomic_fetch_sub(&av->domain->users, 1);
	if (av->share)
		ufi_share_close(av->share);
	free(av->entries);
	free(av->buckets);
	free(av->taken);
	free(av);
	return 0;
}

static struct fi_ops av_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = av_close,
	.bind = av_bind,
	.control = ufi_no_control,
	.ops_open = ufi_no_ops_open,
};

static struct fi_ops_av av_ops = {
	.size = offsetof(struct fi_ops_av, av_set),
	.insert = av_insert,
	.insertsvc = ufi_av_insertsvc,
	.insertsym = ufi_av_insertsym,
	.remove = av_remove,
	.lookup = av_lookup,
	.straddr = av_straddr,
};

int ufi_av_open(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **out, void *context)
{
	struct ufi_domain *domain = container_of(fid, struct ufi_domain, domain);
	uint32_t room = 64;
	struct ufi_av *av;
	int rc;

	if (!attr || attr->type > FI_AV_TABLE || attr->rx_ctx_bits ||
	    attr->flags & ~(FI_EVENT | FI_SYMMETRIC | FI_READ) || (attr->flags & FI_READ && !attr->name))
		return -FI_EINVAL;
	while (room < attr->count && room < 1u << 20)
		room *= 2;
	av = calloc(1, sizeof(*av));
	if (!av || av_resize(av, room)) {
		if (av) {
			free(av->entries);
			free(av->buckets);
		}
		free(av);
		return -FI_ENOMEM;
	}
	av->domain = domain;
	rc = attr->name ? ufi_share_open(domain, attr->name, attr->flags & FI_READ, attr->count, &av->share) : 0;
	if (rc) {
		free(av->entries);
		free(av->buckets);
		free(av->taken);
		free(av);
		return rc;
	}
	if (av->share && !attr->map_addr)
		attr->map_addr = ufi_share_map(av->share);
	av->read_only = attr->flags & FI_READ;
	av->async = attr->flags & FI_EVENT;
	av->av.fid.fclass = FI_CLASS_AV;
	av->av.fid.context = context;
	av->av.fid.ops = &av_fid_ops;
	av->av.ops = &av_ops;
	if (attr->type == FI_AV_UNSPEC)
		attr->type = FI_AV_TABLE;
	av->table = attr->type == FI_AV_TABLE;
	atomic_fetch_add(&domain->users, 1);
	*out = &av->av;
	return 0;
}
