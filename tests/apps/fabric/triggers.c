/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * triggers.c - triggered operations (fi_trigger(3)): through an alias with FI_TRIGGER, and through calls with that
 * flag.
 */
#include "job.h"

struct fid_cntr *open_counter(struct pair *p)
{
	struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
	struct fid_cntr *cntr = NULL;

	WANT_OK(fi_cntr_open(p->domain, &attr, &cntr, NULL));
	return cntr;
}

void await_count(struct fid_cntr *cntr, uint64_t value, uint64_t errors)
{
	int rc = fi_cntr_wait(cntr, value, errors && fi_cntr_readerr(cntr) == errors ? 0 : PATIENCE_MS);

	while (rc == -FI_EAVAIL && fi_cntr_readerr(cntr) < errors)
		rc = fi_cntr_wait(cntr, value, PATIENCE_MS);
	WANT(fi_cntr_read(cntr), value);
	WANT(fi_cntr_readerr(cntr), errors);
}

static struct fi_triggered_context when(struct fid_cntr *cntr, size_t threshold)
{
	return (struct fi_triggered_context){.event_type = FI_TRIGGER_THRESHOLD,
					     .trigger.threshold = {.cntr = cntr, .threshold = threshold}};
}

/** @return an alias of ep. In this direction (FI_TRANSMIT or FI_RECV), requests through the alias are triggered
 * operations. */
static struct fid_ep *alias_of(struct fid_ep *ep, uint64_t direction)
{
	struct fid_ep *alias = ep;

	WANT_OK(fi_ep_alias(ep, &alias, direction | FI_TRIGGER));
	return alias;
}

void case_triggered_messages(struct pair *p)
{
	struct fid_cntr *cntr = open_counter(p), *other = open_counter(p);
	struct fid_ep *out = alias_of(p->a.ep, FI_TRANSMIT), *in = alias_of(p->b.ep, FI_RECV);
	struct fi_triggered_context send = when(cntr, 1), tsend = when(cntr, 2), recv = when(other, 1);
	struct fi_triggered_context2 trecv = {.event_type = FI_TRIGGER_THRESHOLD,
					      .trigger.threshold = {.cntr = other, .threshold = 1}};
	struct iovec iov = {p->there + 64, WORD};
	struct fi_msg_tagged msg = {
		.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .tag = 5, .context = &trecv};
	uint64_t sends = fi_cntr_read(p->a.cntr[SENDS]);

	memset(p->there, 0, 128);
	strcpy(p->here, "too early");
	WANT_OK(fi_send(out, p->here, WORD, NULL, p->b.addr, &send));
	WANT_OK(fi_tsend(out, p->here + WORD, WORD, NULL, p->b.addr, 5, &tsend));
	WANT_OK(fi_recv(in, p->there, WORD, NULL, FI_ADDR_UNSPEC, &recv));
	WANT_OK(fi_trecvmsg(p->b.ep, &msg, FI_TRIGGER | FI_COMPLETION));
	memset(&iov, 0, sizeof(iov)); /* the call has copied the array, which may change from now on */
	nothing(p, p->a.tx);
	memcpy(p->here, "message.message2", 2 * WORD);
	WANT_OK(fi_cntr_add(cntr, 1));
	await(p, p->a.tx);
	WANT(p->done.op_context == &send, 1);
	WANT(p->done.flags, FI_MSG | FI_SEND);
	nothing(p, p->b.rx);
	WANT_OK(fi_cntr_adderr(other, 1)); /* a counter's errors count towards the threshold as well */
	await(p, p->b.rx);
	WANT(p->done.op_context == &recv, 1);
	WANT(memcmp(p->there, "message.", WORD), 0);
	WANT_OK(fi_cntr_set(cntr, 2));
	await(p, p->a.tx);
	WANT(p->done.op_context == &tsend, 1);
	await(p, p->b.rx);
	WANT(p->done.op_context == &trecv, 1);
	WANT(memcmp(p->there + 64, "message2", WORD), 0);
	WANT(fi_cntr_read(p->a.cntr[SENDS]), sends + 2);
	WANT_OK(fi_close(&out->fid));
	WANT_OK(fi_close(&in->fid));
	WANT_OK(fi_close(&cntr->fid));
	WANT_OK(fi_close(&other->fid));
}

