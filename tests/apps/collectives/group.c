/* SPDX-License-Identifier: BSD-3-Clause */
/* group.c - see group.h. */
#include "group.h"

#include <errno.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS 60000 /* limit on waiting for the other processes */

void *group_share(size_t size)
{
	void *mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (mem == MAP_FAILED)
		group_die("memory", -errno);
	return mem;
}

void group_die(const char *what, int rc)
{
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, fi_strerror(-rc));
	exit(1);
}

void group_check(int64_t rc, const char *what)
{
	if (rc < 0)
		group_die(what, (int)rc);
}

/* ---- a member ---------------------------------------------------------------------------------------------------- */

static struct fi_info *find(void)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;

	if (!hints)
		group_die("fi_allocinfo", -FI_ENOMEM);
	hints->fabric_attr->prov_name = strdup("uroce");
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_MSG | FI_TAGGED | FI_ATOMIC | FI_TRIGGER;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	group_check(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info), "fi_getinfo");
	fi_freeinfo(hints);
	return info;
}

/* The endpoint has counters to wait for, and a CQ for requests that ask for completions. Deferred work asks for no
 * completions. */
static void open_endpoint(struct group *g)
{
	struct fi_av_attr av = {.type = FI_AV_TABLE, .count = COLLECTIVE_MAX};
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_UNSPEC};
	struct fi_cntr_attr cntr = {.wait_obj = FI_WAIT_UNSPEC};

	g->info = find();
	group_check(fi_fabric(g->info->fabric_attr, &g->fabric, NULL), "fi_fabric");
	group_check(fi_domain(g->fabric, g->info, &g->domain, NULL), "fi_domain");
	group_check(fi_av_open(g->domain, &av, &g->av, NULL), "fi_av_open");
	group_check(fi_cq_open(g->domain, &cq, &g->cq, NULL), "fi_cq_open");
	group_check(fi_cntr_open(g->domain, &cntr, &g->c.done, NULL), "fi_cntr_open");
	group_check(fi_cntr_open(g->domain, &cntr, &g->c.sent, NULL), "fi_cntr_open");
	group_check(fi_endpoint(g->domain, g->info, &g->ep, NULL), "fi_endpoint");
	group_check(fi_ep_bind(g->ep, &g->av->fid, 0), "fi_ep_bind");
	group_check(fi_ep_bind(g->ep, &g->cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
	group_check(fi_enable(g->ep), "fi_enable");
}

void group_open(struct group *g, unsigned rank, struct meeting *m, size_t size)
{
	*g = (struct group){.meeting = m};
	open_endpoint(g);
	group_check(fi_mr_reg(g->domain, m, size, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, rank, 0, &g->mr, NULL),
		    "fi_mr_reg");
	g->c.rank = rank;
	g->c.size = m->size;
	g->c.domain = g->domain;
	g->c.ep = g->ep;
	g->c.memory = (char *)m;
	g->c.base = g->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)m : 0;
	g->c.key = fi_mr_key(g->mr);
	m->address[rank].len = GROUP_NAME;
	group_check(fi_getname(&g->ep->fid, m->address[rank].name, &m->address[rank].len), "fi_getname");
	group_meet(g);
	for (unsigned i = 0; i < m->size; i++)
		if (fi_av_insert(g->av, m->address[i].name, 1, &g->c.peer[i], 0, NULL) != 1)
			group_die("fi_av_insert", -FI_EINVAL);
}

void group_meet(struct group *g)
{
	const unsigned all = ++g->met * g->meeting->size;

	atomic_fetch_add(&g->meeting->arrived, 1);
	for (unsigned fifths = 0; atomic_load(&g->meeting->arrived) < all; fifths++) {
		if (fifths == 5 * PATIENCE_MS)
			group_die("the others have not come", -FI_ETIMEDOUT);
		usleep(200);
	}
}

void group_close(struct group *g)
{
	group_check(fi_close(&g->ep->fid), "fi_close");
	group_check(fi_close(&g->mr->fid), "fi_close");
	group_check(fi_close(&g->c.done->fid), "fi_close");
	group_check(fi_close(&g->c.sent->fid), "fi_close");
	group_check(fi_close(&g->cq->fid), "fi_close");
	group_check(fi_close(&g->av->fid), "fi_close");
	group_check(fi_close(&g->domain->fid), "fi_close");
	group_check(fi_close(&g->fabric->fid), "fi_close");
	fi_freeinfo(g->info);
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static pid_t start(unsigned rank, struct meeting *m, int (*fn)(unsigned rank, struct meeting *m))
{
	const pid_t parent = getpid();
	pid_t pid = fork();

	if (pid < 0)
		group_die("fork", -errno);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent) /* the parent died before prctl took effect */
		_exit(1);
	exit(fn(rank, m));
}

/** Kill the running processes, and reap them. */
static void end_all(pid_t *pids, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (pids[i])
			kill(pids[i], SIGKILL);
	for (unsigned i = 0; i < n; i++)
		if (pids[i])
			waitpid(pids[i], NULL, 0);
}

/** Reap processes that have ended. @return false: a process failed, and the reason has been printed. */
static bool collect(pid_t *pids, unsigned n, unsigned *left)
{
	int status;

	for (unsigned i = 0; i < n; i++) {
		if (!pids[i] || waitpid(pids[i], &status, WNOHANG) != pids[i])
			continue;
		pids[i] = 0;
		(*left)--;
		if (status == 0)
			continue;
		fprintf(stderr, "%s: process %u of %u %s %d; the others are killed\n", program_invocation_short_name, i,
			n, WIFSIGNALED(status) ? "was killed by signal" : "has failed with exit code",
			WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
		return false;
	}
	return true;
}

static uint64_t now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec;
}

int group_run(struct meeting *m, unsigned limit_s, int (*fn)(unsigned rank, struct meeting *m),
	      void (*look)(struct meeting *m))
{
	const struct timespec pause = {.tv_nsec = 1000000};
	pid_t pids[COLLECTIVE_MAX] = {0};
	unsigned left = m->size;
	uint64_t end = now_s() + limit_s;

	fflush(stdout);
	for (unsigned i = 0; i < m->size; i++)
		pids[i] = start(i, m, fn);
	while (left > 0) {
		bool late = now_s() > end;

		if (late)
			fprintf(stderr, "%s: not done in %u s; all are killed\n", program_invocation_short_name,
				limit_s);
		if (late || !collect(pids, m->size, &left)) {
			end_all(pids, m->size);
			return 1;
		}
		if (look)
			look(m);
		nanosleep(&pause, NULL);
	}
	return 0;
}
