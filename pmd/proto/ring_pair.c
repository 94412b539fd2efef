/* SPDX-License-Identifier: BSD-3-Clause */
/* ring_pair.c - a ring in each direction, and a bell: making, handing over, sleeping, waking. */
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ring_pair.h"

enum { FD_IN, FD_OUT, FD_BELL }; /* descriptors handed over, named as their receiver sees them */

static void close_all(const int *fds, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

int ring_pair_create(struct ring_pair *p, int theirs[RING_PAIR_FDS])
{
	int bell[2] = {-1, -1}, rc = 0;
	struct ring_producer in;

	*p = (struct ring_pair){.bell_fd = -1};
	theirs[FD_IN] = ring_create(&p->out);
	theirs[FD_OUT] = ring_create(&in);
	if (theirs[FD_OUT] >= 0)
		p->in.memory = in.memory;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, bell) != 0)
		bell[1] = -errno;
	p->bell_fd = bell[0];
	theirs[FD_BELL] = bell[1];
	for (unsigned i = 0; i < RING_PAIR_FDS && rc == 0; i++)
		rc = theirs[i] < 0 ? theirs[i] : 0;
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

	*p = (struct ring_pair){.bell_fd = fds[FD_BELL]};
	rc = ring_map(&p->in, fds[FD_IN]);
	if (rc == 0)
		rc = ring_map(&out, fds[FD_OUT]);
	if (rc == 0)
		p->out.memory = out.memory;
	close_all(fds, FD_BELL);
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
	close_all(&p->bell_fd, 1);
	*p = (struct ring_pair){.bell_fd = -1};
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

/* If the other side does not read its bell, the queue is full and the bell readable. The raw system calls, because the
 * functions are cancellation points. */
bool ring_pair_wake(struct ring_pair *p)
{
	if (!ring_must_wake(&p->out))
		return false;
	syscall(SYS_sendto, p->bell_fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0);
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

bool ring_pair_drain(struct ring_pair *p)
{
	char scrap[64];

	return syscall(SYS_recvfrom, p->bell_fd, scrap, sizeof(scrap), MSG_DONTWAIT, NULL, NULL) != 0;
}
