/* SPDX-License-Identifier: BSD-3-Clause */
/* program.c - a program that was linked with the libibverbs of a release to come (library.c). With an argument, it
 * calls a function that only that release has. */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned index, int *type);
int ibv_of_tomorrow(struct ibv_context *context);

int main(int argc, char **argv)
{
	struct ibv_device **list;
	struct ibv_context *context;
	int n = 0, type = 0;

	(void)argv;
	list = ibv_get_device_list(&n);
	if (n < 1 || strncmp(list[0]->name, "uroce", 5) != 0)
		return 2;
	context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	if (!context || ibv_query_gid_type(context, 1, 0, &type) || type != 1)
		return 3;
	printf("works\n");
	fflush(stdout);
	return argc > 1 ? ibv_of_tomorrow(context) : ibv_close_device(context);
}
