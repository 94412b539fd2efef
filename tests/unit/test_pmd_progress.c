/* SPDX-License-Identifier: BSD-3-Clause */
/* test_pmd_progress.c - pmd/engine/progress.c and thread.c: events, wake-ups, and what the engine's thread inherits
 * from its surroundings. */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "devices.h"
#include "ends.h"
#include "engine_priv.h"
#include "sanitizer.h"

#define MANY	 600
#define MESSAGES 5000

static struct pmd_device device[3];
static unsigned events;

static void on_event(void *ctx, const struct nic_event *event)
{
	(void)ctx;
	events += event->type == NIC_EVENT_COMP;
}

static struct pmd_engine *open_engine(const char *progress)
{
	struct pmd_engine *e;
	char err[256];

	setenv("UROCE_PROGRESS", progress, 1);
	assert_int_equal(pmd_open(&device[0], on_event, NULL, &e, err, sizeof(err)), 0);
	unsetenv("UROCE_PROGRESS");
	return e;
}

/** Create a QP for an unreliable connection. Lock held. */
static struct nic_qp *uc_create(struct pmd_engine *e, struct nic_pd *pd, struct nic_cq *cq)
{
	struct nic_qp_init init = {.type = NIC_QPT_UC, .cap = {4, 4, 1, 1, 0}, .pd = pd, .send_cq = cq, .recv_cq = cq};
	struct nic_qp *qp;

	assert_int_equal(nic_qp_create(e->host.nic, &init, &qp), 0);
	return qp;
}

/** Connect the QP to this peer. Lock held. */
static void uc_connect(struct nic_qp *qp, const struct nic_gid *gid, uint32_t qpn)
{
	struct nic_qp_attr attr = {
		.qp_state = NIC_QPS_INIT, .port_num = 1, .path_mtu = NIC_MTU_1024, .dest_qp_num = qpn, .av.dgid = *gid};

	assert_int_equal(nic_qp_modify(qp, &attr, NIC_QP_STATE | NIC_QP_PKEY_INDEX | NIC_QP_PORT | NIC_QP_ACCESS_FLAGS),
			 0);
	attr.qp_state = NIC_QPS_RTR;
	assert_int_equal(
		nic_qp_modify(qp, &attr, NIC_QP_STATE | NIC_QP_AV | NIC_QP_PATH_MTU | NIC_QP_DEST_QPN | NIC_QP_RQ_PSN),
		0);
	attr.qp_state = NIC_QPS_RTS;
	assert_int_equal(nic_qp_modify(qp, &attr, NIC_QP_STATE | NIC_QP_SQ_PSN), 0);
}

/** Create a QP that can send to a peer that does not exist. Lock held. */
static struct nic_qp *uc_qp(struct pmd_engine *e, struct nic_pd *pd, struct nic_cq *cq)
{
	struct nic_qp *qp = uc_create(e, pd, cq);

	uc_connect(qp, &device[1].gid, 77);
	return qp;
}

/** Each of many CQs has a completion event at the same time: one step must deliver all events, because no
 * other step follows. */
static void progress__one_step_delivers_the_events_of_all_cqs(void **state)
{
	const struct nic_qp_attr error = {.qp_state = NIC_QPS_ERR};
	const struct nic_recv_wr wr = {.num_sge = 0};
	struct pmd_engine *e = open_engine("inline");
	struct nic_pd *pd;

	(void)state;
	pmd_lock(e);
	assert_int_equal(nic_pd_alloc(e->host.nic, &pd), 0);
	events = 0;
	for (unsigned i = 0; i < MANY; i++) {
		struct nic_cq *cq;
		struct nic_qp *qp;

		assert_int_equal(nic_cq_create(e->host.nic, 4, NULL, &cq), 0);
		qp = uc_qp(e, pd, cq);
		nic_cq_arm(cq, false);
		assert_int_equal(nic_post_recv(qp, &wr), 0);
		assert_int_equal(nic_qp_modify(qp, &error, NIC_QP_STATE), 0); /* flushes the receive, which completes */
	}
	assert_int_equal(events, 0);
	pmd_unlock(e);
	assert_int_equal(events, MANY);
	pmd_close(e);
}

/* ---- a port that is full --------------------------------------------------------------------------------------- */

static const struct pmd_port_ops *real_ops;
static bool full; /* protected by the engine's lock */

static unsigned tx_when_not_full(struct pmd_port *port, struct nic_tx_frame *frames, unsigned n, uint64_t now_ns)
{
	return full ? 0 : real_ops->tx_burst(port, frames, n, now_ns);
}

