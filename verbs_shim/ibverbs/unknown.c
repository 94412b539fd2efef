/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unknown.c - what a function of a newer libibverbs finds in our contexts. With the preload library, a program also
 * has the real library. A function that the preload library lacks is called there, with our objects, and reads its
 * operation from the private part of the object's context. Only the real library knows the layout of that part: it
 * makes one for a context of no driver, all of whose operations fail, in the way that suits their type.
 *
 * State: the private part, which is made once and kept.
 */
#include <dlfcn.h>
#include <stdatomic.h>

#include "real.h"
#include "shim.h"

/* Larger than a context of any release: contexts grow, and only the real library knows the size of its own. */
#define CONTEXT_ROOM 16384

/** _verbs_init_and_alloc_context: allocate a driver's context. @param offset where in it the verbs_context begins */
typedef void *alloc_context_fn(struct ibv_device *device, int cmd_fd, size_t size, struct verbs_context *offset,
			       uint32_t driver_id);

/** The device for which the real library makes a context. It keeps data of its own behind the public structure. */
static union {
	struct ibv_device ibv;
	char room[4096];
} nobody;

/** Find the verbs_context at the start of `room`. It grows at its front, so the real library's can be shorter or longer
 * than ours: its members have a fixed distance from its end, which is marked by members that the real library has set.
 * @return its `priv`, or NULL. */
static struct verbs_ex_private *private_in(char *room)
{
	const size_t tail = offsetof(struct verbs_context, context) - offsetof(struct verbs_context, priv);

	for (size_t at = tail; at + sizeof(struct ibv_context) <= CONTEXT_ROOM; at += sizeof(void *)) {
		const struct verbs_context *v = container_of(room + at, struct verbs_context, context);

		if (v->context.device == &nobody.ibv && v->context.abi_compat == __VERBS_ABI_IS_EXTENDED &&
		    v->sz == at + sizeof(v->context))
			return v->priv;
	}
	return NULL;
}

/** Let the real library make a private part. @return NULL: it cannot, or makes one that is not found. */
static struct verbs_ex_private *private_new(void *library)
{
	alloc_context_fn *alloc = (alloc_context_fn *)dlsym(library, "_verbs_init_and_alloc_context");
	void *room = alloc ? alloc(&nobody.ibv, -1, CONTEXT_ROOM, NULL, 0) : NULL;
	struct verbs_ex_private *priv = room ? private_in(room) : NULL;

	free(room); /* the private part is an allocation of its own */
	return priv;
}

/* Takes no lock: it calls dlsym(), and another thread can call this function with the dynamic linker's lock held, so a
 * lock could deadlock. If two threads make the private part at the same time, one of the two is not used. */
struct verbs_ex_private *shim_unknown_private(void)
{
	static struct verbs_ex_private *_Atomic made;
	static atomic_bool failed;
	struct verbs_ex_private *have = atomic_load(&made), *mine;
	void *library;

	if (have || atomic_load(&failed))
		return have;
	library = shim_real_loaded();
	if (!library)
		return NULL; /* it may be loaded later */
	mine = private_new(library);
	if (!mine) {
		atomic_store(&failed, true);
		return NULL;
	}
	if (atomic_compare_exchange_strong(&made, &have, mine))
		return mine;
	free(mine);
	return have;
}
