/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.h - sleeping until a queue or counter has an event (wait.c), or any of several (waitset.c). Private to
 * verbs_shim/libfabric.
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

/** Wait state of a queue or counter, guarded by its lock. */
struct ufi_wait {
	enum fi_wait_obj obj;
	int fd;			 /* eventfd for applications that wait on it themselves; -1: not requested yet */
	struct ufi_waitset *set; /* NULL: not in a set */
	bool armed;		 /* a thread is about to sleep: the next event must wake it */
	uint64_t from;		 /* for a counter: only changes to at least this value */
	atomic_uint wakes;	 /* number of wake-ups; the futex that threads sleep on */
	atomic_uint sleepers;	 /* threads asleep on it now */
};

/** @return 0, -FI_ENOSYS: unsupported wait object. */
int ufi_wait_init(struct ufi_wait *wait, enum fi_wait_obj obj);
void ufi_wait_fini(struct ufi_wait *wait);
/** Whether threads sleep on this kind of object; otherwise they poll (FI_WAIT_YIELD) or cannot wait (FI_WAIT_NONE). */
static inline bool ufi_wait_sleeps(const struct ufi_wait *wait)
{
	return wait->obj == FI_WAIT_FD || wait->obj == FI_WAIT_UNSPEC || wait->obj == FI_WAIT_SET;
}
/** Clear the descriptor and let the next ufi_wait_signal make it readable. Lock held.
 *  @return 0, -FI_EINVAL: threads do not sleep on this object, or a negative errno. */
int ufi_wait_arm(struct ufi_wait *wait);
/** Let the next ufi_wait_signal end an ufi_wait_sleep that is called with the return value. Lock held. */
unsigned ufi_wait_begin(struct ufi_wait *wait);
/** As ufi_wait_begin(), but woken only when the counter reaches `value` or counts an error. Lock held. */
unsigned ufi_wait_begin_from(struct ufi_wait *wait, uint64_t value);
void ufi_wait_wake(struct ufi_wait *wait);
static inline void ufi_wait_signal(struct ufi_wait *wait)
{
	if (wait->armed)
		ufi_wait_wake(wait);
}
/** A counter has changed to `value`. Lock held. */
static inline void ufi_wait_signal_value(struct ufi_wait *wait, uint64_t value)
{
	if (wait->armed && value >= wait->from)
		ufi_wait_wake(wait);
}
/** fi_control's FI_GETWAIT and FI_GETWAITOBJ. Lock held. */
int ufi_wait_control(struct ufi_wait *wait, int command, void *arg);
/** Absolute deadline from a timeout in ms; negative: never. */
uint64_t ufi_deadline(int timeout_ms);
/** Sleep on an object of this fabric after ufi_wait_begin. No lock held. If threads do not sleep on the object,
 *  only check the deadline.
 *  @return 0: there may be an event, -FI_ETIMEDOUT, -FI_EINTR. */
int ufi_wait_sleep(struct ufi_wait *wait, struct ufi_fabric *fabric, unsigned begun, uint64_t deadline_ns);

/** One interval of sleep. */
struct ufi_nap {
	struct timespec time, *timeout; /* NULL: until woken */
	bool looks;			/* on timeout make progress and go on: the deadline has not come */
};

/** Plan the next interval. No lock held. @return false: the deadline has passed. */
bool ufi_nap_begin(struct ufi_nap *nap, struct ufi_fabric *fabric, uint64_t deadline_ns);

/* ---- wait sets (waitset.c) ------------------------------------------------------------------------------- */

int ufi_waitset_open(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **out);
struct ufi_waitset *ufi_waitset_of(struct fid *fid);
/** Add a fully initialized queue or counter to a set, if its wait object is FI_WAIT_SET.
 *  @return 0, -FI_EINVAL: no set, or one of another fabric, -FI_ENOMEM, or a negative errno. */
int ufi_waitset_add(struct fid_wait *set, const struct ufi_fabric *fabric, struct fid *object, struct ufi_wait *wait);
/** Remove an object that closes, if it is in a set. */
void ufi_waitset_remove(struct ufi_wait *wait, const struct fid *object);
/** fi_trywait on all members. @return 0, -FI_EAGAIN: one has an event. */
int ufi_waitset_trywait(struct ufi_waitset *set);

#endif
