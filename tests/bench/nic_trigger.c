/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_trigger.c - the cost of a trigger in the transport core alone: two NICs in one process, with one endpoint each;
 * frames are handed over by pointer, in the form that shared memory links use. The same 8-byte requests are started
 * alternately in two ways: by a call, and by a counter that reaches the threshold of deferred work, while much more
 * deferred work waits. Time and instructions are measured from the call, or the change of the counter, until
 * nic_path_tx has built the packet. They do not include the peer's part, responses and completions.
 *
 * One time measurement covers 8 requests, because reading the clock costs as much as a request. The two ways are
 * separate functions, plain_requests and triggered_requests, so that callgrind (--toggle-collect) can count the
 * instructions of one of them.
 *
 * usage: nic_trigger KIND WHAT [COUNT [WAITING]]     nanoseconds for each request, median
 *        KIND: send, tsend (with a tag), write, atomic (a sum), fetch (a sum that returns the old value)
 *        WHAT: plain (by a call), triggered (by the counter), extra (the difference)
 *        COUNT: number of requests; WAITING: most pieces of deferred work that wait for the counter
 */
#include <errno.h>

#include "bench_util.h"
#include "nic_rdm.h"
#include "trigger.h"

#define BATCH	    8u /* requests in a batch; no more than 8 fetching operations may be in flight */
#define WAITING_MAX (1u << 20)
#define PORT	    7
#define NOINLINE    __attribute__((noinline))

enum kind { SEND, TSEND, WRITE, ATOMIC, FETCH, KINDS };

struct side {
	struct nic *nic;
	struct nic_pd *pd;
	struct nic_mr *mr;
	struct nic_rdm *ep;
	struct nic_rdm_addr addr;
	struct nic_rdm_peer *peer;
	int path;
	uint64_t random;
	unsigned long done, failed;
	uint64_t memory[512];
};

/** A request that is started when the counter reaches a threshold. */
struct piece {
	struct nic_trig_work trig;
	uint64_t number;
};

static struct side requester, responder;
static struct nic_trig_cntr cntr;
static struct piece *pieces;
static uint8_t packets[2 * BATCH][NIC_FRAME_MAX];
static struct nic_tx_frame frames[2 * BATCH];
static enum kind kind;
static uint64_t now_ns = 1000000;

static void check(int rc, const char *what)
{
	if (rc) {
		fprintf(stderr, "nic_trigger: %s: %s\n", what, strerror(-rc));
		exit(1);
	}
}

/* ---- two NICs ------------------------------------------------------------------------------------------------ */

/** A reproducible generator: a measurement needs no secret random numbers. */
static void random_fill(void *ctx, void *buf, size_t len)
{
	struct side *side = ctx;
	uint8_t *out = buf;

	for (size_t i = 0; i < len; i++) {
		side->random = side->random * 6364136223846793005u + 1442695040888963407u;
		out[i] = side->random >> 56;
	}
}

static uint32_t route(void *ctx, const struct nic_gid *dgid, uint32_t dest_qpn)
{
	(void)dgid;
	(void)dest_qpn;
	return (uint32_t)((struct side *)ctx)->path;
}

static void is_done(void *ctx, const struct nic_rdm_done *done)
{
	struct side *side = ctx;

	side->done++;
	side->failed += done->status != NIC_RDM_OK;
}

static void side_make(struct side *side, uint8_t last)
{
	struct nic_config config = {.random = random_fill, .route = route, .ctx = side};
	struct nic_rdm_init init = {.addr = {.port = PORT}, .done = is_done, .ctx = side};
	const uint8_t gid[16] = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = last};

	side->random = last;
	memcpy(init.addr.gid.raw, gid, sizeof(gid));
	check(nic_create(&config, &side->nic), "nic_create");
	side->path = nic_path_open(side->nic, NIC_PATH_NO_ICRC | NIC_PATH_LOSSLESS);
	check(side->path < 0 ? side->path : 0, "nic_path_open");
	check(nic_gid_set(side->nic, 0, &init.addr.gid), "nic_gid_set");
	check(nic_pd_alloc(side->nic, &side->pd), "nic_pd_alloc");
	check(nic_mr_reg(side->pd, side->memory, sizeof(side->memory), (uintptr_t)side->memory,
			 NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_ATOMIC, &side->mr),
	      "nic_mr_reg");
	init.pd = side->pd;
	side->addr = init.addr;
	check(nic_rdm_create(side->nic, &init, &side->ep), "nic_rdm_create");
}

