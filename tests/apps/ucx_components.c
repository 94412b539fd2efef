/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_components.c - prints the components of UCX's UCT, a line each, and asks those that have no connection manager
 * for one, which they have to refuse. It is not linked with UCP.
 *
 * usage: ucx_components [LIBRARY]; LIBRARY is loaded first.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <uct/api/uct.h>

/** Open the connection manager of a component that has none. @return whether it is refused. */
static int refuses_cm(uct_component_h component)
{
	uct_cm_h cm;

	return uct_cm_open(component, NULL, NULL, &cm) == UCS_ERR_UNSUPPORTED;
}

int main(int argc, char **argv)
{
	uct_component_h *components;
	unsigned n;

	if (argc > 1 && !dlopen(argv[1], RTLD_NOW | RTLD_LOCAL)) {
		printf("FAILED: %s\n", dlerror());
		return 1;
	}
	if (uct_query_components(&components, &n) != UCS_OK) {
		printf("FAILED: uct_query_components\n");
		return 1;
	}
	for (unsigned i = 0; i < n; i++) {
		uct_component_attr_t attr = {.field_mask =
						     UCT_COMPONENT_ATTR_FIELD_NAME | UCT_COMPONENT_ATTR_FIELD_FLAGS};

		if (uct_component_query(components[i], &attr) != UCS_OK)
			continue;
		printf("component %s\n", attr.name);
		if (!(attr.flags & UCT_COMPONENT_FLAG_CM) && !refuses_cm(components[i])) {
			printf("FAILED: uct_cm_open of %s\n", attr.name);
			return 1;
		}
	}
	uct_release_component_list(components);
	return 0;
}
