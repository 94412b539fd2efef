/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sharing.c - several threads waiting for the same object, closing objects in a forked child, and how objects affect
 * each other.
 */
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fabric.h"

#define THREADS	   3
#define STEPS	   10
#define FORKS	   40
#define PATIENCE_S 20

/* ---- threads --------------------------------------------------------------------------------------------------- */

struct waiter {
	pthread_t thread;
	struct fid_cq *cq;
	struct fid_cntr *cntr;
	uint64_t threshold;
	atomic_int tid;
	atomic_bool done;
	long rc;
};

static void *wait_cq(void *arg)
{
	struct waiter *w = arg;
	struct fi_cq_tagged_entry entry;

	atomic_store(&w->tid, (int)syscall(SYS_gettid));
	w->rc = fi_cq_sread(w->cq, &entry, 1, NULL, -1);
	atomic_store(&w->done, true);
	return NULL;
}

static void *wait_cntr(void *arg)
{
	struct waiter *w = arg;

	atomic_store(&w->tid, (int)syscall(SYS_gettid));
	w->rc = fi_cntr_wait(w->cntr, w->threshold, -1);
	return NULL;
}

/** @return whether the thread was asleep in ten samples in a row: such a long sleep cannot be a wait for a lock. */
static bool sleeps(const struct waiter *w)
{
	const struct timespec pause = {.tv_nsec = 2000000};
	char path[64], state;
	FILE *f;

	for (unsigned i = 0; i < 10; i++) {
		snprintf(path, sizeof(path), "/proc/self/task/%d/stat", atomic_load(&w->tid));
		f = fopen(path, "r");
		if (!f)
			return false;
		state = fscanf(f, "%*d %*s %c", &state) == 1 ? state : '?';
		fclose(f);
		if (state != 'S')
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}

static void start(struct waiter *w, void *(*wait)(void *))
{
	WANT_OK(pthread_create(&w->thread, NULL, wait, w));
	/* In manual progress the thread polls and never sleeps. */
	while (!atomic_load(&w->tid) || (!sleeps(w) && !getenv("UROCE_PROGRESS")))
		sched_yield();
}

/** Check that the thread ends with `rc`. @return false: the thread still waits, so the rest of the test would be
 * meaningless. */
static bool ends(struct waiter *w, long rc)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_S;
	WANT_OK(pthread_timedjoin_np(w->thread, NULL, &until));
	if (failures)
		return false;
	WANT(w->rc, rc);
	return true;
}

/** One fi_cq_signal wakes all threads that wait for the CQ. A counter wakes every thread whose threshold it has
 * reached. */
void case_threads(struct pair *p)
{
	static struct waiter w[THREADS];
	uint64_t sent = fi_cntr_read(p->a.cntr[SENDS]);

	for (unsigned i = 0; i < THREADS; i++) {
		w[i] = (struct waiter){.cq = p->a.tx};
		start(&w[i], wait_cq);
	}
	WANT_OK(fi_cq_signal(p->a.tx));
	for (unsigned i = 0; i < THREADS; i++) {
		/* With manual progress (UROCE_PROGRESS) the test cannot tell whether the thread waits yet, so repeat
		 * the signal. */
		while (getenv("UROCE_PROGRESS") && !atomic_load(&w[i].done)) {
			WANT_OK(fi_cq_signal(p->a.tx));
			sched_yield();
		}
		if (!ends(&w[i], -FI_EAGAIN))
			return;
	}
	WANT(fi_cq_sread(p->a.tx, &p->done, 1, NULL, 20), -FI_EAGAIN); /* the signal added no completion to the CQ */
	for (unsigned i = 0; i < THREADS; i++) {
		w[i] = (struct waiter){.cntr = p->a.cntr[SENDS], .threshold = sent + 1 + i};
		start(&w[i], wait_cntr);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		WANT_OK(fi_inject(p->a.ep, "x", 1, p->b.addr));
		if (!ends(&w[i], 0))
			return;
	}
	for (unsigned i = 0; i < THREADS; i++) {
		WANT_OK(fi_recv(p->b.ep, p->there, 1, NULL, FI_ADDR_UNSPEC, NULL));
		await(p, p->b.rx);
	}
}

