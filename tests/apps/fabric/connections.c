/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * connections.c - passive endpoints, the endpoints that accept their connection requests, and how both kinds close; and
 * datagram endpoints.
 */
#include <netinet/in.h>

#include "job.h"

/** A passive endpoint and connected endpoints in the pair's domain. All of them report to one event queue. */
struct meeting {
	struct pair *p;
	struct fi_info *info;
	struct fid_eq *eq;
	struct fid_cq *cq;
	struct fid_pep *pep;
	struct sockaddr_in where;
	struct fi_eq_err_entry error;
	union {
		char room[300];
		struct fi_eq_cm_entry entry;
	} told; /* the last event, with its connection data */
};

static struct fi_info *info_of(enum fi_ep_type type, uint64_t caps)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;

	hints->fabric_attr->prov_name = strdup("uroce");
	hints->ep_attr->type = type;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->caps = caps;
	WANT_OK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
	fi_freeinfo(hints);
	return info;
}

static void pep_open(struct meeting *m)
{
	size_t len = sizeof(m->where);

	WANT_OK(fi_passive_ep(m->p->fabric, m->info, &m->pep, NULL));
	WANT(fi_listen(m->pep), -FI_ENOEQ);
	WANT_OK(fi_pep_bind(m->pep, &m->eq->fid, 0));
	WANT_OK(fi_listen(m->pep));
	WANT(fi_listen(m->pep), -FI_EOPBADSTATE);
	WANT_OK(fi_getname(&m->pep->fid, &m->where, &len));
	WANT(m->where.sin_port != 0, 1);
}

static void meeting_open(struct meeting *m, struct pair *p)
{
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_UNSPEC};
	struct fi_eq_attr eq = {.wait_obj = FI_WAIT_UNSPEC};

	memset(m, 0, sizeof(*m));
	m->p = p;
	m->info = info_of(FI_EP_MSG, FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_TRIGGER);
	WANT_OK(fi_eq_open(p->fabric, &eq, &m->eq, NULL));
	WANT_OK(fi_cq_open(p->domain, &cq, &m->cq, NULL));
	pep_open(m);
}

static void meeting_close(struct meeting *m)
{
	uint32_t event;

	if (m->pep)
		WANT_OK(fi_close(&m->pep->fid));
	for (unsigned i = 0; i < 2; i++) /* what the progress of the first brings, the second reports */
		WANT(fi_eq_read(m->eq, &event, &m->told, sizeof(m->told), 0), -FI_EAGAIN);
	WANT_OK(fi_close(&m->eq->fid));
	WANT_OK(fi_close(&m->cq->fid));
	fi_freeinfo(m->info);
}

static struct fid_ep *ep_open(struct meeting *m, struct fi_info *info)
{
	struct fid_ep *ep = NULL;

	WANT_OK(fi_endpoint(m->p->domain, info, &ep, NULL));
	WANT(fi_enable(ep), -FI_ENOEQ);
	WANT(fi_ep_bind(ep, &m->p->av->fid, 0), -FI_EINVAL);
	WANT_OK(fi_ep_bind(ep, &m->eq->fid, 0));
	WANT_OK(fi_ep_bind(ep, &m->cq->fid, FI_TRANSMIT | FI_RECV));
	return ep;
}

#define await_event(m, event, who, words) await_event_at(m, event, who, words, __LINE__)
static void await_event_at(struct meeting *m, uint32_t event, const void *who, const char *words, int line)
{
	uint32_t got = 0;
	ssize_t n = fi_eq_sread(m->eq, &got, &m->told, sizeof(m->told), PATIENCE_MS, 0);
	ssize_t want = (ssize_t)(sizeof(m->told.entry) + strlen(words));

	if (n != want || got != event || (const void *)m->told.entry.fid != who ||
	    memcmp(m->told.entry.data, words, strlen(words)) != 0)
		check_failed(__FILE__, line, "event", n == want ? (long)got : (long)n, (long)event);
}

static void await_refusal(struct meeting *m, const struct fid_ep *who, const char *words)
{
	uint32_t event;

	memset(&m->error, 0, sizeof(m->error));
	WANT(fi_eq_sread(m->eq, &event, &m->told, sizeof(m->told), PATIENCE_MS, 0), -FI_EAVAIL);
	WANT(fi_eq_readerr(m->eq, &m->error, 0), sizeof(m->error));
	WANT(m->error.err, FI_ECONNREFUSED);
	WANT(m->error.fid == &who->fid, 1);
	WANT(m->error.err_data_size, strlen(words));
	if (*words)
		WANT(memcmp(m->error.err_data, words, strlen(words)), 0);
}

