/* SPDX-License-Identifier: BSD-3-Clause */
/* part.c - see part.h. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine_priv.h"
#include "fake_peer.h"
#include "links_priv.h"
#include "part.h"
#include "points.h"
#include "stranger.h"
#include "strays.h"

#define ALARM_S 100

struct message {
	int64_t order, a, b;
};

static const struct pmd_device *device;
static struct end end;

/* ---- in the child process --------------------------------------------------------------------------------------- */

static int64_t do_open(int64_t which, bool rings)
{
	setenv("UROCE_RING", rings ? "on" : "off", 1);
	end_open(&end, &device[which]);
	return 0;
}

static int64_t do_serve(int64_t number)
{
	uint16_t port = (uint16_t)number;
	int rc = pmd_service_open(end.engine, &port);

	return rc == 0 ? port : rc;
}

static int64_t do_send(const struct nic_gid *gid, uint32_t qpn)
{
	struct nic_qp *qp = fake_qp(&end, NIC_QPT_UD, end.scq, NULL, 0, 0);
	struct nic_send_wr wr = {.opcode = NIC_WR_SEND, .flags = NIC_SEND_SIGNALED, .ud.remote_qpn = qpn};
	const struct nic_av av = {.dgid = *gid};
	struct nic_ah *ah;
	uint32_t path;

	pmd_lock(end.engine);
	assert_int_equal(nic_ah_create(end.pd, &av, &ah), 0);
	wr.ud.ah = ah;
	assert_int_equal(nic_post_send(qp, &wr), 0);
	path = nic_qp_path(qp);
	pmd_doorbell(end.engine);
	pmd_unlock(end.engine);
	assert_int_equal(end_wait(&end, end.scq, true).status, NIC_WC_SUCCESS);
	pmd_lock(end.engine);
	assert_int_equal(nic_qp_destroy(qp), 0);
	nic_ah_destroy(ah);
	pmd_unlock(end.engine);
	return path;
}

/** The caller of do_forward, do_route, do_rest or do_locked holds the engine's lock. */
static int64_t do_forward(const struct nic_gid *gid, uint32_t qpn)
{
	uint8_t bytes[STRANGER_BYTES];
	const struct nic_rx_frame frame = {.data = bytes + STRANGER_CARRIER,
					   .len = sizeof(bytes) - STRANGER_CARRIER,
					   .flags = NIC_RX_UDP_PAYLOAD | NIC_RX_IP_ID_UNKNOWN,
					   .udp_sport = NIC_UDP_PORT,
					   .sgid = *gid,
					   .dgid = *gid};
	int64_t taken;

	stranger_packet(bytes, gid, NIC_UDP_PORT, gid, STRANGER_UD_SEND, qpn);
	taken = end.engine->host.port->stray(end.engine->host.port->ctx, &frame);
	if (pmd_strays_wait(end.engine->strays)) /* as the engine does at the end of a burst */
		pmd_strays_settle(end.engine->strays, pmd_now_ns());
	return taken;
}

static int64_t do_route(const struct nic_gid *gid, uint32_t qpn)
{
	uint32_t path = pmd_links_route(end.engine->host.links, gid, qpn);

	return pmd_links_route(end.engine->host.links, gid, qpn) == path ? (int64_t)path : -1;
}

static int64_t do_rest(void)
{
	struct pmd_links *l = end.engine->host.links;

	for (unsigned i = 0; i < 2 && l->trim_ns != UINT64_MAX; i++)
		pmd_links_trim(l, l->trim_ns);
	return l->n_out;
}

/** Return when the child's fork handlers have run: before that, the child still has copies of the engine's sockets, so
 *  their names stay taken even if this process ends. If the test fails, nobody kills the child. So it closes stdout and
 *  stderr: whoever reads the test's output must not wait for it. */
