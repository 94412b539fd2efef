/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * addresses.c - address vectors that processes share by name, and an address that several endpoints use in succession.
 * Two vectors with the same name in this process stand in for two processes.
 */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fabric.h"

/* Names in shared memory belong to the user, not to a network namespace or device. Tests that run at the same time need
 * different names. */
const char *unique_name(const char *name, char *out, size_t size)
{
	const char *device = getenv("UROCE_DEVICES");
	struct stat ns = {0};

	stat("/proc/self/ns/net", &ns);
	snprintf(out, size, "%s %s %lu", name, device ? device : "", (unsigned long)ns.st_ino);
	return out;
}

static int open_named(struct pair *p, const char *name, uint64_t flags, struct fi_av_attr *attr, struct fid_av **av)
{
	char unique[400];

	*attr = (struct fi_av_attr){
		.type = FI_AV_TABLE, .name = name ? unique_name(name, unique, sizeof(unique)) : NULL, .flags = flags};
	*av = NULL;
	return fi_av_open(p->domain, attr, av, NULL);
}

static int insert(struct pair *p, struct fid_av *av, struct node *n)
{
	char name[64];
	size_t len = sizeof(name);

	WANT_OK(fi_getname(&n->ep->fid, name, &len));
	return fi_av_insert(av, name, 1, NULL, 0, NULL);
}

/* Open an endpoint bound to the vector `reader`. The endpoint can send to addresses inserted into `writer`, and
 * recognizes messages from these addresses. */
static void talk(struct pair *p, struct fid_av *writer, struct fid_av *reader, const fi_addr_t *map)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_UNSPEC};
	struct fid_ep *ep;
	struct fid_cq *cq;
	fi_addr_t at = 1;
	char buf[8];

	WANT_OK(fi_cq_open(p->domain, &attr, &cq, NULL));
	WANT_OK(fi_endpoint(p->domain, p->info, &ep, NULL));
	WANT_OK(fi_ep_bind(ep, &reader->fid, 0));
	WANT_OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	WANT_OK(fi_enable(ep));
	WANT(fi_send(ep, "x", 1, NULL, 1, NULL), -FI_EINVAL); /* the address has not been inserted yet */
	WANT(insert(p, writer, &p->b), 1);
	WANT(map[1], 1);
	WANT_OK(fi_recv(p->b.ep, buf, sizeof(buf), NULL, FI_ADDR_UNSPEC, NULL));
	WANT_OK(fi_send(ep, "x", 1, NULL, map[1], NULL));
	await(p, p->b.rx);
	await(p, cq);
	WANT_OK(fi_av_remove(writer, &at, 1, 0));
	WANT(fi_send(ep, "x", 1, NULL, 1, NULL), -FI_EINVAL);
	WANT_OK(fi_close(&ep->fid));
	WANT_OK(fi_close(&cq->fid));
}

/* A datagram endpoint can receive only from addresses in its vector. Check each address as soon as it has been
 * inserted. */
static void hear_of(struct pair *p, struct fid_av *writer, struct fid_av *reader)
{
	struct fi_info *info = fi_allocinfo(), *found = NULL;
	struct fid_ep *ep = NULL;

	info->fabric_attr->prov_name = strdup("uroce");
	info->ep_attr->type = FI_EP_DGRAM;
	info->caps = FI_MSG | FI_SOURCE;
	WANT_OK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, info, &found));
	if (found) {
		WANT_OK(fi_endpoint(p->domain, found, &ep, NULL));
		WANT_OK(fi_ep_bind(ep, &reader->fid, 0));
		WANT_OK(fi_ep_bind(ep, &p->a.tx->fid, FI_TRANSMIT));
		WANT_OK(fi_ep_bind(ep, &p->a.rx->fid, FI_RECV));
		WANT_OK(fi_enable(ep));
		for (fi_addr_t i = 4; i < 8; i++) {
			struct sockaddr_in back;
			size_t len = sizeof(back);

			WANT(insert(p, writer, &p->b), 1);
			WANT_OK(fi_av_lookup(reader, i, &back, &len));
			WANT_OK(fi_send(ep, "x", 1, NULL, i, NULL));
			await(p, p->a.tx);
		}
		WANT_OK(fi_close(&ep->fid));
	}
	fi_freeinfo(found);
	fi_freeinfo(info);
}