static void deliver(struct side *to, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct nic_rx_frame rx = {.data = frames[i].data,
					  .len = frames[i].len,
					  .flags = NIC_RX_NO_ICRC | (frames[i].bare ? NIC_RX_BARE : 0),
					  .src_qpn = frames[i].qpn,
					  .addresses = frames[i].addresses};

		nic_rx(to->nic, &rx, now_ns);
	}
}

static unsigned transmit(struct side *from, unsigned first)
{
	for (unsigned i = first; i < 2 * BATCH; i++)
		frames[i].bare = true;
	return nic_path_tx(from->nic, (uint32_t)from->path, frames + first, 2 * BATCH - first, now_ns);
}

/** Like transmit(), but first queues delayed ACKs. Fails if packets wait at the port (path 0): all packets must use the
 *  link. */
static unsigned transmit_all(struct side *from)
{
	nic_ack_flush(from->nic, true);
	if (nic_path_pending(from->nic, 0))
		check(-EPROTO, "the port");
	return transmit(from, 0);
}

/** Exchange packets until neither side has anything to send. @param n how many frames of the requester are in `frames`
 *  already. */
static void quiesce(unsigned n)
{
	do {
		deliver(&responder, n);
		n = transmit_all(&responder);
		deliver(&requester, n);
		now_ns += 1000;
		n = transmit_all(&requester);
	} while (n > 0 || nic_path_pending(responder.nic, (uint32_t)responder.path));
}

static void receives_post(unsigned n)
{
	const struct nic_iov iov = {responder.memory, 8};
	struct nic_rdm_recv r = {.iov = &iov, .n_iov = 1, .flags = kind == TSEND ? NIC_RDM_TAGGED : 0};

	for (unsigned i = 0; i < n && kind <= TSEND; i++)
		check(nic_rdm_recv(responder.ep, &r), "nic_rdm_recv");
}

/* ---- requests ------------------------------------------------------------------------------------------------ */

static int request(uint64_t number)
{
	const struct nic_iov iov = {requester.memory, 8}, result = {requester.memory + 1, 8};
	const struct nic_rdm_remote remote = {(uintptr_t)(responder.memory + 8), 8, nic_mr_rkey(responder.mr)};

	if (kind == SEND || kind == TSEND) {
		struct nic_rdm_send r = {.cookie = number, .iov = &iov, .n_iov = 1};

		r.flags = kind == TSEND ? NIC_RDM_TAGGED : 0;
		return nic_rdm_send(requester.peer, &r);
	}
	if (kind == WRITE)
		return nic_rdm_rma(
			requester.peer,
			&(struct nic_rdm_rma){
				.cookie = number, .iov = &iov, .n_iov = 1, .remote = &remote, .n_remote = 1});
	return nic_rdm_atomic(requester.peer, &(struct nic_rdm_atomic){.cookie = number,
								       .op = NIC_ELEM_SUM,
								       .datatype = NIC_DT_UINT64,
								       .operand = &iov,
								       .n_operand = 1,
								       .result = kind == FETCH ? &result : NULL,
								       .n_result = kind == FETCH,
								       .remote = &remote,
								       .n_remote = 1});
}

static int fire(struct nic_trig_work *trig)
{
	return request(((struct piece *)(void *)trig)->number);
}

/** Queue n requests as deferred work, each with a threshold one higher than the previous. */
static void work_queue(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++) {
		pieces[i] = (struct piece){.trig.fire = fire, .number = i};
		check(nic_trig_queue(requester.nic, &cntr, cntr.part[0] + 1 + i, &pieces[i].trig), "nic_trig_queue");
	}
}

