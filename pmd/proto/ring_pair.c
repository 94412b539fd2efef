/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring_pair.c - a ring and a bell in each direction: making, handing over, sleeping, waking.
 *
 * A process that rings too often, or takes the other side's rings off the bell, harms only itself: no bell is shared by
 * two functions, and neither side waits for a ring without looking at its ring now and then.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "ring_pair.h"

enum { FD_IN, FD_OUT, FD_RING, FD_WAIT }; /* descriptors handed over, named as their receiver sees them */

static int bell_make(void)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	return fd < 0 ? -errno : fd;
}

static void close_all(const int *fds, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

int ring_pair_create(struct ring_pair *p, int theirs[RING_PAIR_FDS])
{
	struct ring_producer in;
	int *const made[] = {&theirs[FD_IN], &theirs[FD_OUT], &theirs[FD_RING], &theirs[FD_WAIT]};
	int rc = 0;

	*p = (struct ring_pair){.ring_fd = -1, .wait_fd = -1};
	for (unsigned i = 0; i < RING_PAIR_FDS; i++)
		*made[i] = -1;
	theirs[FD_IN] = ring_create(&p->out);
	theirs[FD_OUT] = theirs[FD_IN] >= 0 ? ring_create(&in) : -ENOMEM;
	if (theirs[FD_OUT] >= 0)
		p->in.memory = in.memory;
	theirs[FD_RING] = bell_make();
	theirs[FD_WAIT] = bell_make();
	for (unsigned i = 0; i < RING_PAIR_FDS && rc == 0; i++)
		rc = theirs[i] < 0 ? theirs[i] : 0;
	if (rc == 0) {
		p->wait_fd = fcntl(theirs[FD_RING], F_DUPFD_CLOEXEC, 0);
		p->ring_fd = fcntl(theirs[FD_WAIT], F_DUPFD_CLOEXEC, 0);
		if (p->wait_fd < 0 || p->ring_fd < 0)
			rc = -errno;
	}
	if (rc != 0) {
		close_all(theirs, RING_PAIR_FDS);
		ring_pair_close(p);
	}
	return rc;
}

int ring_pair_map(struct ring_pair *p, const int fds[RING_PAIR_FDS])
{
	struct ring_consumer out;
	int rc;

	*p = (struct ring_pair){.ring_fd = fds[FD_RING], .wait_fd = fds[FD_WAIT]};
	rc = ring_map(&p->in, fds[FD_IN]);
	if (rc == 0)
		rc = ring_map(&out, fds[FD_OUT]);
	if (rc == 0)
		p->out.memory = out.memory;
	close_all(fds, FD_RING);
	if (rc != 0)
		ring_pair_close(p);
	return rc;
}

void ring_pair_close(struct ring_pair *p)
{
	if (p->in.memory)
		ring_unmap(p->in.memory);
	if (p->out.memory)
		ring_unmap(p->out.memory);
	ring_pair_abandon(p);
}

void ring_pair_abandon(struct ring_pair *p)
{
	close_all((const int[]){p->ring_fd, p->wait_fd}, 2);
	*p = (struct ring_pair){.ring_fd = -1, .wait_fd = -1};
}

int ring_pair_send(struct ring_pair *p, const uint8_t *packet, uint32_t len)
{
	uint8_t *place;
	int room = ring_reserve(&p->out, &place);

	if (room != 1)
		return room;
	memcpy(place, packet, len);
	ring_commit(&p->out, len, 0);
	return 1;
}

bool ring_pair_wake(struct ring_pair *p)
{
	const uint64_t one = 1;

	if (!ring_must_wake(&p->out))
		return false;
	syscall(SYS_write, p->ring_fd, &one, sizeof(one)); /* not write(), which is a cancellation point */
	return true;
}

bool ring_pair_sleep(struct ring_pair *p)
{
	p->asleep = true;
	ring_set_asleep(&p->in, true);
	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* (S) in ring.h */
	if (!ring_has_entry(&p->in))
		return true;
	ring_pair_awake(p);
	return false;
}

void ring_pair_awake(struct ring_pair *p)
{
	p->asleep = false;
	ring_set_asleep(&p->in, false);
}

void ring_pair_ring_self(struct ring_pair *p)
{
	const uint64_t one = 1;

	syscall(SYS_write, p->wait_fd, &one, sizeof(one));
}

/* Read with RWF_NOWAIT, because the other side may have made the eventfd blocking. */
void ring_pair_drain(struct ring_pair *p)
{
	uint64_t count;
	struct iovec iov = {&count, sizeof(count)};

	syscall(SYS_preadv2, p->wait_fd, &iov, 1, -1L, -1L, RWF_NOWAIT);
}
