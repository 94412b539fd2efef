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

/** In a test whose forked child starts threads: the sanitizer has them all in one table, which the child inherits. */
#define SKIP_THREADS_AFTER_FORK()                                                                                      \
	do {                                                                                                           \
		if (TEST_TSAN) {                                                                                       \
			print_message("ThreadSanitizer ends a forked child that starts threads\n");                    \
			skip();                                                                                        \
		}                                                                                                      \
	} while (0)

/** In a test that cancels threads which take locks on their way out. */
#define SKIP_LOCKS_OF_THE_CANCELLED()                                                                                  \
	do {                                                                                                           \
		if (TEST_TSAN) {                                                                                       \
			print_message("ThreadSanitizer does not see what a cancelled thread locks\n");                 \
			skip();                                                                                        \
		}                                                                                                      \
	} while (0)

#endif
