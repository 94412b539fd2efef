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

/** The device of that context. The real library keeps data of its own behind the public structure. */
static union {
	struct ibv_device ibv;
	char room[4096];
} nobody;

/** Find the verbs_context at the start of `room`. Its members have a fixed distance from its end, which is marked by
 * the members that the real library has set. */
static struct verbs_context *context_in(char *room)
{
	for (size_t at = offsetof(struct verbs_context, context); at + sizeof(struct ibv_context) <= CONTEXT_ROOM;
	     at += sizeof(void *)) {
		struct verbs_context *v = container_of(room + at, struct verbs_context, context);

		if (v->context.device == &nobody.ibv && v->context.abi_compat == __VERBS_ABI_IS_EXTENDED &&
		    v->sz == at + sizeof(v->context))
			return v;
	}
	return NULL;
}

/* Without a lock: another thread that loads a library can call this function with the dynamic linker's lock held. If
 * two threads come here at first, what one of them made is not used. */
struct verbs_ex_private *shim_unknown_private(void)
{
	static struct verbs_context *_Atomic made;
	struct verbs_context *have = atomic_load(&made), *mine = NULL;
	void *handle, *room;
	alloc_context_fn *alloc;

	if (have)
		return have->priv;
	handle = shim_real_loaded();
	alloc = handle ? (alloc_context_fn *)dlsym(handle, "_verbs_init_and_alloc_context") : NULL;
	room = alloc ? alloc(&nobody.ibv, -1, CONTEXT_ROOM, NULL, 0) : NULL;
	if (room)
		mine = context_in(room);
	if (!mine)
		return NULL;
	return atomic_compare_exchange_strong(&made, &have, mine) ? mine->priv : have->priv;
}