/** Start a batch of requests by calls. @return the number of frames. */
static NOINLINE unsigned plain_requests(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < BATCH; i++) {
		check(request(i), "request");
		n += transmit(&requester, n);
	}
	return n;
}

static NOINLINE unsigned triggered_requests(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < BATCH; i++) {
		nic_trig_add(requester.nic, &cntr, false, 1);
		nic_trig_run(requester.nic);
		n += transmit(&requester, n);
	}
	return n;
}

/** Run a batch of requests, and wait for their completion. @return how long starting them took, ns. */
static uint64_t batch(unsigned (*requests)(void))
{
	unsigned long before = requester.done;
	uint64_t start;
	unsigned n;

	receives_post(BATCH);
	start = bench_now_ns();
	n = requests();
	start = bench_now_ns() - start;
	if (n != BATCH) {
		fprintf(stderr, "nic_trigger: %u packets of %u requests\n", n, BATCH);
		exit(1);
	}
	quiesce(n);
	if (requester.done - before != BATCH || requester.failed || responder.failed) {
		fprintf(stderr, "nic_trigger: %lu of %u requests completed, %lu failed\n", requester.done - before,
			BATCH, requester.failed);
		exit(1);
	}
	return start;
}

static double median(uint64_t *ns, size_t n)
{
	qsort(ns, n, sizeof(*ns), bench_compare);
	return (double)ns[n / 2] / BATCH;
}

static void connect_both(void)
{
	requester.peer = nic_rdm_peer_get(requester.ep, &responder.addr);
	if (!requester.peer)
		check(-ENOMEM, "nic_rdm_peer_get");
	receives_post(1);
	check(request(0), "request");
	quiesce(transmit_all(&requester));
	nic_rdm_no_delay(requester.ep); /* atomics are sent at once, each in its own packet */
	if (requester.done != 1)
		check(-ENOTCONN, "connection");
}

static void sides_close(void)
{
	nic_trig_cntr_fini(&cntr);
	nic_destroy(requester.nic);
	nic_destroy(responder.nic);
}

static int usage(void)
{
	fprintf(stderr,
		"usage: nic_trigger send|tsend|write|atomic|fetch plain|triggered|extra [COUNT [WAITING]], both "
		"multiples of 8\n");
	return 2;
}

int main(int argc, char **argv)
{
	static const char *const kinds[KINDS] = {"send", "tsend", "write", "atomic", "fetch"};
	unsigned long count = argc > 3 ? strtoul(argv[3], NULL, 0) : 100000;
	unsigned long waiting = argc > 4 ? strtoul(argv[4], NULL, 0) : 1024, left = 0;
	size_t n = count / BATCH;
	uint64_t *plain, *triggered;
	double plain_ns, triggered_ns;
	char what = argc > 2 ? argv[2][0] : 0;

	while (argc > 1 && kind < KINDS && strcmp(argv[1], kinds[kind]))
		kind++;
	if (argc < 3 || kind == KINDS || !what || !strchr("pte", what) || !n || count % BATCH || !waiting ||
	    waiting % BATCH || waiting > WAITING_MAX)
		return usage();
	plain = calloc(n, sizeof(*plain));
	triggered = calloc(n, sizeof(*triggered));
	pieces = calloc(waiting, sizeof(*pieces));
	if (!plain || !triggered || !pieces)
		bench_die("memory");
	side_make(&requester, 1);
	side_make(&responder, 2);
	for (unsigned i = 0; i < 2 * BATCH; i++)
		frames[i].data = packets[i];
	nic_trig_cntr_init(&cntr);
	connect_both();
	for (size_t i = 0; i < n; i++) {
		if (!left)
			work_queue(left = waiting);
		plain[i] = batch(plain_requests);
		triggered[i] = batch(triggered_requests);
		left -= BATCH;
	}
	plain_ns = median(plain, n);
	triggered_ns = median(triggered, n);
	printf("%.1f\n", what == 'p' ? plain_ns : what == 't' ? triggered_ns : triggered_ns - plain_ns);
	sides_close();
	free(plain);
	free(triggered);
	free(pieces);
	return 0;
}
