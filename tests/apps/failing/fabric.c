/* SPDX-License-Identifier: BSD-3-Clause */
/* fabric.c - the scenario of runner.h through libfabric: reliable datagram endpoints, messages, RMA and an atomic,
 * and a message back. */
#include <errno.h>
#include <poll.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runner.h"

#define SHORT	 64u
#define LONG	 65536u
#define AREA	 (4 * LONG)
#define AT_SEND	 0u
#define AT_READ	 LONG
#define AT_RECV	 (2 * LONG)
#define AT_WRITE LONG /* offset in the partner's memory */
#define AT_WORD	 (3 * LONG)
#define WAIT	 20.0 /* seconds */
#define NAME	 64

struct side {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fid_mr *mr;
	uint8_t *area;
	fi_addr_t peer;
};

struct hello {
	uint8_t name[NAME];
	uint64_t key, addr;
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/** For calls that return a negative errno. */
#define MUST(phase, call)                                                                                              \
	do {                                                                                                           \
		ssize_t code = call;                                                                                   \
		if (code < 0)                                                                                          \
			return failed(f, phase, #call, (int)-code);                                                    \
	} while (0)

static bool side_open(struct side *s, struct failure *f)
{
	struct fi_info *hints = fi_allocinfo();
	struct fi_av_attr av = {.type = FI_AV_TABLE};
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_CONTEXT};

	hints->caps = FI_MSG | FI_RMA | FI_ATOMIC;
	hints->ep_attr->type = FI_EP_RDM;
	hints->mode = FI_CONTEXT;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->fabric_attr->prov_name = strdup("uroce");
	int rc = fi_getinfo(FI_VERSION(1, 15), NULL, NULL, 0, hints, &s->info);

	fi_freeinfo(hints);
	if (rc)
		return failed(f, PHASE_OPEN, "fi_getinfo", -rc);
	MUST(PHASE_OPEN, fi_fabric(s->info->fabric_attr, &s->fabric, NULL));
	MUST(PHASE_OPEN, fi_domain(s->fabric, s->info, &s->domain, NULL));
	MUST(PHASE_OPEN, fi_av_open(s->domain, &av, &s->av, NULL));
	MUST(PHASE_OPEN, fi_cq_open(s->domain, &cq, &s->cq, NULL));
	MUST(PHASE_OPEN, fi_endpoint(s->domain, s->info, &s->ep, NULL));
	MUST(PHASE_OPEN, fi_ep_bind(s->ep, &s->av->fid, 0));
	MUST(PHASE_OPEN, fi_ep_bind(s->ep, &s->cq->fid, FI_TRANSMIT | FI_RECV));
	MUST(PHASE_OPEN, fi_enable(s->ep));
	s->area = calloc(1, AREA);
	MUST(PHASE_OPEN, s->area ? 0 : -ENOMEM);
	MUST(PHASE_OPEN, fi_mr_reg(s->domain, s->area, AREA,
				   FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0,
				   &s->mr, NULL));
	return true;
}

static bool side_close(struct side *s, struct failure *f)
{
	struct fid *fids[] = {s->ep ? &s->ep->fid : NULL,	  s->mr ? &s->mr->fid : NULL,
			      s->cq ? &s->cq->fid : NULL,	  s->av ? &s->av->fid : NULL,
			      s->domain ? &s->domain->fid : NULL, s->fabric ? &s->fabric->fid : NULL};
	bool well = true;

	for (unsigned i = 0; i < sizeof(fids) / sizeof(fids[0]); i++) {
		int rc = fids[i] ? fi_close(fids[i]) : 0;

		if (rc)
			well = failed(f, PHASE_CLOSE, "fi_close", -rc);
	}
	if (s->info)
		fi_freeinfo(s->info);
	free(s->area);
	return well;
}

static bool hello_of(struct side *s, struct hello *h, struct failure *f)
{
	size_t len = sizeof(h->name);

	memset(h, 0, sizeof(*h));
	h->key = fi_mr_key(s->mr);
	h->addr = (uintptr_t)s->area;
	MUST(PHASE_CONNECT, fi_getname(&s->ep->fid, h->name, &len));
	return true;
}

static bool know(struct side *s, const struct hello *h, struct failure *f)
{
	int rc = fi_av_insert(s->av, h->name, 1, &s->peer, 0, NULL);

	return rc == 1 || failed(f, PHASE_CONNECT, "fi_av_insert", rc < 0 ? -rc : ENOMEM);
}

/** Wait for n completions. `watched`: give up when the other side has closed this socket; -1: do not watch. */
static bool completions(struct side *s, unsigned n, int watched, struct failure *f)
{
	double end = now() + WAIT;

	while (n > 0) {
		struct pollfd p = {.fd = watched, .events = POLLIN};
		struct fi_cq_err_entry error = {0};
		struct fi_cq_entry entry;
		ssize_t got = fi_cq_read(s->cq, &entry, 1);

		if (got == -FI_EAVAIL) {
			fi_cq_readerr(s->cq, &error, 0);
			return failed(f, PHASE_TRANSFER, fi_cq_strerror(s->cq, error.prov_errno, NULL, NULL, 0),
				      error.err);
		}
		if (got < 0 && got != -FI_EAGAIN)
			return failed(f, PHASE_TRANSFER, "fi_cq_read", (int)-got);
		n -= got == 1;
		if (got != 1 && (now() > end || (watched >= 0 && poll(&p, 1, 0) != 0)))
			return lost(f, PHASE_TRANSFER, "no completion", 0);
	}
	return true;
}

/** Repeat the call while it returns -FI_EAGAIN, for a limited time. */
#define TRY(call)                                                                                                      \
	do {                                                                                                           \
		double end = now() + WAIT;                                                                             \
		ssize_t got;                                                                                           \
		while ((got = call) == -FI_EAGAIN && now() < end)                                                      \
			fi_cq_read(s->cq, NULL, 0);                                                                    \
		if (got == -FI_EAGAIN)                                                                                 \
			return lost(f, PHASE_TRANSFER, #call, 0);                                                      \
		if (got)                                                                                               \
			return failed(f, PHASE_TRANSFER, #call, (int)-got);                                            \
	} while (0)

static bool transfer(struct side *s, const struct hello *to, struct failure *f)
{
	void *desc = fi_mr_desc(s->mr);
	const uint64_t one = 1;

	memset(s->area + AT_SEND, 1, LONG);
	memcpy(s->area + AT_SEND + SHORT, &one, sizeof(one));
	TRY(fi_recv(s->ep, s->area + AT_RECV, LONG, desc, FI_ADDR_UNSPEC, NULL));
	TRY(fi_send(s->ep, s->area + AT_SEND, SHORT, desc, s->peer, NULL));
	if (!completions(s, 1, -1, f))
		return false;
	TRY(fi_send(s->ep, s->area + AT_SEND, LONG, desc, s->peer, NULL));
	TRY(fi_write(s->ep, s->area + AT_SEND, LONG, desc, s->peer, to->addr + AT_WRITE, to->key, NULL));
	if (!completions(s, 2, -1, f))
		return false;
	TRY(fi_read(s->ep, s->area + AT_READ, LONG, desc, s->peer, to->addr + AT_WRITE, to->key, NULL));
	TRY(fi_atomic(s->ep, s->area + AT_SEND + SHORT, 1, desc, s->peer, to->addr + AT_WORD, to->key, FI_UINT64,
		      FI_SUM, NULL));
	if (!completions(s, 2, -1, f))
		return false;
	if (memcmp(s->area + AT_READ, s->area + AT_SEND, LONG) != 0)
		return failed(f, PHASE_TRANSFER, "wrong data", 0);
	TRY(fi_send(s->ep, s->area + AT_SEND, SHORT, desc, s->peer, NULL)); /* the partner answers this message */
	if (!completions(s, 2, -1, f))
		return false;
	return s->area[AT_RECV] == 2 || failed(f, PHASE_TRANSFER, "wrong answer", 0);
}

static bool talk(struct side *s, int fd, struct failure *f)
{
	struct hello own, peer;

	if (!side_open(s, f))
		return false;
	if (fd < 0)
		return true;
	if (!hello_of(s, &own, f))
		return false;
	if (!say(fd, &own, sizeof(own)) || !hear(fd, &peer, sizeof(peer)))
		return failed(f, PHASE_CONNECT, "the partner does not answer", 0);
	return know(s, &peer, f) && transfer(s, &peer, f);
}

static bool victim(int fd, struct failure *f)
{
	struct side s = {0};
	bool well = talk(&s, fd, f);

	return side_close(&s, f) && well;
}

static bool partner_open(void)
{
	return true;
}

static void serve(struct side *s, int fd, struct failure *f)
{
	struct hello own, peer;
	void *desc;

	if (!side_open(s, f) || !hello_of(s, &own, f) || !hear(fd, &peer, sizeof(peer)) || !know(s, &peer, f))
		return;
	desc = fi_mr_desc(s->mr);
	for (unsigned i = 0; i < 3; i++)
		if (fi_recv(s->ep, s->area + AT_RECV, LONG, desc, FI_ADDR_UNSPEC, NULL))
			return;
	memset(s->area, 2, SHORT);
	if (!say(fd, &own, sizeof(own)) || !completions(s, 3, fd, f))
		return;
	if (fi_send(s->ep, s->area, SHORT, desc, s->peer, NULL) == 0 && completions(s, 1, fd, f))
		hear(fd, &(char){0}, 1); /* returns when the victim has ended */
}

static void partner_serve(int fd)
{
	struct side s = {0};
	struct failure f = {0};

	serve(&s, fd, &f);
	side_close(&s, &f);
}

const struct scenario scenario = {.victim = victim, .partner_open = partner_open, .partner_serve = partner_serve};
