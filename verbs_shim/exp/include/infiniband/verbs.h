/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs.h - rdma-core's infiniband/verbs.h followed by the experimental verbs, as programs for Mellanox OFED expect:
 * put the folder above this one before the system's headers, and the program compiles unchanged.
 */
#pragma GCC system_header
#include_next <infiniband/verbs.h>

#include <infiniband/verbs_exp.h>
