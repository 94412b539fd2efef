/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rpma.c - a program for librpma, which has none of its own in Debian: remote memory that a client writes, flushes and
 * reads back. The server offers the memory in the private data of its answer, and checks it in the end.
 *
 * Usage: rpma serve|use ADDRESS PORT
 */
#include <librpma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES	 (1u << 20)
#define PIECE	 4096u
#define DESC_MAX 64 /* bytes of a descriptor of memory: at most what fits into private data */

static void must(int rc, const char *what)
{
	if (rc == 0)
		return;
	fprintf(stderr, "%s: %s\n", what, rpma_err_2str(rc));
	exit(1);
}

static uint8_t pattern(size_t at)
{
	return (uint8_t)(at * 31 + at / PIECE);
}

struct end {
	struct ibv_context *context;
	struct rpma_peer *peer;
	struct rpma_mr_local *mr;
	struct rpma_conn *conn;
	uint8_t *bytes;
};

static void end_open(struct end *e, const char *address, enum rpma_util_ibv_context_type type, int usage)
{
	long page = sysconf(_SC_PAGESIZE);

	must(rpma_utils_get_ibv_context(address, type, &e->context), "context");
	must(rpma_peer_new(e->context, &e->peer), "peer");
	e->bytes = aligned_alloc((size_t)page, BYTES);
	if (!e->bytes) {
		fprintf(stderr, "no memory\n");
		exit(1);
	}
	memset(e->bytes, 0, BYTES);
	must(rpma_mr_reg(e->peer, e->bytes, BYTES, usage, &e->mr), "memory");
}

static void await(struct end *e, enum rpma_conn_event wanted)
{
	enum rpma_conn_event event;

	must(rpma_conn_next_event(e->conn, &event), "event");
	if (event == wanted)
		return;
	fprintf(stderr, "event %d, not %d\n", event, wanted);
	exit(1);
}

static void end_close(struct end *e)
{
	must(rpma_conn_delete(&e->conn), "end of the connection");
	must(rpma_mr_dereg(&e->mr), "end of the memory");
	must(rpma_peer_delete(&e->peer), "end of the peer");
	free(e->bytes);
}

static void serve(const char *address, const char *port)
{
	uint8_t desc[DESC_MAX];
	struct rpma_conn_private_data offer = {.ptr = desc};
	struct rpma_conn_req *request;
	struct rpma_ep *ep;
	struct end e;
	size_t len;

	end_open(&e, address, RPMA_UTIL_IBV_CONTEXT_LOCAL,
		 RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY);
	must(rpma_mr_get_descriptor_size(e.mr, &len), "size");
	if (len > sizeof(desc)) {
		fprintf(stderr, "a descriptor has %zu bytes\n", len);
		exit(1);
	}
	must(rpma_mr_get_descriptor(e.mr, desc), "descriptor");
	offer.len = (uint8_t)len;
	must(rpma_ep_listen(e.peer, address, port, &ep), "listen");
	must(rpma_ep_next_conn_req(ep, NULL, &request), "request");
	must(rpma_conn_req_connect(&request, &offer, &e.conn), "accept");
	await(&e, RPMA_CONN_ESTABLISHED);
	await(&e, RPMA_CONN_CLOSED);
	for (size_t i = 0; i < BYTES; i++)
		if (e.bytes[i] != pattern(i)) {
			fprintf(stderr, "byte %zu is wrong\n", i);
			exit(1);
		}
	must(rpma_conn_disconnect(e.conn), "disconnect");
	end_close(&e);
	must(rpma_ep_shutdown(&ep), "end of listening");
}

/** Wait for the completion of a request, which succeeds. */
static void complete(struct rpma_cq *cq)
{
	struct ibv_wc wc;

	must(rpma_cq_wait(cq), "wait");
	must(rpma_cq_get_wc(cq, 1, &wc, NULL), "completion");
	if (wc.status == IBV_WC_SUCCESS)
		return;
	fprintf(stderr, "status %d\n", wc.status);
	exit(1);
}

static void use(const char *address, const char *port)
{
	struct rpma_conn_private_data offer;
	struct rpma_conn_req *request;
	struct rpma_mr_remote *there;
	struct rpma_cq *cq;
	struct end e;

	end_open(&e, address, RPMA_UTIL_IBV_CONTEXT_REMOTE, RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_DST);
	must(rpma_conn_req_new(e.peer, address, port, NULL, &request), "request");
	must(rpma_conn_req_connect(&request, NULL, &e.conn), "connect");
	await(&e, RPMA_CONN_ESTABLISHED);
	must(rpma_conn_get_private_data(e.conn, &offer), "private data");
	must(rpma_mr_remote_from_descriptor(offer.ptr, offer.len, &there), "descriptor of the peer");
	must(rpma_conn_get_cq(e.conn, &cq), "CQ");
	for (size_t i = 0; i < BYTES; i++)
		e.bytes[i] = pattern(i);
	for (size_t at = 0; at < BYTES; at += PIECE) {
		must(rpma_write(e.conn, there, at, e.mr, at, PIECE, RPMA_F_COMPLETION_ON_ERROR, NULL), "write");
		must(rpma_flush(e.conn, there, at, PIECE, RPMA_FLUSH_TYPE_VISIBILITY, RPMA_F_COMPLETION_ALWAYS, NULL),
		     "flush");
		complete(cq);
	}
	memset(e.bytes, 0, BYTES);
	must(rpma_read(e.conn, e.mr, 0, there, 0, BYTES, RPMA_F_COMPLETION_ALWAYS, NULL), "read");
	complete(cq);
	for (size_t i = 0; i < BYTES; i++)
		if (e.bytes[i] != pattern(i)) {
			fprintf(stderr, "byte %zu was read wrong\n", i);
			exit(1);
		}
	must(rpma_conn_disconnect(e.conn), "disconnect");
	await(&e, RPMA_CONN_CLOSED);
	must(rpma_mr_remote_delete(&there), "end of the peer's memory");
	end_close(&e);
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "serve"))
		serve(argv[2], argv[3]);
	else if (argc == 4 && !strcmp(argv[1], "use"))
		use(argv[2], argv[3]);
	else
		return 2;
	puts("all bytes are right");
	return 0;
}
