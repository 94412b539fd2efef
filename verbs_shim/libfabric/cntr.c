/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cntr.c - counters (fi_cntr(3)), which count successful and failed completions of the endpoints bound to them. The NIC
 * keeps the values (trigger.h) and starts triggered work when a value reaches the work's threshold. Values change only
 * with the engine's lock held, and so a waiter misses no change.
 */
#include "provider.h"

static struct ufi_cntr *cntr_of(struct fid_cntr *cntr)
{
	return container_of(cntr, struct ufi_cntr, cntr);
}

/** Wake waiters on an error, or when the value they wait for is reached. Smaller values do not wake them: a counter can
 * change often just to start triggered work. */
static void tell(struct ufi_cntr *cntr, bool error)
{
	if (error)
		ufi_wait_signal(&cntr->wait);
	else
		ufi_wait_signal_value(&cntr->wait, nic_trig_part(&cntr->trig, false));
}

void ufi_cntr_count(struct ufi_cntr *cntr, bool error)
{
	nic_trig_add(cntr->domain->nic, &cntr->trig, error, 1);
	tell(cntr, error);
}

void ufi_cntr_count_served(struct ufi_cntr *reads, struct ufi_cntr *writes)
{
	if (reads)
		ufi_cntr_count(reads, false);
	if (writes && writes != reads)
		ufi_cntr_count(writes, false);
}

void ufi_cntr_change(struct ufi_cntr *cntr, bool error, uint64_t value, bool add)
{
	if (add)
		nic_trig_add(cntr->domain->nic, &cntr->trig, error, value);
	else
		nic_trig_set(cntr->domain->nic, &cntr->trig, error, value);
	tell(cntr, error);
}

/** Read the value (or the number of errors) for the application, and remember what the application has seen. */
static uint64_t part_tell(struct ufi_cntr *cntr, bool errors)
{
	uint64_t now = nic_trig_part(&cntr->trig, errors);

	atomic_store_explicit(errors ? &cntr->errors_seen : &cntr->value_seen, now, memory_order_relaxed);
	return now;
}

static uint64_t cntr_read(struct fid_cntr *fid)
{
	struct ufi_cntr *cntr = cntr_of(fid);

	pmd_try_progress(cntr->domain->engine);
	return part_tell(cntr, false);
}

static uint64_t cntr_readerr(struct fid_cntr *fid)
{
	struct ufi_cntr *cntr = cntr_of(fid);

	pmd_try_progress(cntr->domain->engine);
	return part_tell(cntr, true);
}

/** Change the value, or the number of errors, for the application. Work that this triggers starts before the call
 * returns, unless a queue is full. */
static int cntr_change(struct fid_cntr *fid, bool error, uint64_t value, bool add)
{
	struct ufi_cntr *cntr = cntr_of(fid);

	if (!ufi_enter(cntr->domain))
		return -FI_EIO;
	ufi_cntr_change(cntr, error, value, add);
	ufi_run_work(cntr->domain);
	ufi_leave(cntr->domain);
	return 0;
}

static int cntr_add(struct fid_cntr *fid, uint64_t value)
{
	return cntr_change(fid, false, value, true);
}

static int cntr_set(struct fid_cntr *fid, uint64_t value)
{
	return cntr_change(fid, false, value, false);
}

static int cntr_adderr(struct fid_cntr *fid, uint64_t value)
{
	return cntr_change(fid, true, value, true);
}

static int cntr_seterr(struct fid_cntr *fid, uint64_t value)
{
	return cntr_change(fid, true, value, false);
}

/** Check a counter. @return 0: value reached; -FI_EAVAIL: the number of errors is no longer `errors`; -FI_EAGAIN:
 * neither. Engine lock held. */
static int cntr_look(struct ufi_cntr *cntr, uint64_t threshold, uint64_t errors)
{
	if (part_tell(cntr, false) >= threshold)
		return 0;
	return part_tell(cntr, true) != errors ? -FI_EAVAIL : -FI_EAGAIN;
}

static int cntr_look_or_begin(struct ufi_cntr *cntr, uint64_t threshold, uint64_t errors, unsigned *begun)
{
	struct pmd_engine *engine = cntr->domain->engine;
	int rc = cntr_look(cntr, threshold, errors);

	if (rc == -FI_EAGAIN && pmd_progress(engine, 1))
		rc = cntr_look(cntr, threshold, errors);
	if (rc != -FI_EAGAIN || !ufi_wait_sleeps(&cntr->wait))
		return rc;
	*begun = ufi_wait_begin_from(&cntr->wait, threshold);
	pmd_expect_sleep(engine);
	return -FI_EAGAIN;
}

