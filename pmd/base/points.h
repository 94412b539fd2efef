/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * points.h - test points: places in the protocols between processes at which a test can kill or stop a process, or make
 * its next C library call fail (pmd-internal).
 *
 * PMD_POINT(name) is a point listed in points.def. It compiles to nothing unless UROCE_TEST_POINTS is defined. Only the
 * objects built for these tests define it. The environment variable UROCE_TEST_POINT=name:n:kill, name:n:stop or
 * name:n:fail then selects what happens when the process passes the point for the n-th time: it kills or stops itself,
 * or the thread's next C library call fails (tests/apps/failing).
 */
#ifndef PMD_POINTS_H
#define PMD_POINTS_H

#ifdef UROCE_TEST_POINTS
enum pmd_point {
#define PMD_POINT_IS(name, when, sentence) PMD_POINT_##name,
#include "points.def"
#undef PMD_POINT_IS
};

void pmd_point_pass(enum pmd_point point);
/** Arm a point as UROCE_TEST_POINT=value would. For a process that is forked without exec. */
void pmd_point_arm(const char *value);
#define PMD_POINT(name) pmd_point_pass(PMD_POINT_##name)
#else
#define PMD_POINT(name) ((void)0)
#endif
#endif
