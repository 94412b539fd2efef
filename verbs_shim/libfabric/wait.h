/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.h - sleeping until a queue or a counter has something (wait.c), and on several together (waitset.c). Private to
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

/** Where threads sleep for a queue or a counter. Guarded by the same lock. */
struct ufi_wait {
	enum fi_wait_obj obj;
	int fd;			 /* eventfd, for programs that look at it themselves; -1: nobody has asked for it yet */
	struct ufi_waitset *set; /* NULL: in none */
	bool armed;		 /* somebody is about to sleep: the next event has to wake him */
	uint64_t from;		 /* but of a counter's changes only those to so much */
	atomic_uint wakes;	 /* times that this has happened: what threads sleep on */
	atomic_uint sleepers;	 /* threads that do, at this moment */
};

/** @return 0, -FI_ENOSYS: there is no such wait object. */
int ufi_wait_init(struct ufi_wait *wait, enum fi_wait_obj obj);
void ufi_wait_fini(struct ufi_wait *wait);
/** Whether threads sleep on this kind of object; if not, they may poll (FI_WAIT_YIELD) or do neither (FI_WAIT_NONE). */
static inline bool ufi_wait_sleeps(const struct ufi_wait *wait)
{
	return wait->obj == FI_WAIT_FD || wait->obj == FI_WAIT_UNSPEC || wait->obj == FI_WAIT_SET;
}
/** From here on the next ufi_wait_signal makes the descriptor readable, which it now is not. Lock held.
 *  @return 0, -FI_EINVAL: nobody sleeps on this, or what the system says. */
int ufi_wait_arm(struct ufi_wait *wait);
/** From here on the next ufi_wait_signal ends the sleep of who calls ufi_wait_sleep with what this returns. Lock held. */
unsigned ufi_wait_begin(struct ufi_wait *wait);
/** The same for who only wants to know of a counter that has come to `value`, or counts an error. */
unsigned ufi_wait_begin_from(struct ufi_wait *wait, uint64_t value);
void ufi_wait_wake(struct ufi_wait *wait);
static inline void ufi_wait_signal(struct ufi_wait *wait)
{
	if (wait->armed)
		ufi_wait_wake(wait);
}
/** A counter has changed, and is `value` now. Lock held. */
static inline void ufi_wait_signal_value(struct ufi_wait *wait, uint64_t value)
{
	if (wait->armed && value >= wait->from)
		ufi_wait_wake(wait);
}
/** fi_control's FI_GETWAIT and FI_GETWAITOBJ. Lock held. */
int ufi_wait_control(struct ufi_wait *wait, int command, void *arg);
/** A point in time, from a timeout in ms that is negative for ever. */
uint64_t ufi_deadline(int timeout_ms);
/** Sleep, no lock held, after ufi_wait_begin, on an object of this fabric; who does not sleep only learns whether it is time.
 *  @return 0: there may be something, -FI_ETIMEDOUT, -FI_EINTR. */
int ufi_wait_sleep(struct ufi_wait *wait, struct ufi_fabric *fabric, unsigned begun, uint64_t deadline_ns);

/** How long a thread sleeps at once. */
struct ufi_nap {
	struct timespec time, *timeout; /* NULL: until it is woken */
	bool looks;			/* that this is over does not mean that it is time: he has to make progress */
};

/** No lock held. @return false: no longer, it is time. */
bool ufi_nap_begin(struct ufi_nap *nap, struct ufi_fabric *fabric, uint64_t deadline_ns);

/* ---- wait sets (waitset.c) ------------------------------------------------------------------------------- */

int ufi_waitset_open(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **out);
struct ufi_waitset *ufi_waitset_of(struct fid *fid);
/** A queue or counter that is complete joins, if it is to be waited for so (FI_WAIT_SET). @return 0, -FI_EINVAL: there is no set, or it
 *  is another fabric's, -FI_ENOMEM, or what the system says. */
int ufi_waitset_add(struct fid_wait *set, const struct ufi_fabric *fabric, struct fid *object, struct ufi_wait *wait);
/** It closes, and leaves if it had joined. */
void ufi_waitset_remove(struct ufi_wait *wait, const struct fid *object);
/** fi_trywait of all members. @return 0, -FI_EAGAIN: one has something. */
int ufi_waitset_trywait(struct ufi_waitset *set);

#endif