/* Each operation is triggered by the endpoint's own counter for the previous operation. */
void case_triggered_memory(struct pair *p)
{
	struct fid_ep *out = alias_of(p->a.ep, FI_TRANSMIT);
	uint64_t writes = fi_cntr_read(p->a.cntr[WRITES]) + fi_cntr_readerr(p->a.cntr[WRITES]);
	uint64_t reads = fi_cntr_read(p->a.cntr[READS]) + fi_cntr_readerr(p->a.cntr[READS]);
	struct fi_triggered_context write = when(p->a.cntr[SENDS], 0), sum = when(p->a.cntr[WRITES], writes + 1),
				    fetch = when(p->a.cntr[WRITES], writes + 2),
				    swap = when(p->a.cntr[READS], reads + 1), read = when(p->a.cntr[READS], reads + 2);
	uint64_t *there = (uint64_t *)p->there, five = 5, one = 1, compare = 7, swapped = 9, result[3] = {0};

	/* The operations are posted in the reverse of their order of execution: only the last one posted can start at
	 * once. */
	WANT_OK(fi_read(out, &result[2], WORD, NULL, p->b.addr, p->base, p->key, &read));
	WANT_OK(fi_compare_atomic(out, &swapped, 1, NULL, &compare, NULL, &result[1], NULL, p->b.addr, p->base, p->key,
				  FI_UINT64, FI_CSWAP, &swap));
	WANT_OK(fi_fetch_atomic(out, &one, 1, NULL, &result[0], NULL, p->b.addr, p->base, p->key, FI_UINT64, FI_SUM,
				&fetch));
	WANT_OK(fi_atomic(out, &one, 1, NULL, p->b.addr, p->base, p->key, FI_UINT64, FI_SUM, &sum));
	nothing(p, p->a.tx);
	there[0] = 1000;
	WANT_OK(fi_write(out, &five, WORD, NULL, p->b.addr, p->base, p->key, &write));
	await(p, p->a.tx);
	WANT(p->done.op_context == &write, 1);
	await(p, p->a.tx);
	WANT(p->done.op_context == &sum, 1);
	await(p, p->a.tx);
	WANT(p->done.op_context == &fetch, 1);
	await(p, p->a.tx);
	WANT(p->done.op_context == &swap, 1);
	await(p, p->a.tx);
	WANT(p->done.op_context == &read, 1);
	WANT(result[0], 6);
	WANT(result[1], 7);
	WANT(result[2], 9);
	WANT_OK(fi_close(&out->fid));
}

void case_triggered_order(struct pair *p)
{
	const size_t thresholds[] = {7, 3, 7, 5, 3, 9}, order[] = {1, 4, 3, 0, 2, 5};
	struct fid_cntr *cntr = open_counter(p);
	struct fid_ep *out = alias_of(p->a.ep, FI_TRANSMIT);
	struct fi_triggered_context context[6];

	for (unsigned i = 0; i < 6; i++) {
		context[i] = when(cntr, thresholds[i]);
		WANT_OK(fi_recv(p->b.ep, p->there + i, 1, NULL, FI_ADDR_UNSPEC, NULL));
		p->here[i] = (char)('0' + i);
		WANT_OK(fi_send(out, p->here + i, 1, NULL, p->b.addr, &context[i]));
	}
	WANT_OK(fi_cntr_add(cntr, 9));
	for (unsigned i = 0; i < 6; i++) {
		await(p, p->a.tx);
		WANT(p->done.op_context == &context[order[i]], 1);
		await(p, p->b.rx);
		WANT(p->there[i], '0' + order[i]);
	}
	WANT_OK(fi_close(&out->fid));
	WANT_OK(fi_close(&cntr->fid));
}

