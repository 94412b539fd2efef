/* SPDX-License-Identifier: BSD-3-Clause */
/* fabric.c - loads the provider (argv[1]) into a program that has the libfabric of a release to come. The provider has
 * to state that release, which libfabric compares with the program's; to have that release allocate its structures; and
 * to leave alone what they have grown by. */
#include <dlfcn.h>
#include <stdio.h>

#include <rdma/fabric.h>
#include <rdma/providers/fi_prov.h>

#include "fabric.h"

static int bad;

static void check(int good, const char *what)
{
	printf("%s: %s\n", good ? "ok" : "FAIL", what);
	bad += !good;
}

static int is_untouched(const void *structure, size_t size)
{
	const unsigned char *tail = (const unsigned char *)structure + size;

	for (size_t i = 0; i < LATER_GROWTH; i++)
		if (tail[i] != LATER_FILL)
			return 0;
	return 1;
}

int main(int argc, char **argv)
{
	/* All versions of the API: with each, no more than 1.17's fields. */
	const uint32_t versions[] = {FI_VERSION(1, 4), FI_VERSION(1, 17), fi_version()};
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	struct fi_provider *(*ini)(void);
	struct fi_provider *provider;
	struct fi_info *info;

	if (!library) {
		printf("FAIL: %s\n", argc > 1 ? dlerror() : "usage: fabric PROVIDER");
		return 1;
	}
	ini = (struct fi_provider * (*)(void)) dlsym(library, "fi_prov_ini");
	provider = ini ? ini() : NULL;
	check(provider && provider->fi_version == fi_version(), "states the running libfabric's version");
	for (size_t i = 0; provider && i < sizeof(versions) / sizeof(versions[0]); i++) {
		if (provider->getinfo(versions[i], NULL, NULL, 0, NULL, &info)) {
			check(0, "getinfo");
			break;
		}
		for (struct fi_info *one = info; one; one = one->next)
			check(is_untouched(one, LATER_SIZE(struct fi_info, nic)) &&
				      is_untouched(one->tx_attr, LATER_SIZE(struct fi_tx_attr, tclass)) &&
				      is_untouched(one->rx_attr, LATER_SIZE(struct fi_rx_attr, iov_limit)) &&
				      is_untouched(one->ep_attr, LATER_SIZE(struct fi_ep_attr, auth_key)) &&
				      is_untouched(one->domain_attr, LATER_SIZE(struct fi_domain_attr, tclass)) &&
				      is_untouched(one->fabric_attr, LATER_SIZE(struct fi_fabric_attr, api_version)),
			      "an entry of fi_getinfo()");
		fi_freeinfo(info);
	}
	return bad != 0;
}
