/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs.h - rdma-core's infiniband/verbs.h plus the experimental verbs, for programs written for Mellanox OFED.
 * Put the folder that contains infiniband/ before the system's headers, and these programs compile unchanged.
 */
#pragma GCC system_header
#include_next <infiniband/verbs.h>

#include <infiniband/verbs_exp.h>
