/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.h - sleeping until a queue or counter has an event (wait.c), or until any object of a wait set has one
 * (waitset.c). Private to verbs_shim/libfabric.
 */
#ifndef UFI_WAIT_H
#define UFI_WAIT_H

#include <rdma/fi_eq.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct ufi_fabric;
struct ufi_waitset;

/** Wait state of a queue or counter, guarded by the lock of the queue or counter. Wait sets use only obj and fd. */
struct ufi_wait {
	enum fi_wait_obj obj;
	int fd;			 /* eventfd for applications that wait by their own means; -1: not requested yet */
	struct ufi_waitset *set; /* the wait set; NULL: none */
	bool armed;		 /* a thread or the application waits: the next event must wake it */
	uint64_t from;		 /* for a counter: smaller values wake nobody */
	atomic_uint wakes;	 /* number of wake-ups; also the futex word that threads sleep on */
	atomic_uint sleepers;	 /* number of threads that sleep on `wakes` now */
};

/** Initialize the wait state. @return 0, -FI_ENOSYS: unsupported wait object. */
int ufi_wait_init(struct ufi_wait *wait, enum fi_wait_obj obj);
void ufi_wait_fini(struct ufi_wait *wait);
/** Whether threads sleep on this kind of wait object. If not, they poll; for completion queues with FI_WAIT_NONE,
 * calls that wait fail. */
static inline bool ufi_wait_sleeps(const struct ufi_wait *wait)
{
	return wait->obj == FI_WAIT_FD || wait->obj == FI_WAIT_UNSPEC || wait->obj == FI_WAIT_SET;
}
/** Clear the descriptor and let the next ufi_wait_signal make it readable. The object's lock is held, unless the object
 * is being opened. @return 0; -FI_EINVAL: threads do not sleep on this kind of object; or a negative errno. */
int ufi_wait_arm(struct ufi_wait *wait);
/** Prepare to sleep: pass the return value to ufi_wait_sleep(). The next ufi_wait_signal() ends this sleep, even if it
 * comes before the sleep begins. The object's lock is held. */
unsigned ufi_wait_begin(struct ufi_wait *wait);
/** As ufi_wait_begin(), but for a counter: only errors, and values from `value` on, must end the sleep. The counter's
 * lock is held. */
unsigned ufi_wait_begin_from(struct ufi_wait *wait, uint64_t value);
void ufi_wait_wake(struct ufi_wait *wait);
static inline void ufi_wait_signal(struct ufi_wait *wait)
{
	if (wait->armed)
		ufi_wait_wake(wait);
}
/** Called when a counter has changed to `value`. The counter's lock is held. */
static inline void ufi_wait_signal_value(struct ufi_wait *wait, uint64_t value)
{
	if (wait->armed && value >= wait->from)
		ufi_wait_wake(wait);
}
/** fi_control's FI_GETWAIT and FI_GETWAITOBJ. The object's lock is held. */
int ufi_wait_control(struct ufi_wait *wait, int command, void *arg);
/** Convert a timeout in ms to an absolute deadline in ns. A negative timeout gives a deadline that never passes. */
uint64_t ufi_deadline(int timeout_ms);
/** Sleep after ufi_wait_begin() on an object of this fabric. No lock is held. If threads do not sleep on this kind
 * of object, only check the deadline. @return 0: there may be an event, check; -FI_ETIMEDOUT; -FI_EINTR. */
int ufi_wait_sleep(struct ufi_wait *wait, struct ufi_fabric *fabric, unsigned begun, uint64_t deadline_ns);

/** One interval of a sleep. A sleep can consist of several intervals. */
struct ufi_nap {
	struct timespec time, *timeout; /* timeout points to time; NULL: sleep until woken */
	bool looks;			/* the interval ends before the deadline: make progress, then sleep again */
};

/** Set the length of the next interval. No lock held. @return false: the deadline has passed. */
bool ufi_nap_begin(struct ufi_nap *nap, struct ufi_fabric *fabric, uint64_t deadline_ns);

/* ---- wait sets (waitset.c) ------------------------------------------------------------------------------- */

int ufi_waitset_open(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **out);
struct ufi_waitset *ufi_waitset_of(struct fid *fid);
/** Add a queue or counter to the set if its wait object is FI_WAIT_SET; otherwise do nothing. The queue or counter must
 * be fully initialized. @return 0; -FI_EINVAL: no set, or a set of another fabric; -FI_ENOMEM; or a negative errno. */
int ufi_waitset_add(struct fid_wait *set, const struct ufi_fabric *fabric, struct fid *object, struct ufi_wait *wait);
/** Remove an object that is being closed from its set, if it has one. */
void ufi_waitset_remove(struct ufi_wait *wait, const struct fid *object);
/** Arm the members, up to the first that has an event (ufi_trywait). @return 0; -FI_EAGAIN: a member has an event; or
 * another negative fi_errno. */
int ufi_waitset_trywait(struct ufi_waitset *set);

#endif