/** Connect `ep` to the passive endpoint. `*chosen` receives a new endpoint, which accepts the request. */
static void connect_to(struct meeting *m, struct fid_ep *ep, struct fid_ep **chosen)
{
	struct fid_ep *another;
	struct fi_info *info;

	WANT_OK(fi_connect(ep, &m->where, "hello", 5));
	await_event(m, FI_CONNREQ, m->pep, "hello");
	info = m->told.entry.info;
	WANT(fi_connect(ep, &m->where, NULL, 0), -FI_EALREADY);
	WANT(fi_send(ep, "x", 1, NULL, 0, NULL), -FI_ENOTCONN);
	*chosen = ep_open(m, info);
	WANT(fi_endpoint(m->p->domain, info, &another, NULL), -FI_EINVAL);
	WANT(fi_connect(*chosen, &m->where, NULL, 0), -FI_EINVAL);
	WANT_OK(fi_accept(*chosen, "welcome", 7));
	WANT(fi_reject(m->pep, info->handle, NULL, 0), -FI_EINVAL);
	await_event(m, FI_CONNECTED, *chosen, "");
	await_event(m, FI_CONNECTED, ep, "welcome");
	fi_freeinfo(info);
}

static void talk(struct meeting *m, struct fid_ep *from, struct fid_ep *to)
{
	struct pair *p = m->p;
	char buf[8] = "";

	WANT_OK(fi_recv(to, buf, sizeof(buf), NULL, 0, &p->contexts[1]));
	WANT_OK(fi_inject(from, "abc", 4, 0));
	await(p, m->cq);
	WANT(p->done.op_context == &p->contexts[1], 1);
	WANT(strcmp(buf, "abc"), 0);
	memset(p->here, 7, 100);
	WANT_OK(fi_write(from, p->here, 100, NULL, FI_ADDR_UNSPEC, p->base, p->key, NULL));
	await(p, m->cq);
	WANT(memcmp(p->here, p->there, 100), 0);
}

/** Two triggered messages that wait for a counter. `goes` is sent when the counter reaches 1. `fails` waits for 2,
 * which the counter reaches only after the connection has ended. */
struct later {
	struct fid_cntr *cntr;
	struct fi_triggered_context goes, fails;
};

static void say_later(struct pair *p, struct later *l, struct fid_ep *ep, fi_addr_t to)
{
	struct iovec iov = {p->here, 4};
	struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = to, .context = &l->goes};

	l->cntr = open_counter(p);
	l->goes.event_type = l->fails.event_type = FI_TRIGGER_THRESHOLD;
	l->goes.trigger.threshold = (struct fi_trigger_threshold){l->cntr, 1};
	l->fails.trigger.threshold = (struct fi_trigger_threshold){l->cntr, 2};
	memcpy(p->here, "wait", 4);
	WANT_OK(fi_sendmsg(ep, &msg, FI_TRIGGER | FI_COMPLETION));
	msg.context = &l->fails;
	WANT_OK(fi_sendmsg(ep, &msg, FI_TRIGGER | FI_COMPLETION));
	memcpy(p->here, "said", 4);
	WANT_OK(fi_cntr_add(l->cntr, 1));
}

void case_connection(struct pair *p)
{
	struct fid_ep *a, *b;
	struct meeting m;
	struct sockaddr_in name;
	size_t len = sizeof(name);
	struct later later;

	meeting_open(&m, p);
	a = ep_open(&m, m.info);
	connect_to(&m, a, &b);
	WANT_OK(fi_getname(&b->fid, &name, &len));
	WANT(memcmp(&name, &m.where, sizeof(name)), 0);
	WANT_OK(fi_getpeer(a, &name, &len));
	WANT(memcmp(&name, &m.where, sizeof(name)), 0);
	talk(&m, a, b);
	talk(&m, b, a);
	WANT(fi_connect(a, &m.where, NULL, 0), -FI_EISCONN);
	WANT(fi_accept(b, NULL, 0), -FI_EISCONN);
	say_later(p, &later, a, 0);
	await(p, m.cq);
	WANT(p->done.op_context == &later.goes, 1);
	WANT_OK(fi_recv(b, p->there, 4, NULL, 0, NULL));
	await(p, m.cq);
	WANT(memcmp(p->there, "said", 4), 0);
	WANT_OK(fi_shutdown(b, 0));
	await_event(&m, FI_SHUTDOWN, b, "");
	await_event(&m, FI_SHUTDOWN, a, "");
	WANT(fi_send(a, "x", 1, NULL, 0, NULL), -FI_ENOTCONN);
	WANT_OK(fi_cntr_add(later.cntr, 1));
	await_error(p, m.cq, FI_ENOTCONN);
	WANT(p->error.op_context == &later.fails, 1);
	WANT_OK(fi_close(&later.cntr->fid));
	WANT_OK(fi_shutdown(a, 0));
	WANT_OK(fi_close(&a->fid));
	/* Closing an endpoint shuts down its connection. */
	a = ep_open(&m, m.info);
	WANT_OK(fi_close(&b->fid));
	connect_to(&m, a, &b);
	WANT_OK(fi_close(&a->fid));
	await_event(&m, FI_SHUTDOWN, b, "");
	WANT_OK(fi_close(&b->fid));
	meeting_close(&m);
}

