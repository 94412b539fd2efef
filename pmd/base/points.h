/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * points.h - test points in the protocols between processes: a test can kill or stop a process there, or make its next
 * call fail (pmd-internal).
 *
 * PMD_POINT(name) names a point of points.def. It compiles to nothing except in objects built for that test, with
 * UROCE_TEST_POINTS defined: there, with UROCE_TEST_POINT=name:n:kill, name:n:stop or name:n:fail in the environment, a
 * process that passes the point for the n-th time kills or stops itself, or the next call of that thread fails
 * (tests/apps/failing).
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
/** Arm a point as UROCE_TEST_POINT=value would, for a process that is forked without exec. */
void pmd_point_arm(const char *value);
#define PMD_POINT(name) pmd_point_pass(PMD_POINT_##name)
#else
#define PMD_POINT(name) ((void)0)
#endif
#endif