/* Wait for the threshold. Polls if threads cannot sleep on the counter's wait object. */
static int cntr_wait(struct fid_cntr *fid, uint64_t threshold, int timeout)
{
	struct ufi_cntr *cntr = cntr_of(fid);
	uint64_t deadline_ns = ufi_deadline(timeout);
	uint64_t errors = nic_trig_part(&cntr->trig, true);
	unsigned begun = 0;
	int rc = 0, looked;

	for (;;) {
		if (!ufi_enter(cntr->domain))
			return -FI_EIO;
		looked = cntr_look_or_begin(cntr, threshold, errors, &begun);
		ufi_leave(cntr->domain);
		if (looked != -FI_EAGAIN || rc)
			return looked == -FI_EAGAIN ? rc : looked;
		rc = ufi_wait_sleep(&cntr->wait, cntr->domain->fabric, begun, deadline_ns);
	}
}

/* fi_trywait: have any change make the descriptor readable, because the provider does not know which value the
 * application waits for. */
int ufi_cntr_trywait(struct ufi_cntr *cntr)
{
	int rc;

	if (!ufi_enter(cntr->domain))
		return -FI_EIO;
	pmd_progress(cntr->domain->engine, 1);
	rc = -FI_EAGAIN; /* returned if the application has not seen the latest change */
	if (nic_trig_part(&cntr->trig, false) == atomic_load(&cntr->value_seen) &&
	    nic_trig_part(&cntr->trig, true) == atomic_load(&cntr->errors_seen)) {
		rc = ufi_wait_arm(&cntr->wait);
		pmd_expect_sleep(cntr->domain->engine);
	}
	ufi_leave(cntr->domain);
	return rc;
}

static int cntr_control(struct fid *fid, int command, void *arg)
{
	struct ufi_cntr *cntr = container_of(fid, struct ufi_cntr, cntr.fid);
	int rc;

	if (!ufi_enter(cntr->domain))
		return -FI_EIO;
	rc = ufi_wait_control(&cntr->wait, command, arg);
	ufi_leave(cntr->domain);
	return rc;
}

static int cntr_close(struct fid *fid)
{
	struct ufi_cntr *cntr = container_of(fid, struct ufi_cntr, cntr.fid);
	bool entered = ufi_enter(cntr->domain);
	/* Read `users` under the lock. The thread that drops the last use holds the lock, and may not have finished
	 * when the application sees the final count and closes the counter. */
	bool busy = atomic_load(&cntr->users) != 0;

	if (entered && !busy) {
		list_remove(&cntr->node);
		nic_trig_cntr_fini(&cntr->trig);
	}
	if (entered)
		ufi_leave(cntr->domain);
	if (busy)
		return -FI_EBUSY;
	ufi_waitset_remove(&cntr->wait, &cntr->cntr.fid);
	ufi_wait_fini(&cntr->wait);
	atomic_fetch_sub(&cntr->domain->users, 1);
	free(cntr);
	return 0;
}

static struct fi_ops cntr_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = cntr_close,
	.bind = ufi_no_bind,
	.control = cntr_control,
	.ops_open = ufi_no_ops_open,
};

static struct fi_ops_cntr cntr_ops = {
	.size = sizeof(struct fi_ops_cntr),
	.read = cntr_read,
	.readerr = cntr_readerr,
	.add = cntr_add,
	.set = cntr_set,
	.wait = cntr_wait,
	.adderr = cntr_adderr,
	.seterr = cntr_seterr,
};

int ufi_cntr_open(struct fid_domain *fid, struct fi_cntr_attr *attr, struct fid_cntr **out, void *context)
{
	struct ufi_domain *domain = container_of(fid, struct ufi_domain, domain);
	struct ufi_cntr *cntr;
	int rc;

	if (attr && (attr->events != FI_CNTR_EVENTS_COMP || attr->flags))
		return -FI_EINVAL;
	cntr = calloc(1, sizeof(*cntr));
	if (!cntr)
		return -FI_ENOMEM;
	rc = ufi_wait_init(&cntr->wait, attr ? attr->wait_obj : FI_WAIT_NONE);
	if (rc) {
		free(cntr);
		return rc;
	}
	cntr->domain = domain;
	cntr->cntr.fid.fclass = FI_CLASS_CNTR;
	cntr->cntr.fid.context = context;
	cntr->cntr.fid.ops = &cntr_fid_ops;
	cntr->cntr.ops = &cntr_ops;
	nic_trig_cntr_init(&cntr->trig);
	list_init(&cntr->node);
	if (ufi_enter(domain)) {
		list_append(&domain->cntrs, &cntr->node);
		ufi_leave(domain);
	}
	atomic_fetch_add(&domain->users, 1);
	rc = ufi_waitset_add(attr ? attr->wait_set : NULL, domain->fabric, &cntr->cntr.fid, &cntr->wait);
	if (rc) {
		cntr_close(&cntr->cntr.fid);
		return rc;
	}
	*out = &cntr->cntr;
	return 0;
}