/** @return how often the thread has gone to sleep so far. */
static unsigned long naps(const struct waiter *w)
{
	char path[64], line[128];
	unsigned long n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", atomic_load(&w->tid));
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		(void)sscanf(line, "voluntary_ctxt_switches: %lu", &n);
	if (f)
		fclose(f);
	return n;
}

/** A thread that waits for a counter's value is not woken by smaller values: a chain of deferred work steps through
 * many values. */
void case_steps(struct pair *p)
{
	struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
	struct waiter w = {.threshold = STEPS};
	unsigned long before;

	WANT_OK(fi_cntr_open(p->domain, &attr, &w.cntr, NULL));
	start(&w, wait_cntr);
	before = naps(&w);
	for (unsigned i = 1; i < STEPS && !getenv("UROCE_PROGRESS"); i++) {
		WANT_OK(fi_cntr_add(w.cntr, 1));
		WANT(sleeps(&w), true);
		WANT(naps(&w), before);
	}
	WANT_OK(fi_cntr_set(w.cntr, STEPS));
	if (!ends(&w, 0))
		return;
	/* With manual progress the test cannot tell when the thread has read the error count. */
	if (!getenv("UROCE_PROGRESS")) {
		w = (struct waiter){.cntr = w.cntr, .threshold = 2 * STEPS};
		start(&w, wait_cntr);
		WANT_OK(fi_cntr_adderr(w.cntr, 1));
		if (!ends(&w, -FI_EAVAIL))
			return;
	}
	WANT_OK(fi_close(&w.cntr->fid));
}

/* ---- forks ----------------------------------------------------------------------------------------------------- */

static atomic_bool stop;

/** Write and read events without pause: this thread holds the event queue's lock most of the time. */
static void *write_events(void *arg)
{
	struct fid_eq *eq = arg;
	uint32_t event, data = 0;

	while (!atomic_load(&stop)) {
		fi_eq_write(eq, FI_NOTIFY, &data, sizeof(data), 0);
		fi_eq_read(eq, &event, &data, sizeof(data), 0);
	}
	return NULL;
}

/** Objects that are open while a process forks. */
struct opened {
	struct fid_eq *eq, *member; /* member: a member of the wait set `waits` */
	struct fid_wait *waits;
	struct fid_av *av; /* shared by name with the child */
	struct fid_cntr *cntr;
	struct fid_poll *set;
	struct fid_mr *mr;
};

/** The child of a fork closes the objects that its parent has opened. @return the number of the step that failed; 0:
 * none. */
static int child(const struct opened *o)
{
	uint32_t event, data;
	void *context;

	alarm(PATIENCE_S);
	if (fi_eq_read(o->eq, &event, &data, sizeof(data), 0) != -FI_EIO)
		return 1;
	if (fi_eq_sread(o->eq, &event, &data, sizeof(data), -1, 0) != -FI_EIO)
		return 2;
	fi_poll(o->set, &context, 1);
	if (fi_close(&o->set->fid) || fi_close(&o->eq->fid))
		return 3;
	if (fi_close(&o->mr->fid))
		return 4;
	if (fi_wait(o->waits, -1) != -FI_EIO)
		return 5;
	if (fi_close(&o->member->fid) || fi_close(&o->waits->fid))
		return 6;
	if (fi_close(&o->av->fid))
		return 7;
	return fi_close(&o->cntr->fid) ? 8 : 0;
}

