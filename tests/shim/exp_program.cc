// SPDX-License-Identifier: BSD-3-Clause
// exp_program.cc - a C++ program as written for Mellanox OFED: includes verbs.h only, asks what the device
// can do, and goes on with that. Exit code 0 if these are uroce's capabilities.
#include <infiniband/verbs.h>

#include <cstdio>
#include <cstring>

static int ask(ibv_context *context)
{
	ibv_exp_device_attr attr;

	std::memset(&attr, 0, sizeof(attr));
	attr.comp_mask = IBV_EXP_DEVICE_ATTR_RESERVED - 1;
	attr.comp_mask_2 = IBV_EXP_DEVICE_ATTR_RESERVED_2 - 1;

	int err = ibv_exp_query_device(context, &attr);

	if (err) {
		std::printf("no experimental verbs: %s\n", std::strerror(err));
		return 1;
	}
	std::printf("masked atomics of sizes 0x%llx\n",
		    static_cast<unsigned long long>(attr.masked_atomic.masked_log_atomic_arg_sizes));

	ibv_exp_dct_init_attr dct;

	std::memset(&dct, 0, sizeof(dct));
	if (ibv_exp_create_dct(context, &dct) || errno != ENOSYS)
		return 1;
	return attr.exp_device_cap_flags & IBV_EXP_DEVICE_EXT_MASKED_ATOMICS ? 0 : 1;
}

int main()
{
	ibv_device **devices = ibv_get_device_list(nullptr);

	if (!devices || !devices[0])
		return 1;

	ibv_context *context = ibv_open_device(devices[0]);
	int result = context ? ask(context) : 1;

	if (context)
		ibv_close_device(context);
	ibv_free_device_list(devices);
	return result;
}
