/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unknown_private.c - the search for the private part of a real library's context (unknown.c), with stand-ins for
 * libraries whose verbs_context is longer or shorter than that of the headers, and for one that has none.
 */
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
/* cmocka.h needs the headers before it. */
#include <cmocka.h>

#include "real.h"

/* The stand-in: the size of its verbs_context is that of ours plus `longer` bytes; `marked`: it can be found. */
static struct {
	ptrdiff_t longer;
	bool marked, loaded;
	unsigned asked;
	void *priv;
} library;

void *_verbs_init_and_alloc_context(struct ibv_device *device, int cmd_fd, size_t size, struct verbs_context *offset,
				    uint32_t driver_id);

void *_verbs_init_and_alloc_context(struct ibv_device *device, int cmd_fd, size_t size, struct verbs_context *offset,
				    uint32_t driver_id)
{
	char *room = calloc(1, size);
	size_t end = sizeof(struct verbs_context) + (size_t)library.longer;
	struct ibv_context *context = (struct ibv_context *)(room + end) - 1;
	const size_t from_end = sizeof(struct verbs_context) - offsetof(struct verbs_context, priv);

	assert_true(!offset && !driver_id && cmd_fd == -1 && end <= size);
	library.asked++;
	library.priv = malloc(64);
	memcpy(room + end - from_end, &library.priv, sizeof(library.priv));
	context->device = device;
	context->abi_compat = __VERBS_ABI_IS_EXTENDED;
	if (library.marked)
		((size_t *)context)[-1] = end;
	return room;
}

void *shim_real_loaded(void)
{
	return library.loaded ? dlopen(NULL, RTLD_NOW) : NULL;
}

/* What is found is kept, so each case has a process of its own. */
static int in_child(ptrdiff_t longer, bool marked)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		library.longer = longer;
		library.marked = marked;
		if (shim_unknown_private())
			_exit(1);
		library.loaded = true; /* later than the first context */

		void *first = shim_unknown_private();

		if (first != (marked ? library.priv : NULL))
			_exit(2);
		_exit(shim_unknown_private() != first || library.asked != 1 ? 3 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void unknown__the_private_part_is_found_in_contexts_of_any_size(void **state)
{
	const ptrdiff_t shortest = -(ptrdiff_t)offsetof(struct verbs_context, priv);

	(void)state;
	for (ptrdiff_t longer = shortest; longer <= 1024; longer += (ptrdiff_t)sizeof(void *))
		assert_int_equal(in_child(longer, true), 0);
}

static void unknown__a_search_that_fails_is_not_repeated(void **state)
{
	(void)state;
	assert_int_equal(in_child(0, false), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unknown__the_private_part_is_found_in_contexts_of_any_size),
		cmocka_unit_test(unknown__a_search_that_fails_is_not_repeated),
	};

	return cmocka_run_group_tests_name("shim_unknown_private", tests, NULL, NULL);
}