/** The child's own objects work, but none can be made of the parent's. */
static int child_anew(struct pair *p)
{
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_wait *waits;
	struct fid_eq *eq;
	uint32_t data = 7, event;

	alarm(PATIENCE_S);
	if (fi_domain(p->fabric, p->info, &domain, NULL) != -FI_EIO ||
	    fi_eq_open(p->fabric, NULL, &eq, NULL) != -FI_EIO || fi_wait_open(p->fabric, NULL, &waits) != -FI_EIO)
		return 10;
	if (fi_fabric(p->info->fabric_attr, &fabric, NULL) || fi_domain(fabric, p->info, &domain, NULL))
		return 11;
	if (fi_eq_open(fabric, &(struct fi_eq_attr){.flags = FI_WRITE}, &eq, NULL) ||
	    fi_eq_write(eq, FI_NOTIFY, &data, sizeof(data), 0) != sizeof(data) ||
	    fi_eq_read(eq, &event, &data, sizeof(data), 0) != sizeof(data) || data != 7)
		return 12;
	return fi_close(&eq->fid) || fi_close(&domain->fid) || fi_close(&fabric->fid) ? 13 : 0;
}

#define AV_NAME "uroce test fork"

static int open_shared(struct pair *p, uint64_t flags, struct fid_av **av)
{
	char name[128];
	struct fi_av_attr attr = {
		.type = FI_AV_TABLE, .name = unique_name(AV_NAME, name, sizeof(name)), .flags = flags};

	return fi_av_open(p->domain, &attr, av, NULL);
}

static void opened_open(struct pair *p, struct opened *o)
{
	struct fi_eq_attr attr = {.flags = FI_WRITE, .wait_obj = FI_WAIT_UNSPEC};

	WANT_OK(fi_eq_open(p->fabric, &attr, &o->eq, NULL));
	WANT_OK(fi_wait_open(p->fabric, NULL, &o->waits));
	attr.wait_obj = FI_WAIT_SET;
	attr.wait_set = o->waits;
	WANT_OK(fi_eq_open(p->fabric, &attr, &o->member, NULL));
	WANT_OK(open_shared(p, 0, &o->av));
	WANT_OK(fi_cntr_open(p->domain, NULL, &o->cntr, NULL));
	WANT_OK(fi_poll_open(p->domain, NULL, &o->set));
	WANT_OK(fi_mr_reg(p->domain, p->here, 64, FI_REMOTE_WRITE, 0, 0, FI_RMA_EVENT, &o->mr, NULL));
	WANT_OK(fi_mr_bind(o->mr, &o->cntr->fid, FI_REMOTE_WRITE));
}

/* A child inherits all descriptors: the parent's close must work while the child still has them open. */
static void opened_close(struct pair *p, struct opened *o)
{
	uint32_t data = 0;
	struct fid_av *av;
	pid_t pid = fork();

	if (pid == 0) {
		alarm(PATIENCE_S);
		for (;;)
			pause();
	}
	WANT(pid > 0, 1);
	if (pid < 0)
		return;
	WANT_OK(fi_close(&o->set->fid));
	WANT_OK(fi_close(&o->mr->fid));
	WANT_OK(fi_close(&o->cntr->fid));
	WANT_OK(fi_close(&o->eq->fid));
	WANT(fi_wait(o->waits, 5), -FI_ETIMEDOUT);
	WANT(fi_eq_write(o->member, FI_NOTIFY, &data, sizeof(data), 0), sizeof(data));
	WANT_OK(fi_wait(o->waits, 5));
	WANT_OK(fi_close(&o->member->fid));
	WANT(fi_wait(o->waits, 5), -FI_ETIMEDOUT);
	WANT_OK(fi_close(&o->waits->fid));
	WANT_OK(fi_close(&o->av->fid));
	WANT(open_shared(p, FI_READ, &av), -FI_ENOENT);
	kill(pid, SIGKILL);
	WANT(waitpid(pid, NULL, 0), pid);
}

