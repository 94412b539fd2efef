/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * addresses.c - address vectors that processes share by a name. Two of this process stand for two processes: each opens the name.
 */
#include <netinet/in.h>
#include <unistd.h>

#include "fabric.h"

static int open_named(struct pair *p, const char *name, uint64_t flags, struct fi_av_attr *attr, struct fid_av **av)
{
	*attr = (struct fi_av_attr){.type = FI_AV_TABLE, .name = name, .flags = flags};
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

/* By an endpoint that has the reader's: what the writer inserts can be sent to, and messages from there are known. */
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
	WANT(fi_send(ep, "x", 1, NULL, 1, NULL), -FI_EINVAL); /* nobody yet */
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
	/* An index that was removed is not given to another; one without an address is nobody's. */
	WANT(fi_av_insert(writer, &nobody, 1, NULL, 0, NULL), 0);
	WANT(insert(p, writer, &p->b), 1);
	len = sizeof(back);
	WANT(fi_av_lookup(reader, 1, &back, &len), -FI_EINVAL);
	WANT(fi_av_lookup(reader, 2, &back, &len), -FI_EINVAL);
	WANT_OK(fi_av_lookup(reader, 3, &back, &len));
	for (int i = 4; i < 1024; i++)
		WANT(insert(p, writer, &p->b), 1);
	WANT_OK(fi_av_lookup(reader, 1023, &back, &len));
	WANT(insert(p, writer, &p->b), 0); /* it is full */
	/* It is there as long as anybody has it. */
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
	_exit(failures != 0);
}

void case_shared_address_vector_left(struct pair *p)
{
	struct sockaddr_in back;
	struct fi_av_attr attr;
	struct fid_av *av;
	size_t len = sizeof(back);

	WANT_OK(open_named(p, LEFT_NAME, 0, &attr, &av));
	WANT(fi_av_lookup(av, 0, &back, &len), -FI_EINVAL);
	WANT_OK(fi_close(&av->fid));
}
