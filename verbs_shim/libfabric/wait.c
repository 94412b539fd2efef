/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.c - sleeping until a queue or a counter has something. An eventfd is written to only when somebody has said that he is
 * about to sleep on it (armed), so that who polls pays nothing.
 *
 * Several may sleep on one: all wake, and who finds nothing arms again. A wake-up for nothing is harmless, a lost one is not:
 * an object is armed, and its descriptor emptied, only with its lock held and nothing there.
 */
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "provider.h"

#define NS_PER_MS 1000000ull

int ufi_wait_init(struct ufi_wait *wait, enum fi_wait_obj obj)
{
	*wait = (struct ufi_wait){.obj = obj, .fd = -1};
	switch (obj) {
	case FI_WAIT_NONE:
	case FI_WAIT_UNSPEC:
	case FI_WAIT_FD:
	case FI_WAIT_YIELD:
	case FI_WAIT_SET:
		return 0;
	default:
		return -FI_ENOSYS;
	}
}

/* Programs open thousands of queues that they might sleep on: the descriptor is made when somebody does. */
static int wait_open(struct ufi_wait *wait)
{
	if (!ufi_wait_sleeps(wait))
		return -FI_EINVAL;
	if (wait->fd < 0)
		wait->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return wait->fd < 0 ? -errno : 0;
}

void ufi_wait_fini(struct ufi_wait *wait)
{
	if (wait->fd >= 0)
		close(wait->fd);
	wait->fd = -1;
}

int ufi_wait_arm(struct ufi_wait *wait)
{
	uint64_t count;
	int rc = wait_open(wait);

	if (rc)
		return rc;
	wait->armed = true;
	if (wait->sleepers) /* it may be readable for one of them, who has yet to look */
		return 0;
	while (read(wait->fd, &count, sizeof(count)) < 0 && errno == EINTR)
		;
	return 0;
}

void ufi_wait_wake(struct ufi_wait *wait)
{
	uint64_t one = 1;

	wait->armed = false;
	if (wait->fd < 0)
		return;
	while (write(wait->fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

int ufi_wait_control(struct ufi_wait *wait, int command, void *arg)
{
	int rc;

	if (!arg)
		return -FI_EINVAL;
	switch (command) {
	case FI_GETWAIT:
		if (wait->set) /* which has the descriptor that programs are to sleep on */
			return -FI_EINVAL;
		rc = wait_open(wait);
		if (!rc)
			*(int *)arg = wait->fd;
		return rc;
	case FI_GETWAITOBJ:
		*(enum fi_wait_obj *)arg = wait->obj == FI_WAIT_UNSPEC ? FI_WAIT_FD : wait->obj;
		return 0;
	default:
		return -FI_ENOSYS;
	}
}

uint64_t ufi_deadline(int timeout_ms)
{
	return timeout_ms < 0 ? UINT64_MAX : pmd_clock_monotonic_ns() + (uint64_t)timeout_ms * NS_PER_MS;
}

int ufi_wait_sleep(const struct ufi_wait *wait, uint64_t deadline_ns)
{
	struct pollfd pfd = {.fd = wait->fd, .events = POLLIN};
	uint64_t now_ns = deadline_ns == UINT64_MAX ? 0 : pmd_clock_monotonic_ns();
	struct timespec left, *timeout = NULL;
	int n;

	if (!ufi_wait_sleeps(wait))
		return now_ns < deadline_ns ? 0 : -FI_ETIMEDOUT;
	if (deadline_ns != UINT64_MAX) {
		uint64_t ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;

		left.tv_sec = (time_t)(ns / 1000000000u);
		left.tv_nsec = (long)(ns % 1000000000u);
		timeout = &left;
	}
	n = ppoll(&pfd, 1, timeout, NULL);
	if (n < 0)
		return -errno;
	return n ? 0 : -FI_ETIMEDOUT;
}