void case_forks(struct pair *p)
{
	struct fid_av *av = NULL;
	struct opened o;
	pthread_t writer;

	opened_open(p, &o);
	if (failures)
		return;
	WANT_OK(pthread_create(&writer, NULL, write_events, o.eq));
	for (unsigned i = 0; i < FORKS && !failures; i++) {
		int status = 0;
		pid_t pid = fork();

		if (pid == 0)
			_exit(i % 2 ? child(&o) : child_anew(p));
		WANT(waitpid(pid, &status, 0), pid);
		WANT(status, 0);
		WANT_OK(open_shared(p, FI_READ, &av)); /* the vector still exists: the parent has not closed it */
		if (!failures)
			WANT_OK(fi_close(&av->fid));
	}
	atomic_store(&stop, true);
	pthread_join(writer, NULL);
	opened_close(p, &o);
}

/* ---- combinations of objects ---- */

static struct fi_info *info_of(enum fi_ep_type type, uint64_t caps, void *handle)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;

	hints->fabric_attr->prov_name = strdup("uroce");
	hints->ep_attr->type = type;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->caps = caps;
	hints->handle = handle;
	WANT_OK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
	fi_freeinfo(hints);
	return info;
}

/** A message from a sender that is not in the address vector is reported as an error, in the CQ and in the counter. */
void case_nameless_senders(struct pair *p)
{
	struct fi_info *info = info_of(FI_EP_RDM, FI_MSG | FI_SOURCE | FI_SOURCE_ERR, NULL);
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_UNSPEC};
	struct fi_cntr_attr cntr_attr = {.wait_obj = FI_WAIT_UNSPEC};
	struct fid_cntr *cntr;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	fi_addr_t at;
	char name[64];
	size_t len = sizeof(name);

	WANT_OK(fi_av_open(p->domain, &(struct fi_av_attr){.type = FI_AV_TABLE}, &av, NULL));
	WANT_OK(fi_cq_open(p->domain, &attr, &cq, NULL));
	WANT_OK(fi_cntr_open(p->domain, &cntr_attr, &cntr, NULL));
	WANT_OK(fi_endpoint(p->domain, info, &ep, NULL));
	WANT_OK(fi_ep_bind(ep, &av->fid, 0));
	WANT_OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	WANT_OK(fi_ep_bind(ep, &cntr->fid, FI_RECV));
	WANT_OK(fi_enable(ep));
	WANT_OK(fi_getname(&ep->fid, name, &len));
	WANT(fi_av_insert(p->av, name, 1, &at, 0, NULL), 1);
	WANT_OK(fi_recv(ep, p->there, 8, NULL, FI_ADDR_UNSPEC, NULL));
	WANT_OK(fi_inject(p->a.ep, "x", 1, at));
	await_error(p, cq, FI_EADDRNOTAVAIL);
	WANT(fi_cntr_readerr(cntr), 1);
	WANT(fi_cntr_read(cntr), 0);
	len = sizeof(name);
	WANT_OK(fi_getname(&p->a.ep->fid, name, &len));
	WANT(fi_av_insert(av, name, 1, NULL, 0, NULL), 1);
	WANT_OK(fi_recv(ep, p->there, 8, NULL, FI_ADDR_UNSPEC, NULL));
	WANT_OK(fi_inject(p->a.ep, "x", 1, at));
	await(p, cq);
	WANT(fi_cntr_readerr(cntr), 1);
	WANT(fi_cntr_read(cntr), 1);
	WANT_OK(fi_av_remove(p->av, &at, 1, 0));
	WANT_OK(fi_close(&ep->fid));
	WANT_OK(fi_close(&cq->fid));
	WANT_OK(fi_close(&cntr->fid));
	WANT_OK(fi_close(&av->fid));
	fi_freeinfo(info);
}

/** Bind a counter for peers' operations to an endpoint with `caps`. Without target capabilities such a counter would
 * never count. The bind must return rc. */