/** Wait until the engine's thread sleeps without a deadline. */
static void wait_until_asleep(struct pmd_engine *e)
{
	bool asleep = false;

	while (!asleep) {
		pmd_mutex_lock(&e->lock);
		asleep = __atomic_load_n(&e->sleeper.wake_ns, __ATOMIC_RELAXED) == UINT64_MAX;
		pmd_mutex_unlock(&e->lock);
		usleep(1000);
	}
}

/** A packet that a full port did not accept is offered again although nothing else happens. */
static void progress__full_port_is_tried_again(void **state)
{
	const struct nic_send_wr wr = {.opcode = NIC_WR_SEND, .flags = NIC_SEND_SIGNALED};
	struct pmd_engine *e = open_engine("thread");
	static struct pmd_port_ops ops;
	struct nic_pd *pd;
	struct nic_cq *cq;
	struct nic_qp *qp;
	unsigned left = 1;

	(void)state;
	pmd_lock(e);
	real_ops = e->host.port->ops;
	ops = *real_ops;
	ops.tx_burst = tx_when_not_full;
	e->host.port->ops = &ops;
	full = true;
	assert_int_equal(nic_pd_alloc(e->host.nic, &pd), 0);
	assert_int_equal(nic_cq_create(e->host.nic, 4, NULL, &cq), 0);
	qp = uc_qp(e, pd, cq);
	pmd_unlock(e);
	wait_until_asleep(e);
	pmd_lock(e);
	assert_int_equal(nic_post_send(qp, &wr), 0);
	pmd_doorbell(e);
	assert_int_equal(e->tx.end - e->tx.first, 1);
	pmd_unlock(e);
	pmd_mutex_lock(&e->lock);
	full = false;
	pmd_mutex_unlock(&e->lock);
	while (left > 0) {
		usleep(1000);
		pmd_mutex_lock(&e->lock);
		left = e->tx.end - e->tx.first;
		pmd_mutex_unlock(&e->lock);
	}
	pmd_close(e);
}

/* ---- surroundings ---------------------------------------------------------------------------------------------- */

/** @return the thread ID of the engine's thread. */
static pid_t thread_id(void)
{
	DIR *tasks = opendir("/proc/self/task");
	pid_t found = 0;

	assert_non_null(tasks);
	for (struct dirent *d = readdir(tasks); d; d = readdir(tasks)) {
		char path[300], comm[32] = "";
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", d->d_name);
		f = fopen(path, "re");
		if (f && fgets(comm, sizeof(comm), f) && strncmp(comm, "uroce-", 6) == 0)
			found = atoi(d->d_name);
		if (f)
			fclose(f);
	}
	closedir(tasks);
	return found;
}

static void thread__keeps_the_scheduling_policy_of_the_application(void **state)
{
	const struct sched_param none = {0};
	struct pmd_engine *e;

	(void)state;
	assert_int_equal(sched_setscheduler(0, SCHED_BATCH, &none), 0);
	e = open_engine("auto");
	wait_until_asleep(e);
	assert_int_equal(sched_getscheduler(thread_id()), SCHED_BATCH);
	pmd_close(e);
	assert_int_equal(sched_setscheduler(0, SCHED_OTHER, &none), 0);
}

static void thread__ends_when_its_descriptors_are_closed(void **state)
{
	struct pmd_engine *e = open_engine("auto");
	const uint64_t one = 1;
	int doorbell;

	(void)state;
	wait_until_asleep(e);
	doorbell = dup(e->sleeper.doorbell_fd);
	close(e->sleeper.doorbell_fd);
	assert_int_equal(write(doorbell, &one, sizeof(one)), sizeof(one));
	while (!__atomic_load_n(&e->thread.stop, __ATOMIC_RELAXED))
		usleep(1000);
	close(doorbell);
	while (!pmd_try_progress(e))
		sched_yield();
	pmd_close(e);
}

/** A thread that never sleeps is not woken by new peers. It must look for them itself, because the application does
 * not poll. */
