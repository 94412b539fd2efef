/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * points.h - points of the protocols between processes at which a test has a process die or stop, or a call of it fail
 * (pmd-internal).
 *
 * PMD_POINT(name) names one of points.def. It is nothing at all, but in the objects that are built for that test, with
 * UROCE_TEST_POINTS defined: there the process that passes a point for the n-th time ends or stops itself, or the
 * next call that its thread makes fails (tests/apps/failing), if the environment says UROCE_TEST_POINT=name:n:kill,
 * name:n:stop or name:n:fail.
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
/** As UROCE_TEST_POINT would say, for a process that is not started but forked. */
void pmd_point_arm(const char *value);
#define PMD_POINT(name) pmd_point_pass(PMD_POINT_##name)
#else
#define PMD_POINT(name) ((void)0)
#endif
#endif
