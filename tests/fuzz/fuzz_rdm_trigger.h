/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_rdm_trigger.h - part of fuzz_rdm.c: two counters of successes and failures, and work that waits for the
 * counters. Work sends or receives a message, or changes a counter. The peers send anything at the same time.
 *
 * Checked: work starts once, not before the counter has reached its threshold, and not while other work starts;
 * canceled work never starts.
 */
#ifndef FUZZ_RDM_TRIGGER_H
#define FUZZ_RDM_TRIGGER_H

#include <errno.h>

#include "fuzz_util.h"
#include "trigger.h"

#define TRIG_WORK  64
#define TRIG_CNTRS 2

struct fuzz_work {
	struct nic_trig_work trig;
	bool waits;
	uint8_t cntr, what;
	uint64_t threshold;
};

static struct fuzz_trigger {
	struct nic *nic;
	struct nic_trig_cntr cntr[TRIG_CNTRS];
	uint64_t most[TRIG_CNTRS]; /* highest value that the counter has had */
	struct fuzz_work work[TRIG_WORK];
	bool amid;
	/** Start the operation that `what` selects. @return -EAGAIN: to be retried later; any other value: done. */
	int (*ask)(uint8_t what);
} trig;

static void trig_change(unsigned cntr, bool failed, uint64_t n, bool set)
{
	struct nic_trig_cntr *c = &trig.cntr[cntr];
	uint64_t sum;

	if (set)
		nic_trig_set(trig.nic, c, failed, n);
	else
		nic_trig_add(trig.nic, c, failed, n);
	sum = nic_trig_part(c, false) + nic_trig_part(c, true);
	if (sum > trig.most[cntr])
		trig.most[cntr] = sum;
}

static int trig_fire(struct nic_trig_work *work)
{
	struct fuzz_work *w = (struct fuzz_work *)work;
	int rc = 0;

	expect(w->waits && !trig.amid && trig.most[w->cntr] >= w->threshold);
	trig.amid = true;
	if (w->what < 128)
		rc = trig.ask(w->what);
	else
		trig_change(w->what & 1, w->what & 2, w->what >> 2 & 3, w->what >> 4 == 8);
	trig.amid = false;
	w->waits = rc == -EAGAIN;
	return w->waits ? -EAGAIN : 0;
}

static void trig_cancel(struct fuzz_work *w)
{
	expect(nic_trig_cancel(&w->trig) == w->waits);
	w->waits = false;
	nic_trig_retry(trig.nic);
}

static void trig_open(struct nic *nic, int (*ask)(uint8_t what))
{
	trig = (struct fuzz_trigger){.nic = nic, .ask = ask};
	for (unsigned i = 0; i < TRIG_CNTRS; i++)
		nic_trig_cntr_init(&trig.cntr[i]);
}

/** An action of the application, chosen by the input. */
static void trig_act(void)
{
	uint8_t how = byte();
	struct fuzz_work *w = &trig.work[byte() % TRIG_WORK];

	if (how & 0x80) {
		trig_change(how & 1, how & 2, byte() % 16, how >> 4 == 0xf);
	} else if (how % 4 == 3 || w->waits) {
		trig_cancel(w);
	} else {
		*w = (struct fuzz_work){.trig.fire = trig_fire, .waits = true, .cntr = how & 1, .what = byte()};
		w->threshold = trig.most[w->cntr] / 2 + byte() % 32;
		expect(nic_trig_queue(trig.nic, &trig.cntr[w->cntr], w->threshold, &w->trig) == 0);
	}
	nic_trig_run(trig.nic);
}

/** Cancel all waiting work, so that no work can start any more. */
static void trig_end(void)
{
	for (unsigned i = 0; i < TRIG_WORK; i++)
		trig_cancel(&trig.work[i]);
	nic_trig_run(trig.nic);
}

static void trig_close(void)
{
	for (unsigned i = 0; i < TRIG_CNTRS; i++)
		nic_trig_cntr_fini(&trig.cntr[i]);
}

#endif
