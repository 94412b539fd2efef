/* SPDX-License-Identifier: BSD-3-Clause */
/* main.c - a process of a mesh: its board, its device, and its loop, which polls for a while and then sleeps. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "mesh.h"

#define CQ_ENTRIES 65536
#define POLLS	   64 /* empty polls before the loop sleeps */

static volatile sig_atomic_t ended;

static void on_term(int sig)
{
	(void)sig;
	ended = 1;
}

void die(const char *format, ...)
{
	va_list args;

	fputs("mesh: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

void wrong(struct mesh *c, const char *format, ...)
{
	va_list args;

	if (c->own->wrong == 0) {
		va_start(args, format);
		vsnprintf(c->own->sentence, sizeof(c->own->sentence), format, args);
		va_end(args);
	}
	board_add(&c->own->wrong, 1);
}

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t dice(struct mesh *c, uint64_t sides)
{
	c->random ^= c->random << 13;
	c->random ^= c->random >> 7;
	c->random ^= c->random << 17;
	return c->random % sides;
}

void board_add(uint64_t *what, uint64_t n)
{
	/* No atomic addition is needed: no other process writes *what. */
	__atomic_store_n(what, *what + n, __ATOMIC_RELAXED);
}

void board_set(uint64_t *what, uint64_t value)
{
	__atomic_store_n(what, value, __ATOMIC_RELEASE);
}

static void board_open(struct mesh *c)
{
	int fd = open(c->board_path, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		die("no board %s: %s", c->board_path, strerror(errno));
	c->board = mmap(NULL, sizeof(*c->board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (c->board == MAP_FAILED)
		die("the board cannot be mapped: %s", strerror(errno));
	close(fd);
	c->own = &c->board->members[c->index];
	memset(c->own, 0, sizeof(*c->own));
}

static void device_open(struct mesh *c)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	c->ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	if (!c->ctx)
		die("the device cannot be opened");
	ibv_free_device_list(list);
	c->pd = ibv_alloc_pd(c->ctx);
	c->channel = ibv_create_comp_channel(c->ctx);
	c->cq = ibv_create_cq(c->ctx, CQ_ENTRIES, NULL, c->channel, 0);
	if (!c->pd || !c->cq || ibv_query_gid(c->ctx, 1, 0, &c->gid) != 0)
		die("no PD, CQ or GID");
	fcntl(c->channel->fd, F_SETFL, O_NONBLOCK);
}

static void device_close(struct mesh *c)
{
	for (uint32_t i = 0; i < c->highest; i++)
		if (c->talks[i])
			talk_destroy(c, c->talks[i]);
	if (ibv_destroy_cq(c->cq) || ibv_destroy_comp_channel(c->channel) || ibv_dealloc_pd(c->pd) ||
	    ibv_close_device(c->ctx))
		die("something of the device is still in use");
}

/** @return whether there were completions. */
static bool completions(struct mesh *c)
{
	struct ibv_wc wc[32];
	int n = ibv_poll_cq(c->cq, 32, wc);

	for (int i = 0; i < n; i++)
		talk_complete(c, &wc[i]);
	return n > 0;
}

static void sleep_until(struct mesh *c, uint64_t when, const sigset_t *awake)
{
	struct pollfd fds[] = {{.fd = c->channel->fd, .events = POLLIN}, {.fd = c->notes_fd, .events = POLLIN}};
	uint64_t now = now_ns(), rest = when > now ? when - now : 0;
	struct timespec t = {.tv_sec = (time_t)(rest / 1000000000u), .tv_nsec = (long)(rest % 1000000000u)};
	struct ibv_cq *cq;
	void *context;

	ibv_req_notify_cq(c->cq, 0);
	if (completions(c) || ended)
		return;
	ppoll(fds, 2, when == UINT64_MAX ? NULL : &t, awake);
	if (fds[0].revents && ibv_get_cq_event(c->channel, &cq, &context) == 0)
		ibv_ack_cq_events(cq, 1);
}

static void loop(struct mesh *c)
{
	unsigned idle = 0;
	sigset_t term, awake;

	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, &awake);
	while (!ended) {
		uint64_t now, talk, call;

		idle = completions(c) ? 0 : idle + 1;
		meet_notes(c);
		now = now_ns();
		talk = talk_all(c, now);
		call = meet_call(c, now);
		if (idle >= POLLS) {
			sleep_until(c, talk < call ? talk : call, &awake);
			idle = 0;
		}
	}
}

int main(int argc, char **argv)
{
	static struct mesh c;

	if (argc != 8)
		die("usage: mesh BOARD INDEX INCARNATION MEMBERS STEADY TIMEOUT FRAIL");
	c.board_path = argv[1];
	c.index = (uint32_t)atoi(argv[2]);
	c.incarnation = strtoull(argv[3], NULL, 10);
	c.members = (uint32_t)atoi(argv[4]);
	c.steady = (uint32_t)atoi(argv[5]);
	c.timeout = (uint8_t)atoi(argv[6]);
	c.frail = (uint8_t)atoi(argv[7]);
	if (c.members > MESH_MAX || c.index >= c.members || c.incarnation == 0)
		die("there is no such member");
	c.random = c.incarnation * 0x9e3779b97f4a7c15u | 1;
	signal(SIGTERM, on_term);
	board_open(&c);
	device_open(&c);
	meet_open(&c);
	board_set(&c.own->incarnation, c.incarnation);
	loop(&c);
	device_close(&c);
	board_set(&c.own->closed, 1);
	return 0;
}