void case_triggered_cancel(struct pair *p)
{
	struct fid_cntr *cntr = open_counter(p);
	struct fid_ep *out = alias_of(p->a.ep, FI_TRANSMIT);
	struct fi_triggered_context one = when(cntr, 1), two = when(cntr, 1);

	WANT_OK(fi_send(out, "1", 1, NULL, p->b.addr, &one));
	WANT_OK(fi_send(out, "2", 1, NULL, p->b.addr, &two));
	WANT(fi_close(&cntr->fid), -FI_EBUSY);
	WANT_OK(fi_cancel(&p->a.ep->fid, &one));
	await_error(p, p->a.tx, FI_ECANCELED);
	WANT(p->error.op_context == &one, 1);
	WANT(fi_cancel(&p->a.ep->fid, &one), -FI_ENOENT);
	WANT_OK(fi_recv(p->b.ep, p->there, 1, NULL, FI_ADDR_UNSPEC, NULL));
	WANT_OK(fi_cntr_add(cntr, 1));
	await(p, p->a.tx);
	WANT(p->done.op_context == &two, 1);
	await(p, p->b.rx);
	WANT(p->there[0], '2');
	WANT(fi_cancel(&p->a.ep->fid, &two), -FI_ENOENT);
	/* When two operations have the same context, fi_cancel cancels the older one. The message that arrives shows
	 * which one is left. */
	WANT_OK(fi_cntr_set(cntr, 0));
	WANT_OK(fi_send(out, "3", 1, NULL, p->b.addr, &one));
	WANT_OK(fi_send(out, "4", 1, NULL, p->b.addr, &one));
	WANT_OK(fi_cancel(&p->a.ep->fid, &one));
	await_error(p, p->a.tx, FI_ECANCELED);
	WANT_OK(fi_recv(p->b.ep, p->there, 1, NULL, FI_ADDR_UNSPEC, NULL));
	WANT_OK(fi_cntr_add(cntr, 1));
	await(p, p->a.tx);
	await(p, p->b.rx);
	WANT(p->there[0], '4');
	WANT_OK(fi_close(&out->fid));
	WANT_OK(fi_close(&cntr->fid));
}

void case_triggered_mistakes(struct pair *p)
{
	struct fid_cntr *cntr = open_counter(p);
	struct fid_ep *out = alias_of(p->a.ep, FI_TRANSMIT), *plain, *none_such;
	struct fi_info *info = fi_dupinfo(p->info);
	struct fi_triggered_context good = when(cntr, 1), xpu = good, bad = good, none = good;
	struct iovec iov = {p->here, 1};
	struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = p->b.addr, .context = &good};

	xpu.event_type = FI_TRIGGER_XPU;
	bad.event_type = (enum fi_trigger_event)77;
	none.trigger.threshold.cntr = NULL;
	WANT(fi_inject(out, p->here, 1, p->b.addr), -FI_ENOSYS);
	WANT(fi_tinject(out, p->here, 1, p->b.addr, 1), -FI_ENOSYS);
	WANT(fi_inject_write(out, p->here, 1, p->b.addr, p->base, p->key), -FI_ENOSYS);
	WANT(fi_inject_atomic(out, p->here, 1, p->b.addr, p->base, p->key, FI_UINT8, FI_SUM), -FI_ENOSYS);
	WANT(fi_sendmsg(p->a.ep, &msg, FI_TRIGGER | FI_INJECT), -FI_ENOSYS);
	WANT(fi_send(out, p->here, 1, NULL, p->b.addr, NULL), -FI_EINVAL);
	WANT(fi_send(out, p->here, 1, NULL, p->b.addr, &xpu), -FI_ENOSYS);
	WANT(fi_send(out, p->here, 1, NULL, p->b.addr, &bad), -FI_EINVAL);
	WANT(fi_send(out, p->here, 1, NULL, p->b.addr, &none), -FI_EINVAL);
	WANT(fi_send(out, p->here, 1, NULL, 999, &good), -FI_EINVAL);
	WANT(fi_send(out, p->here, p->info->ep_attr->max_msg_size + 1, NULL, p->b.addr, &good), -FI_EMSGSIZE);
	WANT(fi_write(out, p->here, 1, NULL, p->b.addr, p->base, UINT64_C(1) << 32, &good), -FI_EINVAL);
	WANT(fi_atomic(out, p->here, 1, NULL, p->b.addr, p->base, p->key, FI_FLOAT, FI_BOR, &good), -FI_EOPNOTSUPP);
	WANT(fi_sendmsg(p->a.ep, &msg, FI_TRIGGER | FI_PEEK), -FI_ENOSYS);
	/* An endpoint without the FI_TRIGGER capability refuses the flag. */
	info->caps &= ~FI_TRIGGER;
	WANT_OK(fi_endpoint(p->domain, info, &plain, NULL));
	WANT(fi_sendmsg(plain, &msg, FI_TRIGGER), -FI_EOPNOTSUPP);
	WANT_OK(fi_close(&plain->fid));
	plain = job_endpoint(p, info, NULL);
	WANT(fi_ep_alias(plain, &none_such, FI_TRANSMIT | FI_TRIGGER), -FI_EBADFLAGS);
	WANT(fi_sendmsg(plain, &msg, FI_TRIGGER), -FI_EOPNOTSUPP);
	WANT_OK(fi_close(&plain->fid));
	fi_freeinfo(info);
	WANT_OK(fi_close(&out->fid));
	WANT_OK(fi_close(&cntr->fid)); /* no work waits for the counter, so it can be closed */
}
