/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * messages.c - messages with and without tags from end a to end b.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "fabric.h"

void case_message(struct pair *p)
{
	char buf[64] = "";

	WANT_OK(fi_recv(p->b.ep, buf, sizeof(buf), NULL, FI_ADDR_UNSPEC, &p->contexts[1]));
	WANT_OK(fi_send(p->a.ep, "hello", 6, NULL, p->b.addr, &p->contexts[0]));
	await(p, p->a.tx);
	WANT(p->done.op_context == &p->contexts[0], 1);
	WANT(p->done.flags, FI_MSG | FI_SEND);
	await(p, p->b.rx);
	WANT(p->done.op_context == &p->contexts[1], 1);
	WANT(p->done.flags, FI_MSG | FI_RECV);
	WANT(p->done.len, 6);
	WANT(p->source, p->a.addr);
	WANT(strcmp(buf, "hello"), 0);
}

void case_unexpected(struct pair *p)
{
	char buf[64] = "";

	WANT_OK(fi_tinjectdata(p->a.ep, "first", 6, UINT64_C(0x1122334455667788), p->b.addr, 77));
	WANT_OK(fi_tinject(p->a.ep, "second", 7, p->b.addr, 78));
	WANT_OK(fi_trecv(p->b.ep, buf, sizeof(buf), NULL, FI_ADDR_UNSPEC, 78, 0, NULL));
	await(p, p->b.rx);
	WANT(strcmp(buf, "second"), 0);
	WANT_OK(fi_trecv(p->b.ep, buf, sizeof(buf), NULL, FI_ADDR_UNSPEC, 76, 1, NULL));
	await(p, p->b.rx);
	WANT(p->done.flags, FI_TAGGED | FI_RECV | FI_REMOTE_CQ_DATA);
	WANT(p->done.tag, 77);
	WANT(p->done.data, UINT64_C(0x1122334455667788));
	WANT(strcmp(buf, "first"), 0);
	WANT(fi_cq_read(p->a.tx, &p->done, 1), -FI_EAGAIN);
}

void case_long_message(struct pair *p)
{
	for (size_t i = 0; i < LONG_LEN; i++)
		p->here[i] = (char)(i * 7 + i / 4096);
	WANT_OK(fi_tsend(p->a.ep, p->here, LONG_LEN, NULL, p->b.addr, 5, NULL));
	WANT_OK(fi_trecv(p->b.ep, p->there, LONG_LEN, NULL, FI_ADDR_UNSPEC, 5, 0, NULL));
	await(p, p->b.rx);
	WANT(p->done.len, LONG_LEN);
	await(p, p->a.tx);
	WANT(memcmp(p->here, p->there, LONG_LEN), 0);
}

void case_truncation(struct pair *p)
{
	char buf[64];

	WANT_OK(fi_tsend(p->a.ep, p->here, 100, NULL, p->b.addr, 6, NULL));
	WANT_OK(fi_trecv(p->b.ep, buf, sizeof(buf), NULL, FI_ADDR_UNSPEC, 6, 0, &p->contexts[1]));
	await_error(p, p->b.rx, FI_ETRUNC);
	WANT(p->error.op_context == &p->contexts[1], 1);
	WANT(p->error.olen, 100 - sizeof(buf));
	await(p, p->a.tx);
}

static void peek(struct pair *p, struct fi_msg_tagged *msg, uint64_t flags)
{
	WANT_OK(fi_trecvmsg(p->b.ep, msg, flags));
}

void case_peek(struct pair *p)
{
	struct iovec iov = {.iov_base = p->there, .iov_len = 200};
	struct fi_msg_tagged msg = {.addr = FI_ADDR_UNSPEC, .tag = 9, .context = &p->contexts[1]};
	struct fi_msg_tagged claim = msg;

	claim.msg_iov = &iov;
	claim.iov_count = 1;
	peek(p, &msg, FI_PEEK);
	await_error(p, p->b.rx, FI_ENOMSG);
	for (int i = 0; i < 3; i++) {
		WANT_OK(fi_tsend(p->a.ep, p->here + i, 100, NULL, p->b.addr, 9, NULL));
		await(p, p->a.tx);
	}
	peek(p, &msg, FI_PEEK | FI_CLAIM);
	await(p, p->b.rx);
	WANT(p->done.len, 100);
	WANT(p->done.tag, 9);
	peek(p, &msg, FI_PEEK | FI_DISCARD); /* finds the second message: the first one is claimed */
	await(p, p->b.rx);
	peek(p, &claim, FI_CLAIM);
	await(p, p->b.rx);
	WANT(memcmp(p->here, p->there, 100), 0);
	peek(p, &claim, 0);
	await(p, p->b.rx);
	WANT(memcmp(p->here + 2, p->there, 100), 0);
	WANT(fi_trecvmsg(p->b.ep, &msg, FI_CLAIM), -FI_ENOMSG);
}

void case_cancel(struct pair *p)
{
	char buf[8];

	WANT_OK(fi_trecv(p->b.ep, buf, sizeof(buf), NULL, FI_ADDR_UNSPEC, 123, 0, &p->contexts[1]));
	WANT_OK(fi_cancel(&p->b.ep->fid, &p->contexts[1]));
	await_error(p, p->b.rx, FI_ECANCELED);
	WANT(p->error.op_context == &p->contexts[1], 1);
	WANT(p->error.flags & FI_RECV, FI_RECV);
	WANT(fi_cancel(&p->b.ep->fid, &p->contexts[1]), -FI_ENOENT);
}

