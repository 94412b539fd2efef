/* SPDX-License-Identifier: BSD-3-Clause */
/* sanitizer.h - which sanitizer a test was built with, if that limits what the test can do. */
#ifndef TEST_SANITIZER_H
#define TEST_SANITIZER_H

#if defined(__SANITIZE_THREAD__)
#define TEST_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TEST_TSAN 1
#endif
#endif
#ifndef TEST_TSAN
#define TEST_TSAN 0
#endif

/** Skip a test that ThreadSanitizer cannot handle. `why` completes "ThreadSanitizer ...". */
#define SKIP_UNDER_TSAN(why)                                                                                           \
	do {                                                                                                           \
		if (TEST_TSAN) {                                                                                       \
			print_message("ThreadSanitizer %s\n", why);                                                    \
			skip();                                                                                        \
		}                                                                                                      \
	} while (0)

/** Skip a test whose forked child starts threads: ThreadSanitizer ends such a child, because the child has inherited
 *  ThreadSanitizer's table of the parent's threads. */
#define SKIP_THREADS_AFTER_FORK() SKIP_UNDER_TSAN("ends a forked child that starts threads")

#endif
