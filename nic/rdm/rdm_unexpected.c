/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdm_unexpected.c - memory for unexpected messages. A message is kept in an object of one of two sizes. Objects are
 * allocated in chunks, and max_unexpected limits the total size of the chunks. If the limit prevents a new chunk of one
 * size, an unused chunk of the other size is freed first. Each endpoint also has a pool for operands of its own
 * OPERATEs. That pool is not limited by max_unexpected, but by the number of requests that may be in flight.
 */
#include "rdm.h"
#include "rdm_unexpected.h"

#define SMALL_MAX 256u

/** Header of a chunk; its unexpected messages follow. */
struct rdm_chunk {
	struct list node; /* on the pool's chunks */
	uint32_t used;	  /* number of messages in use */
};
#define FIRST ((sizeof(struct rdm_chunk) + 15) & ~15ul)

static void pool_init(struct rdm_pool *p, uint32_t data)
{
	list_init(&p->free);
	list_init(&p->chunks);
	p->size = (uint32_t)((sizeof(struct rdm_unexpected) + data + 15) & ~15ul);
}

void rdm_unexpected_init(struct nic_rdm_rq *rq)
{
	pool_init(&rq->small, SMALL_MAX);
	pool_init(&rq->big, NIC_RDM_EAGER_MAX);
}

void rdm_asked_init(struct nic_rdm *ep)
{
	pool_init(&ep->asked, NIC_RDM_EAGER_MAX);
}

static struct rdm_unexpected *unexpected_at(struct rdm_chunk *chunk, size_t at)
{
	return (struct rdm_unexpected *)(void *)((uint8_t *)chunk + at);
}

static void chunk_add(struct nic_rdm *ep, struct rdm_pool *p)
{
	struct rdm_chunk *chunk = calloc(1, RDM_CHUNK_BYTES);

	if (!chunk)
		return;
	if (p != &ep->asked)
		ep->rq->unexpected_bytes += RDM_CHUNK_BYTES;
	list_append(&p->chunks, &chunk->node);
	for (size_t at = FIRST; at + p->size <= RDM_CHUNK_BYTES; at += p->size) {
		unexpected_at(chunk, at)->chunk = chunk;
		list_append(&p->free, &unexpected_at(chunk, at)->pool);
	}
}

/** Free a chunk without messages in use. */
static void chunk_remove(struct nic_rdm_rq *rq, struct rdm_pool *p, struct rdm_chunk *chunk)
{
	for (size_t at = FIRST; at + p->size <= RDM_CHUNK_BYTES; at += p->size)
		list_remove(&unexpected_at(chunk, at)->pool);
	list_remove(&chunk->node);
	free(chunk);
	rq->unexpected_bytes -= RDM_CHUNK_BYTES;
}

static void pool_fini(struct rdm_pool *p)
{
	for (struct list *n = p->chunks.next, *next; n != &p->chunks; n = next) {
		next = n->next;
		free(list_entry(n, struct rdm_chunk, node));
	}
}

void rdm_unexpected_fini(struct nic_rdm_rq *rq)
{
	pool_fini(&rq->small);
	pool_fini(&rq->big);
}

void rdm_asked_fini(struct nic_rdm *ep)
{
	pool_fini(&ep->asked);
}

/** The pool for a message, chosen by the length of its body (0 for an OFFER, whose data is READ later). An
 *  endpoint's own operands have a separate pool: if they used the memory for peers' messages, two endpoints could
 *  deadlock. */
static struct rdm_pool *pool_of(struct nic_rdm *ep, const struct rdm_header *h)
{
	uint64_t bytes = !rdm_has_body(h->kind) ? 0 : h->length;

	if (h->kind == RDM_OPERATE && !h->n_segments)
		return &ep->asked;
	if (h->kind == RDM_OPERATE && h->segment[0].len > bytes)
		bytes = h->segment[0].len; /* the results overwrite the operands, so they must fit, too */
	return bytes <= SMALL_MAX ? &ep->rq->small : &ep->rq->big;
}

static bool more_allowed(const struct nic_rdm_rq *rq)
{
	return rq->unexpected_bytes + RDM_CHUNK_BYTES <= rq->max_unexpected;
}

static void make_room(struct nic_rdm_rq *rq, const struct rdm_pool *for_this)
{
	struct rdm_pool *other = for_this == &rq->small ? &rq->big : &rq->small;

	for (struct list *n = other->chunks.next; n != &other->chunks; n = n->next) {
		struct rdm_chunk *chunk = list_entry(n, struct rdm_chunk, node);

		if (chunk->used)
			continue;
		chunk_remove(rq, other, chunk);
		return;
	}
}

bool rdm_unexpected_room(struct nic_rdm *ep, const struct rdm_header *h, bool needed)
{
	struct rdm_pool *p = pool_of(ep, h);

	if (!list_empty(&p->free))
		return true;
	if (p != &ep->asked && !more_allowed(ep->rq))
		make_room(ep->rq, p);
	if (needed || more_allowed(ep->rq))
		chunk_add(ep, p);
	return !list_empty(&p->free);
}

struct rdm_unexpected *rdm_unexpected_get(struct nic_rdm *ep, struct nic_rdm_peer *peer, const struct rdm_header *h)
{
	struct rdm_pool *p = pool_of(ep, h);
	struct rdm_unexpected *unexpected = list_entry(list_first(&p->free), struct rdm_unexpected, pool);
	struct rdm_chunk *chunk = unexpected->chunk;

	list_remove(&unexpected->pool);
	memset(unexpected, 0, sizeof(*unexpected));
	chunk->used++;
	unexpected->chunk = chunk;
	list_init(&unexpected->pool);
	unexpected->ep = ep;
	unexpected->peer = peer;
	unexpected->header = *h;
	unexpected->match.tag = h->tag;
	unexpected->match.source = (uintptr_t)peer;
	return unexpected;
}

void rdm_unexpected_free(struct rdm_unexpected *unexpected)
{
	unexpected->chunk->used--;
	list_append(&pool_of(unexpected->ep, &unexpected->header)->free, &unexpected->pool);
}