void case_shared_address_vector(struct pair *p)
{
	static const struct sockaddr_in nobody;
	struct fi_av_attr one, two;
	struct fid_av *writer, *reader;
	struct sockaddr_in back;
	size_t len = sizeof(back);
	char name[300];
	fi_addr_t at = 0;

	WANT(open_named(p, "uroce test", FI_READ, &one, &reader), -FI_ENOENT);
	WANT(open_named(p, NULL, FI_READ, &one, &reader), -FI_EINVAL);
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	WANT(open_named(p, name, 0, &one, &writer), -FI_EINVAL);
	WANT_OK(open_named(p, "uroce test", 0, &one, &writer));
	WANT_OK(open_named(p, "uroce test", FI_READ, &two, &reader));
	if (failures)
		return;
	WANT(insert(p, reader, &p->a), -FI_EACCES);
	WANT(insert(p, writer, &p->a), 1);
	WANT(((fi_addr_t *)two.map_addr)[0], 0);
	WANT_OK(fi_av_lookup(reader, 0, &back, &len));
	WANT(fi_av_remove(reader, &at, 1, 0), -FI_EACCES);
	talk(p, writer, reader, two.map_addr);
	/* The index of a removed address is not reused; an index whose address was invalid stays empty. */
	WANT(fi_av_insert(writer, &nobody, 1, NULL, 0, NULL), 0);
	WANT(insert(p, writer, &p->b), 1);
	len = sizeof(back);
	WANT(fi_av_lookup(reader, 1, &back, &len), -FI_EINVAL);
	WANT(fi_av_lookup(reader, 2, &back, &len), -FI_EINVAL);
	WANT_OK(fi_av_lookup(reader, 3, &back, &len));
	hear_of(p, writer, reader);
	for (int i = 8; i < 1024; i++)
		WANT(insert(p, writer, &p->b), 1);
	WANT_OK(fi_av_lookup(reader, 1023, &back, &len));
	WANT(insert(p, writer, &p->b), 0); /* the vector is full */
	/* A shared vector exists for as long as any process has it open. */
	WANT_OK(fi_close(&writer->fid));
	WANT_OK(open_named(p, "uroce test", 0, &one, &writer));
	WANT_OK(fi_av_lookup(writer, 0, &back, &len));
	WANT_OK(fi_close(&writer->fid));
	WANT_OK(fi_close(&reader->fid));
	WANT(open_named(p, "uroce test", FI_READ, &two, &reader), -FI_ENOENT);
}

void leave_address_vector(struct pair *p)
{
	struct fi_av_attr attr;
	struct fid_av *av;

	WANT_OK(open_named(p, LEFT_NAME, 0, &attr, &av));
	WANT(insert(p, av, &p->a), 1);
	WANT_OK(open_named(p, LEFT_NAME " 2", 0, &attr, &av));
	WANT(insert(p, av, &p->a), 1);
	_exit(failures != 0);
}

void case_shared_address_vector_left(struct pair *p)
{
	struct sockaddr_in back;
	struct fi_av_attr attr;
	struct fid_av *av;
	size_t len = sizeof(back);

	WANT(open_named(p, LEFT_NAME " 2", FI_READ, &attr, &av),
	     /* No process has the vector open, so the name must be free, whatever a dead process left behind. */
	     -FI_ENOENT);
	WANT_OK(open_named(p, LEFT_NAME, 0, &attr, &av));
	WANT(fi_av_lookup(av, 0, &back, &len), -FI_EINVAL);
	WANT_OK(fi_close(&av->fid));
}

/* ---- an endpoint that comes back ---- */

#define LAST 2u /* index of the last endpoint */

/** Open an endpoint, receive one message and close the endpoint. The provider chooses the first endpoint's address and
 * returns it in `name`. Later endpoints take the same address. The last endpoint's message is sent before that endpoint
 * is opened. */
static void come(struct pair *p, struct sockaddr_in *name, unsigned which, fi_addr_t *at)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_UNSPEC};
	struct fid_ep *ep;
	struct fid_cq *cq;
	size_t len = sizeof(*name);

	if (which == LAST)
		WANT_OK(fi_inject(p->a.ep, "x", 1, *at));
	WANT_OK(fi_cq_open(p->domain, &attr, &cq, NULL));
	WANT_OK(fi_endpoint(p->domain, p->info, &ep, NULL));
	WANT_OK(fi_ep_bind(ep, &p->av->fid, 0));
	WANT_OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	if (which > 0)
		WANT_OK(fi_setname(&ep->fid, name, len));
	WANT_OK(fi_enable(ep));
	WANT_OK(fi_getname(&ep->fid, name, &len));
	if (which == 0)
		WANT(fi_av_insert(p->av, name, 1, at, 0, NULL), 1);
	WANT_OK(fi_recv(ep, p->there, 8, NULL, FI_ADDR_UNSPEC, NULL));
	if (which < LAST && !failures)
		WANT_OK(fi_inject(p->a.ep, "x", 1, *at));
	if (!failures)
		await(p, cq);
	WANT_OK(fi_close(&ep->fid));
	WANT_OK(fi_close(&cq->fid));
}

/** Several endpoints have the same address in succession: a message reaches the endpoint that has the address at that
 * time. */
void case_comes_again(struct pair *p)
{
	struct sockaddr_in name;
	fi_addr_t at = 0;

	for (unsigned i = 0; i <= LAST && !failures; i++)
		come(p, &name, i, &at);
	if (!failures)
		WANT_OK(fi_av_remove(p->av, &at, 1, 0));
}
