/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.c - sleeping until a queue or counter has an event. A thread arms the object just before it sleeps, so events
 * cost nothing extra while threads poll. Threads that wait in the provider sleep on a futex. Each wake-up increments
 * the futex word and wakes all threads; those that find no event sleep again. Applications that wait by their own means
 * get an eventfd.
 *
 * A spurious wake-up is harmless, a lost one is not. Therefore an object in use is armed, and its descriptor drained,
 * only with the object's lock held and no event pending.
 *
 * If the engine has no thread that moves packets, a sleeper wakes every LOOK_NS to make progress, and does not sleep at
 * all while packets move.
 */
#include <limits.h>
#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "provider.h"

#define NS_PER_MS 1000000ull
#define LOOK_NS	  NS_PER_MS

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

/* Create the descriptor on first use: applications open thousands of queues, and sleep on few. */
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
	wait->from = 0;
	while (read(wait->fd, &count, sizeof(count)) < 0 && errno == EINTR)
		;
	return 0;
}

unsigned ufi_wait_begin(struct ufi_wait *wait)
{
	return ufi_wait_begin_from(wait, 0);
}

unsigned ufi_wait_begin_from(struct ufi_wait *wait, uint64_t value)
{
	if (!wait->armed || value < wait->from)
		wait->from = value;
	wait->armed = true;
	return atomic_load(&wait->wakes);
}

void ufi_wait_wake(struct ufi_wait *wait)
{
	uint64_t one = 1;

	wait->armed = false;
	atomic_fetch_add(&wait->wakes, 1);
	if (atomic_load(&wait->sleepers)) /* else skip the call: a thread about to sleep sees the new `wakes` */
		syscall(SYS_futex, &wait->wakes, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
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
		if (wait->set) /* applications sleep on the descriptor of the wait set instead */
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

bool ufi_nap_begin(struct ufi_nap *nap, struct ufi_fabric *fabric, uint64_t deadline_ns)
{
	uint64_t now_ns = deadline_ns == UINT64_MAX ? 0 : pmd_clock_monotonic_ns();
	uint64_t ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;

	if (!ns)
		return false;
	nap->looks = pmd_progress_is_inline() && ns > LOOK_NS;
	if (nap->looks)
		ns = ufi_fabric_moves(fabric) ? 0 : LOOK_NS;
	nap->time.tv_sec = (time_t)(ns / 1000000000u);
	nap->time.tv_nsec = (long)(ns % 1000000000u);
	nap->timeout = nap->looks || deadline_ns != UINT64_MAX ? &nap->time : NULL;
	return true;
}

int ufi_wait_sleep(struct ufi_wait *wait, struct ufi_fabric *fabric, unsigned begun, uint64_t deadline_ns)
{
	struct ufi_nap nap;
	int err;

	if (!ufi_nap_begin(&nap, fabric, deadline_ns))
		return -FI_ETIMEDOUT;
	if (!ufi_wait_sleeps(wait))
		return 0;
	atomic_fetch_add(&wait->sleepers, 1);
	err = syscall(SYS_futex, &wait->wakes, FUTEX_WAIT_PRIVATE, begun, nap.timeout, NULL, 0) ? errno : 0;
	atomic_fetch_sub(&wait->sleepers, 1);
	if (err == ETIMEDOUT)
		return nap.looks ? 0 : -FI_ETIMEDOUT;
	return err == EINTR ? -FI_EINTR : 0;
}