void case_connection_refused(struct pair *p)
{
	struct fid_ep *a, *unused = NULL;
	struct meeting m;
	struct fi_info *info;

	meeting_open(&m, p);
	a = ep_open(&m, m.info);
	WANT_OK(fi_connect(a, &m.where, NULL, 0));
	await_event(&m, FI_CONNREQ, m.pep, "");
	info = m.told.entry.info;
	WANT_OK(fi_endpoint(p->domain, info, &unused, NULL));
	WANT_OK(fi_reject(m.pep, info->handle, "no", 2));
	WANT(fi_reject(m.pep, info->handle, "no", 2), -FI_EINVAL);
	WANT_OK(fi_close(&unused->fid));
	WANT(fi_endpoint(p->domain, info, &unused, NULL), -FI_EINVAL);
	fi_freeinfo(info);
	await_refusal(&m, a, "no");
	WANT(fi_connect(a, &m.where, NULL, 0), -FI_EOPBADSTATE);
	WANT_OK(fi_close(&a->fid));
	/* Closing a passive endpoint rejects its pending connection requests, and generates no event for the passive
	 * endpoint. */
	a = ep_open(&m, m.info);
	WANT_OK(fi_connect(a, &m.where, "hello", 5));
	await_event(&m, FI_CONNREQ, m.pep, "hello");
	fi_freeinfo(m.told.entry.info);
	WANT_OK(fi_close(&m.pep->fid));
	m.pep = NULL;
	await_refusal(&m, a, "");
	WANT_OK(fi_close(&a->fid));
	/* A connection request is refused when nobody listens at its address, and when the address belongs to an
	 * endpoint that has no connections, such as p->a. */
	a = ep_open(&m, m.info);
	WANT_OK(fi_connect(a, &m.where, NULL, 0));
	await_refusal(&m, a, "");
	WANT_OK(fi_close(&a->fid));
	a = ep_open(&m, m.info);
	WANT_OK(fi_getname(&p->a.ep->fid, &m.where, &(size_t){sizeof(m.where)}));
	WANT_OK(fi_connect(a, &m.where, NULL, 0));
	await_refusal(&m, a, "");
	WANT_OK(fi_close(&a->fid));
	meeting_close(&m);
}

void case_connection_mistakes(struct pair *p)
{
	char data[256] = "";
	struct meeting m;
	struct fid_ep *a;
	struct sockaddr_in name;
	size_t len = sizeof(size_t), max = 0;

	meeting_open(&m, p);
	a = ep_open(&m, m.info);
	WANT_OK(fi_getopt(&m.pep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &max, &len));
	WANT(max > 0 && max < sizeof(data), 1);
	WANT(fi_connect(a, &m.where, data, max + 1), -FI_EINVAL);
	WANT(fi_connect(a, NULL, NULL, 0), -FI_EINVAL);
	WANT(fi_accept(a, NULL, 0), -FI_EINVAL);
	WANT(fi_shutdown(a, 0), -FI_ENOTCONN);
	WANT(fi_shutdown(a, 1), -FI_EINVAL);
	len = sizeof(name);
	WANT(fi_getpeer(a, &name, &len), -FI_ENOTCONN);
	WANT(fi_setname(&m.pep->fid, &m.where, sizeof(m.where)), -FI_EOPBADSTATE);
	WANT(fi_connect(p->a.ep, &m.where, NULL, 0), -FI_EOPNOTSUPP);
	WANT(fi_accept(p->a.ep, NULL, 0), -FI_EOPNOTSUPP);
	WANT(fi_shutdown(p->a.ep, 0), -FI_EOPNOTSUPP);
	WANT_OK(fi_close(&a->fid));
	meeting_close(&m);
}