void case_multi_recv(struct pair *p)
{
	struct iovec iov = {.iov_base = p->there, .iov_len = 256};
	struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &p->contexts[1]};
	size_t least = 64, len = sizeof(least);

	WANT_OK(fi_setopt(&p->b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof(least)));
	WANT_OK(fi_getopt(&p->b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, &len));
	WANT_OK(fi_recvmsg(p->b.ep, &msg, FI_MULTI_RECV));
	for (int i = 0; i < 4; i++) {
		WANT_OK(fi_inject(p->a.ep, p->here, 60, p->b.addr));
		await(p, p->b.rx);
		WANT(p->done.len, 60);
		WANT((char *)p->done.buf - p->there, i * 60);
		WANT((p->done.flags & FI_MULTI_RECV) != 0, i == 3);
	}
}

void case_directed(struct pair *p)
{
	char buf[8] = "", other[8] = "";

	WANT_OK(fi_trecv(p->b.ep, buf, sizeof(buf), NULL, p->b.addr, 1, 0, &p->contexts[0]));
	WANT_OK(fi_trecv(p->b.ep, other, sizeof(other), NULL, p->a.addr, 1, 0, &p->contexts[1]));
	WANT_OK(fi_tinject(p->a.ep, "a", 2, p->b.addr, 1));
	await(p, p->b.rx);
	WANT(p->done.op_context == &p->contexts[1], 1);
	WANT(strcmp(other, "a"), 0);
	WANT_OK(fi_tinject(p->b.ep, "b", 2, p->b.addr, 1));
	await(p, p->b.rx);
	WANT(p->done.op_context == &p->contexts[0], 1);
	WANT(strcmp(buf, "b"), 0);
}

void case_to_itself(struct pair *p)
{
	char buf[8] = "";

	WANT_OK(fi_recv(p->a.ep, buf, sizeof(buf), NULL, FI_ADDR_UNSPEC, NULL));
	WANT_OK(fi_send(p->a.ep, "me", 3, NULL, p->a.addr, NULL));
	await(p, p->a.rx);
	WANT(p->source, p->a.addr);
	await(p, p->a.tx);
	WANT(strcmp(buf, "me"), 0);
}

/* First all receives are posted before their messages are sent. Then all messages are sent first: they are too long to
 * leave before their receives are posted. */
void case_many(struct pair *p)
{
	enum { RECVS_MADE = 5000, SENDS_MADE = 2500, LEN = 9000 };
	ssize_t rc = 0;
	int i;

	WANT(p->info->tx_attr->size < SENDS_MADE && p->info->rx_attr->size < RECVS_MADE, true);
	for (i = 0; i < RECVS_MADE && !rc; i++)
		rc = fi_trecv(p->b.ep, p->there + 4 * i, 4, NULL, FI_ADDR_UNSPEC, 1000 + i, 0, NULL);
	WANT_OK(rc);
	for (int k = i - 1; k >= 0; k--) {
		WANT_OK(fi_tinject(p->a.ep, &k, 4, p->b.addr, 1000 + k));
		await(p, p->b.rx);
		WANT(memcmp(p->there + 4 * k, &k, 4), 0);
	}
	for (i = 0; i < SENDS_MADE && !rc; i++)
		rc = fi_tsend(p->a.ep, p->here + i, LEN, NULL, p->b.addr, 1000 + i, NULL);
	WANT_OK(rc);
	for (int k = 0; k < i; k++) {
		WANT_OK(fi_trecv(p->b.ep, p->there, LEN, NULL, FI_ADDR_UNSPEC, 1000 + k, 0, NULL));
		await(p, p->b.rx);
		await(p, p->a.tx);
		WANT(memcmp(p->here + k, p->there, LEN), 0);
	}
}

/** Reserve `len` bytes of addresses, a multiple of `unit`. All units but the last map the same memory. */
static char *repeated(size_t len, size_t unit)
{
	int fd = memfd_create("repeated", 0);
	char *all = mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (fd < 0 || ftruncate(fd, (off_t)(2 * unit)) || all == MAP_FAILED)
		return NULL;
	for (size_t at = 0; at < len; at += unit)
		if (mmap(all + at, unit, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
			 at + unit < len ? 0 : (off_t)unit) == MAP_FAILED)
			return NULL;
	close(fd);
	return all;
}

/* Messages longer than one message of a queue pair can be. */
void case_longest(struct pair *p)
{
	const size_t unit = 16u << 20, len = (2ull << 30) + unit;
	char *from = repeated(len, unit), *to = repeated(len, unit);
	struct fid_mr *mr = NULL;

	WANT(from && to && p->info->ep_attr->max_msg_size >= len, true);
	if (!from || !to)
		return;
	memset(from + len - unit, 'x', unit);
	WANT_OK(fi_trecv(p->b.ep, to, len, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
	WANT_OK(fi_tsend(p->a.ep, from, len - 1, NULL, p->b.addr, 1, NULL));
	await(p, p->b.rx);
	WANT(p->done.len, len - 1);
	await(p, p->a.tx);
	WANT(memcmp(to + len - unit, from + len - unit, unit - 1), 0);
	WANT(to[len - 1], 0);
	memset(from + len - unit, 'y', unit);
	WANT_OK(fi_mr_reg(p->domain, to, len, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0, &mr, NULL));
	WANT_OK(fi_write(p->a.ep, from, len, NULL, p->b.addr, (uintptr_t)to, fi_mr_key(mr), NULL));
	await(p, p->a.tx);
	WANT(memcmp(to + len - unit, from + len - unit, unit), 0);
	WANT_OK(fi_close(&mr->fid));
	munmap(from, len);
	munmap(to, len);
}