static int64_t do_fork(void)
{
	int ran[2];
	char none;
	pid_t pid;

	assert_int_equal(pipe(ran), 0);
	pid = fork();
	if (pid == 0) {
		alarm(ALARM_S);
		close(STDOUT_FILENO);
		close(STDERR_FILENO);
		close(ran[1]);
		for (;;)
			pause();
	}
	close(ran[1]);
	assert_int_equal(read(ran[0], &none, sizeof(none)), 0);
	close(ran[0]);
	return pid;
}

static int64_t do_locked(const struct message *m)
{
	struct pmd_engine *e = end.engine;

	switch ((enum part_order)m->order) {
	case PART_ROUTE:
		return do_route(&device[m->a].gid, (uint32_t)m->b);
	case PART_FORWARD:
		return do_forward(&device[m->a].gid, (uint32_t)m->b);
	case PART_REST:
		return do_rest();
	case PART_NUMBER:
		return e->host.function;
	case PART_NO_QP:
		return (int64_t)nic_counters(end.nic)[NIC_CNT_rx_no_qp];
	case PART_BY_LINK:
		return (int64_t)e->host.port->stats.link_rx_packets;
	case PART_BY_PORT:
		return (int64_t)e->host.port->stats.rx_packets;
	case PART_MISROUTED:
		return (int64_t)e->host.port->stats.rx_misrouted;
	default:
		abort();
	}
}

static int64_t obey(const struct message *m)
{
	int64_t result = 0;

	switch ((enum part_order)m->order) {
	case PART_OPEN:
		return do_open(m->a, m->b);
	case PART_CLOSE:
		end_close(&end);
		return 0;
	case PART_SERVE:
		return do_serve(m->a);
	case PART_UNSERVE:
		pmd_service_close(end.engine, (uint16_t)m->a);
		return 0;
	case PART_SEND:
		return do_send(&device[m->a].gid, NIC_SERVICE_QPN + (uint32_t)m->b);
	case PART_FORK:
		return do_fork();
	default:
		pmd_lock(end.engine);
		result = do_locked(m);
		pmd_unlock(end.engine);
		return result;
	}
}

static void part_main(int from, int to)
{
	struct message m;
	int64_t result;

	prctl(PR_SET_PDEATHSIG, SIGKILL); /* die with the test, however it ends */
	alarm(ALARM_S);
	while (read(from, &m, sizeof(m)) == sizeof(m)) {
		result = obey(&m);
		if (write(to, &result, sizeof(result)) != sizeof(result))
			break;
	}
	_exit(0);
}

/* ---- in the test process ---------------------------------------------------------------------------------------- */

void part_start(struct part *p, const struct pmd_device *devices)
{
	int down[2], up[2];

	device = devices;
	assert_int_equal(pipe(down) | pipe(up), 0);
	p->pid = fork();
	assert_true(p->pid >= 0);
	if (p->pid == 0) {
#ifdef UROCE_TEST_POINTS
		pmd_point_arm(getenv("UROCE_TEST_POINT"));
#endif
		close(down[1]);
		close(up[0]);
		part_main(down[0], up[1]);
	}
	close(down[0]);
	close(up[1]);
	p->to = down[1];
	p->from = up[0];
}

int64_t part_do(const struct part *p, enum part_order order, int64_t a, int64_t b)
{
	part_order(p, order, a, b);
	return part_answer(p);
}

void part_order(const struct part *p, enum part_order order, int64_t a, int64_t b)
{
	const struct message m = {order, a, b};

	assert_int_equal(write(p->to, &m, sizeof(m)), sizeof(m));
}

int64_t part_answer(const struct part *p)
{
	int64_t result;

	assert_int_equal(read(p->from, &result, sizeof(result)), sizeof(result));
	return result;
}

void part_kill(struct part *p)
{
	assert_int_equal(kill(p->pid, SIGKILL), 0);
	assert_int_equal(waitpid(p->pid, NULL, 0), p->pid);
	part_gone(p);
}

void part_gone(struct part *p)
{
	close(p->to);
	close(p->from);
}

void part_end(struct part *p)
{
	part_do(p, PART_CLOSE, 0, 0);
	/* Kill the part: it would not notice that we close its pipe, because parts started later hold the pipe open. */
	part_kill(p);
}