/** A port chosen by a passive endpoint passes to an endpoint that is opened with the passive endpoint as its handle. */
void case_port_taken_over(struct pair *p)
{
	struct fid_ep *a, *b, *none;
	struct meeting m;
	struct fid_pep *finder = NULL;
	struct sockaddr_in any = {.sin_family = AF_INET}, found, name;
	size_t len = sizeof(found);

	meeting_open(&m, p);
	WANT_OK(fi_passive_ep(p->fabric, m.info, &finder, NULL));
	WANT_OK(fi_setname(&finder->fid, &any, sizeof(any)));
	WANT_OK(fi_getname(&finder->fid, &found, &len));
	WANT(found.sin_port != 0, 1);
	m.info->handle = &m.pep->fid;
	/* A listening passive endpoint cannot be a handle. */
	WANT(fi_endpoint(p->domain, m.info, &none, NULL), -FI_EINVAL);
	m.info->handle = &finder->fid;
	a = ep_open(&m, m.info);
	WANT(fi_endpoint(p->domain, m.info, &none, NULL), -FI_EINVAL);
	m.info->handle = NULL;
	WANT_OK(fi_close(&finder->fid));
	connect_to(&m, a, &b);
	WANT_OK(fi_getname(&a->fid, &name, &len));
	WANT(name.sin_port, found.sin_port);
	WANT_OK(fi_getpeer(b, &name, &len));
	WANT(name.sin_port, found.sin_port);
	WANT_OK(fi_close(&b->fid));
	await_event(&m, FI_SHUTDOWN, a, "");
	WANT_OK(fi_close(&a->fid));
	meeting_close(&m);
}

void case_datagrams(struct pair *p)
{
	struct fi_info *info = info_of(FI_EP_DGRAM, FI_MSG | FI_SOURCE | FI_TRIGGER);
	size_t max = info->ep_attr->max_msg_size, len = sizeof(struct sockaddr_in);
	struct sockaddr_in names[2];
	struct fid_ep *ep[2];
	fi_addr_t at[2];
	struct later later;
	struct job job;

	for (int i = 0; i < 2; i++) {
		WANT_OK(fi_endpoint(p->domain, info, &ep[i], NULL));
		WANT_OK(fi_ep_bind(ep[i], &p->av->fid, 0));
		WANT_OK(fi_ep_bind(ep[i], &p->a.tx->fid, FI_TRANSMIT));
		WANT_OK(fi_ep_bind(ep[i], &p->a.rx->fid, FI_RECV));
		WANT_OK(fi_enable(ep[i]));
		WANT_OK(fi_getname(&ep[i]->fid, &names[i], &len));
	}
	WANT(fi_av_insert(p->av, names, 2, at, 0, NULL), 2);
	WANT_OK(fi_recv(ep[1], p->there, LONG_LEN, NULL, FI_ADDR_UNSPEC, NULL));
	memset(p->here, 3, max);
	WANT_OK(fi_senddata(ep[0], p->here, max, NULL, 77, at[1], NULL));
	await(p, p->a.tx);
	await(p, p->a.rx);
	WANT(p->source, at[0]); /* ep[1] knows the source's address, though it has never sent there */
	WANT(p->done.len, max);
	WANT(p->done.data, 77);
	WANT(memcmp(p->here, p->there, max), 0);
	WANT(fi_send(ep[0], p->here, max + 1, NULL, at[1], NULL), -FI_EMSGSIZE);
	WANT(fi_tsend(ep[0], p->here, 1, NULL, at[1], 1, NULL), -FI_EOPNOTSUPP);
	job_init(&job, FI_OP_TSEND, p->a.cntr[SENDS], 0, NULL);
	job_tagged(&job, ep[0], p->here, 1, at[1], 1);
	WANT(job_queue(p, &job), -FI_EOPNOTSUPP);
	WANT(fi_write(ep[0], p->here, 1, NULL, at[1], p->base, p->key, NULL), -FI_EOPNOTSUPP);
	WANT_OK(fi_recv(ep[1], p->there, 4, NULL, FI_ADDR_UNSPEC, NULL));
	say_later(p, &later, ep[0], at[1]);
	await(p, p->a.tx);
	await(p, p->a.rx);
	WANT(memcmp(p->there, "said", 4), 0);
	WANT_OK(fi_av_remove(p->av, at, 2, 0));
	WANT_OK(fi_cntr_add(later.cntr, 1));
	await_error(p, p->a.tx, FI_EINVAL);
	WANT(p->error.op_context == &later.fails, 1);
	WANT_OK(fi_close(&later.cntr->fid));
	for (int i = 0; i < 2; i++)
		WANT_OK(fi_close(&ep[i]->fid));
	fi_freeinfo(info);
}
