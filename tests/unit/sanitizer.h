/* SPDX-License-Identifier: BSD-3-Clause */
/* sanitizer.h - which sanitizer a test was built with, where it makes a difference to what can be tested. */
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

/** In a test that the sanitizer cannot follow: `why`, a sentence. */
#define SKIP_UNDER_TSAN(why)                                                                                           \
	do {                                                                                                           \
		if (TEST_TSAN) {                                                                                       \
			print_message("ThreadSanitizer %s\n", why);                                                    \
			skip();                                                                                        \
		}                                                                                                      \
	} while (0)

/** Of threads of a forked child: all are in one table, which the child inherits. */
#define SKIP_THREADS_AFTER_FORK() SKIP_UNDER_TSAN("ends a forked child that starts threads")

#endif