static void thread__a_pinned_thread_accepts_links_of_new_peers(void **state)
{
	struct pmd_port_stats stats;
	struct end a, b;

	(void)state;
	setenv("UROCE_PROGRESS", "pinned", 1);
	end_open(&a, &device[0]);
	unsetenv("UROCE_PROGRESS");
	end_open(&b, &device[1]);
	end_connect(&a, &b);
	end_connect(&b, &a);
	end_send(&b, NIC_WR_RDMA_WRITE, 8, &a);
	assert_int_equal(end_wait(&b, b.scq, false).status, NIC_WC_SUCCESS);
	pmd_lock(a.engine);
	pmd_port_stats_get(a.engine, &stats);
	pmd_unlock(a.engine);
	assert_true(stats.link_rx_packets > 0);
	end_close(&b);
	end_close(&a);
}

/* ---- beside an application that polls --------------------------------------------------------------------------- */

/** @return how often this thread has gone to sleep: its voluntary context switches. */
static unsigned long sleeps(pid_t thread)
{
	unsigned long n = 0;
	char path[64], line[128];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", thread);
	f = fopen(path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		sscanf(line, "voluntary_ctxt_switches: %lu", &n);
	fclose(f);
	return n;
}

static cpu_set_t all_cpus;

static int on_one_cpu(void **state)
{
	cpu_set_t one;

	(void)state;
	CPU_ZERO(&one);
	CPU_SET((size_t)sched_getcpu(), &one);
	return sched_getaffinity(0, sizeof(all_cpus), &all_cpus) || sched_setaffinity(0, sizeof(one), &one);
}

static int on_all_cpus(void **state)
{
	(void)state;
	return sched_setaffinity(0, sizeof(all_cpus), &all_cpus);
}

/** Receive each message and send one back. */
static void *echo(void *arg)
{
	struct end *e = arg;

	for (unsigned i = 0; i < MESSAGES; i++) {
		end_wait(e, e->rcq, false);
		end_recv(e);
		end_send(e, NIC_WR_SEND, 8, NULL);
		end_wait(e, e->scq, false);
	}
	return NULL;
}

/**
 * With all threads on one CPU and applications that poll, the engine's thread leaves packets to the pollers. If each
 * packet woke the thread, it would run before the application and find the packet itself, so it would never learn that
 * the application polls.
 */
static void thread__leaves_packets_to_polling_applications(void **state)
{
	unsigned long before;
	struct end a, b;
	pthread_t peer;
	pid_t thread;

	(void)state;
	SKIP_UNDER_TSAN("makes a poll take longer than the thread believes that polls can be apart");
#ifdef TEST_EMULATED
	print_message("on an emulated CPU, polls are further apart than the thread expects\n");
	skip();
#endif
	ends_open(&a, &device[0], &b, &device[1]);
	wait_until_asleep(a.engine);
	wait_until_asleep(b.engine);
	thread = thread_id();
	before = sleeps(thread);
	end_recv(&b);
	assert_int_equal(pthread_create(&peer, NULL, echo, &b), 0);
	for (unsigned i = 0; i < MESSAGES; i++) {
		end_recv(&a);
		end_send(&a, NIC_WR_SEND, 8, NULL);
		end_wait(&a, a.scq, false);
		end_wait(&a, a.rcq, false);
	}
	assert_int_equal(pthread_join(peer, NULL), 0);
	/* A thread that leaves the packets to pollers sleeps about a hundred times here; a thread woken for packets
	 * would sleep several times per message. */
	assert_true(sleeps(thread) - before < MESSAGES);
	end_close(&a);
	end_close(&b);
}

/* ---- what is due meanwhile ------------------------------------------------------------------------------------- */

#define MOST_POLLS 2000000 /* so many polls last longer than any deadline here, on any machine */
#define MOST_SENDS 100000  /* enough packets to fill any ring */
#define LONG	   1024

/** How the program keeps the engine busy. No thread is idle and attends to what is due (timers, the port, a full
 * ring). */
enum way {
	POLLS_FIND,	    /* each poll is for one message and finds one */
	DOORBELLS_FIND,	    /* doorbells find the messages, so the program does not poll */
	NOTHING_IS_FOUND,   /* one doorbell that leaves nothing to do, then only polls that find nothing */
	NOTHING_AFTER_EACH, /* polls that find nothing, each after a doorbell */
	WAYS
};

/** End a is the program. Messages go between ends a and b over links, and from end c to end a over the port, all on UC
 * QPs, which need no ACKs. */
struct program {
	struct end a, b, c;
	struct nic_qp *a_to_b, *b_to_a, *a_from_c, *c_to_a;
};

static struct nic_qp *uc_of(struct end *e, struct nic_cq *cq)
{
	struct nic_qp *qp;

	pmd_lock(e->engine);
	qp = uc_create(e->engine, e->pd, cq);
	pmd_unlock(e->engine);
	return qp;
}

static void uc_connect_both(struct end *x, struct nic_qp *qx, struct end *y, struct nic_qp *qy)
{
	pmd_lock(x->engine);
	uc_connect(qx, &y->gid, nic_qp_num(qy));
	pmd_unlock(x->engine);
	pmd_lock(y->engine);
	uc_connect(qy, &x->gid, nic_qp_num(qx));
	pmd_unlock(y->engine);
}

static void post_empty_recv(struct end *e, struct nic_qp *qp)
{
	const struct nic_recv_wr wr = {.num_sge = 0};

	pmd_lock(e->engine);
	assert_int_equal(nic_post_recv(qp, &wr), 0);
	pmd_unlock(e->engine);
}

/** Post an unsignaled SEND; the caller holds the lock. @return whether the queue had room. */
static bool post_unsignaled(struct end *e, struct nic_qp *qp, uint32_t len)
{
	struct nic_sge sge = {(uintptr_t)e->buf, len, nic_mr_lkey(e->mr)};
	const struct nic_send_wr wr = {.sg_list = &sge, .num_sge = len > 0, .opcode = NIC_WR_SEND};
	int err = nic_post_send(qp, &wr);

	assert_true(err == 0 || err == -ENOMEM);
	return err == 0;
}

static void uc_send(struct end *e, struct nic_qp *qp)
{
	pmd_lock(e->engine);
	post_unsignaled(e, qp, 0);
	pmd_doorbell(e->engine);
	pmd_unlock(e->engine);
}

static void program_open(struct program *t)
{
	setenv("UROCE_PROGRESS", "inline", 1);
	memset(t, 0, sizeof(*t));
	end_open(&t->a, &device[0]);
	end_open(&t->b, &device[1]);
	setenv("UROCE_RING", "off", 1);
	end_open(&t->c, &device[2]);
	unsetenv("UROCE_RING");
	unsetenv("UROCE_PROGRESS");
	t->a_to_b = uc_of(&t->a, t->a.rcq);
	t->b_to_a = uc_of(&t->b, t->b.rcq);
	t->a_from_c = uc_of(&t->a, t->a.scq);
	t->c_to_a = uc_of(&t->c, t->c.scq);
	uc_connect_both(&t->a, t->a_to_b, &t->b, t->b_to_a);
	uc_connect_both(&t->a, t->a_from_c, &t->c, t->c_to_a);
	for (unsigned sends = 0; !pmd_links_ready(t->a.engine->host.links); sends++) { /* the first message makes it */
		assert_true(sends < MOST_POLLS);
		uc_send(&t->b, t->b_to_a);
		pmd_try_progress(t->a.engine);
		pmd_try_progress(t->b.engine);
	}
	while (pmd_links_ready(t->a.engine->host.links))
		pmd_try_progress(t->a.engine);
}

static void program_close(struct program *t)
{
	end_close(&t->c);
	end_close(&t->b);
	end_close(&t->a);
}

/** One round of the program: a doorbell, a poll, or both, depending on `way`. */
static void go_on(struct program *t, enum way way)
{
	bool finds = way == POLLS_FIND || way == DOORBELLS_FIND;
	struct nic_wc wc;

	if (finds) {
		post_empty_recv(&t->a, t->a_to_b);
		uc_send(&t->b, t->b_to_a);
	} else {
		pmd_try_progress(t->b.engine);
	}
	if (way == DOORBELLS_FIND || way == NOTHING_AFTER_EACH)
		uc_send(&t->a, t->a_to_b);
	pmd_lock(t->a.engine);
	if (way != DOORBELLS_FIND)
		pmd_progress(t->a.engine, 1);
	assert_int_equal(nic_cq_poll(t->a.rcq, 1, &wc), finds);
	pmd_unlock(t->a.engine);
}

/** Send a request that is never answered, because the peer has no such QP: the ACK timer will expire. */
static void start_timer(struct program *t)
{
	end_connect(&t->a, &t->b);
	end_send(&t->a, NIC_WR_RDMA_WRITE, 8, &t->b);
}

static bool timer_has_run(struct program *t)
{
	return nic_counters(t->a.nic)[NIC_CNT_local_ack_timeout_err] > 0;
}

static void start_port(struct program *t)
{
	post_empty_recv(&t->a, t->a_from_c);
	uc_send(&t->c, t->c_to_a);
}

static bool port_was_looked_at(struct program *t)
{
	struct nic_wc wc;

	return end_poll(&t->a, t->a.scq, &wc) == 1;
}

/** Fill the ring of the link to b; b reads it again at its next poll. */
static void start_full_link(struct program *t)
{
	pmd_lock(t->a.engine);
	for (unsigned n = 0; t->a.engine->host.port->stats.link_busy == 0; n++) {
		assert_true(n < MOST_SENDS);
		post_unsignaled(&t->a, t->a_to_b, LONG);
		pmd_engine_transmit(t->a.engine, 1, pmd_now_ns());
	}
	while (post_unsignaled(&t->a, t->a_to_b, LONG))
		;
	pmd_unlock(t->a.engine);
}

static bool link_was_served(struct program *t)
{
	return !nic_tx_pending(t->a.nic);
}

/** While a poller always finds other work, timers still expire, the port is still read, and packets that a full ring
 * did not accept are still sent. */
static void progress__due_work_is_done_whether_or_not_polls_find_packets(void **state)
{
	static const struct {
		void (*start)(struct program *t);
		bool (*done)(struct program *t);
	} due[] = {{start_timer, timer_has_run}, {start_port, port_was_looked_at}, {start_full_link, link_was_served}};
	struct program t;

	(void)state;
	for (unsigned i = 0; i < sizeof(due) / sizeof(due[0]); i++)
		for (unsigned way = 0; way < WAYS; way++) {
			program_open(&t);
			due[i].start(&t);
			assert_false(due[i].done(&t));
			if (way == NOTHING_IS_FOUND) {
				uc_send(&t.a, t.a_to_b);
				assert_int_equal(t.a.engine->steps.quiet, !nic_tx_pending(t.a.nic));
			}
			for (unsigned polls = 0; !due[i].done(&t); polls++) {
				assert_true(polls < MOST_POLLS);
				go_on(&t, (enum way)way);
			}
			program_close(&t);
		}
}

/* ---- yields ---------------------------------------------------------------------------------------------------- */

static struct program *yields_to; /* NULL: sched_yield() only makes the system call */
static unsigned yields;

/** In place of libc's: end a sends a message to end b while b's poller yields the CPU. */
int sched_yield(void)
{
	if (yields_to) {
		yields++;
		uc_send(&yields_to->a, yields_to->a_to_b);
	}
	return (int)syscall(SYS_sched_yield);
}

/** Messages that arrive while a poll yields the CPU are found by that poll. If only the next poll found them, a program
 * that reads other events after an empty poll would learn of the disconnection before the last message. */
static void progress__a_poll_finds_what_arrives_while_it_yields(void **state)
{
	struct program t;
	struct nic_wc wc;
	int got;

	(void)state;
	program_open(&t);
	for (unsigned sends = 0; !pmd_links_ready(t.b.engine->host.links); sends++) { /* the first message makes it */
		assert_true(sends < MOST_POLLS);
		pmd_try_progress(t.a.engine);
		pmd_try_progress(t.b.engine);
		uc_send(&t.a, t.a_to_b);
	}
	while (pmd_links_ready(t.b.engine->host.links))
		pmd_try_progress(t.b.engine);
	post_empty_recv(&t.b, t.b_to_a);
	yields_to = &t;
	yields = 0;
	for (unsigned polls = 0; yields < 3; polls++) {
		unsigned before = yields;

		assert_true(polls < MOST_POLLS);
		pmd_lock(t.b.engine);
		got = pmd_progress(t.b.engine, 1) ? nic_cq_poll(t.b.rcq, 1, &wc) : 0;
		pmd_unlock(t.b.engine);
		assert_int_equal(got, yields - before);
		if (got)
			post_empty_recv(&t.b, t.b_to_a);
	}
	yields_to = NULL;
	program_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(progress__one_step_delivers_the_events_of_all_cqs),
		cmocka_unit_test(progress__full_port_is_tried_again),
		cmocka_unit_test_setup_teardown(thread__leaves_packets_to_polling_applications, on_one_cpu,
						on_all_cpus),
		cmocka_unit_test(thread__keeps_the_scheduling_policy_of_the_application),
		cmocka_unit_test(thread__ends_when_its_descriptors_are_closed),
		cmocka_unit_test(thread__a_pinned_thread_accepts_links_of_new_peers),
		cmocka_unit_test(progress__due_work_is_done_whether_or_not_polls_find_packets),
		cmocka_unit_test(progress__a_poll_finds_what_arrives_while_it_yields),
	};

	if (ends_devices(device, 3, NULL) != 3)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