static void count_what_peers_do(struct fid_domain *domain, struct fid_cntr *cntr, uint64_t caps, int rc)
{
	struct fi_info *info = info_of(FI_EP_RDM, caps, NULL);
	struct fid_ep *ep;

	/* The program sets the capabilities itself: FI_RMA alone means all RMA operations and both roles. */
	info->caps = caps;
	WANT_OK(fi_endpoint(domain, info, &ep, NULL));
	WANT(fi_ep_bind(ep, &cntr->fid, FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE), rc);
	WANT_OK(fi_close(&ep->fid));
	fi_freeinfo(info);
}

/** Without FI_RMA_EVENT in the domain, a counter bound to a memory region would never count, so the bind is refused. */
void case_regions_without_events(struct pair *p)
{
	struct fi_info *info = info_of(FI_EP_RDM, FI_RMA, NULL), *with;
	struct fid_domain *domain;
	struct fid_cntr *cntr;
	struct fid_mr *mr;
	struct fid_ep *ep;

	WANT_OK(fi_domain(p->fabric, info, &domain, NULL));
	WANT_OK(fi_cntr_open(domain, NULL, &cntr, NULL));
	WANT_OK(fi_mr_reg(domain, p->here, 64, FI_REMOTE_WRITE, 0, 0, 0, &mr, NULL));
	WANT(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE), -FI_EOPNOTSUPP);
	count_what_peers_do(domain, cntr, FI_RMA, -FI_EOPNOTSUPP);
	count_what_peers_do(domain, cntr, FI_RMA | FI_READ | FI_WRITE, 0);
	count_what_peers_do(domain, cntr, FI_MSG | FI_TAGGED, 0);
	with = info_of(FI_EP_RDM, FI_RMA | FI_RMA_EVENT, NULL);
	WANT_OK(fi_endpoint(domain, with, &ep, NULL));
	WANT_OK(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE));
	WANT(fi_close(&cntr->fid), -FI_EBUSY);
	WANT_OK(fi_close(&ep->fid));
	WANT_OK(fi_close(&mr->fid));
	WANT_OK(fi_close(&cntr->fid));
	WANT_OK(fi_close(&domain->fid));
	fi_freeinfo(with);
	fi_freeinfo(info);
}

/** fi_getname fails before the endpoint has an address. fi_getinfo returns the handle in the hints if the handle is
 * an open passive endpoint, and NULL otherwise. */
void case_names_and_handles(struct pair *p)
{
	struct fi_info *info = info_of(FI_EP_RDM, FI_MSG, (void *)p->here), *more;
	struct sockaddr_in set, name;
	size_t len = sizeof(set);
	struct fid_pep *pep;
	struct fid_ep *ep;

	WANT(info->handle == NULL, 1);
	WANT_OK(fi_getname(&p->a.ep->fid, &set, &len));
	set.sin_port = htons((uint16_t)(ntohs(set.sin_port) ^ 0x4000));
	WANT_OK(fi_endpoint(p->domain, info, &ep, NULL));
	len = sizeof(name);
	WANT(fi_getname(&ep->fid, &name, &len), -FI_EOPBADSTATE);
	WANT_OK(fi_setname(&ep->fid, &set, sizeof(set)));
	len = sizeof(name);
	WANT_OK(fi_getname(&ep->fid, &name, &len));
	WANT(name.sin_port, set.sin_port);
	WANT(name.sin_addr.s_addr, set.sin_addr.s_addr);
	WANT_OK(fi_close(&ep->fid));
	fi_freeinfo(info);
	info = info_of(FI_EP_MSG, FI_MSG, (void *)8); /* not a valid pointer: must not be dereferenced */
	WANT_OK(fi_passive_ep(p->fabric, info, &pep, NULL));
	more = info_of(FI_EP_MSG, FI_MSG, pep);
	WANT(more->handle == &pep->fid, 1);
	WANT_OK(fi_close(&pep->fid));
	fi_freeinfo(more);
	more = info_of(FI_EP_MSG, FI_MSG, pep);
	WANT(more->handle == NULL, 1);
	fi_freeinfo(more);
	fi_freeinfo(info);
}
