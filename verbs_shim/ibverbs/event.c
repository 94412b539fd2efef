/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * event.c - completion channels, completion events and asynchronous events (IBTA 11.4.2, 11.6.3).
 *
 * Each event queue is a list of sources, and an eventfd that programs poll and can make non-blocking. The eventfd's
 * count is the number of events that no thread is about to take. A thread that waits in the engine is about to take an
 * event. That event is not counted: to raise and lower the count for every message would cost the thread as much as a
 * wake-up.
 *
 * Raising an event allocates nothing: the list node and the pending event types are members of the object itself.
 * Destroying an object drops its unread events and waits until the events that were read are acknowledged. The engine
 * raises events with its lock held, so the engine lock is taken before queue locks.
 *
 * Code under a lock must contain no cancellation point without a cleanup handler: a thread cancelled there would never
 * release the lock. Such code therefore makes system calls with syscall(), not through the C library's wrappers.
 */
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "child.h"
#include "shim.h"

/* ---- queues ------------------------------------------------------------------------------------------ */

int shim_event_queue_init(struct shim_event_queue *q)
{
	q->fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	if (q->fd < 0)
		return -errno;
	pthread_mutex_init(&q->lock, NULL);
	q->head = q->tail = NULL;
	q->n = q->counted = q->waiting = 0;
	q->ready = false;
	q->id = shim_eventfd_id(q->fd);
	q->forks = pmd_forks();
	return 0;
}

void shim_event_queue_fini(struct shim_event_queue *q, bool close_fd)
{
	/* A forked child does not take the lock of a queue that it inherited, because the thread that holds the lock
	 * may not exist in the child. The child needs no lock: it neither raises nor reads events of that queue. */
	bool shared = q->forks == pmd_forks();

	if (shared)
		pthread_mutex_lock(&q->lock);
	if (close_fd)
		syscall(SYS_close, q->fd);
	q->fd = -1;
	q->head = q->tail = NULL;
	if (shared)
		pthread_mutex_unlock(&q->lock);
}

static void source_enqueue(struct shim_event_queue *q, struct shim_event_source *src)
{
	if (src->queued)
		return;
	src->queued = true;
	src->next = NULL;
	if (q->tail)
		q->tail->next = src;
	else
		q->head = src;
	q->tail = src;
}

static void source_dequeue(struct shim_event_queue *q, struct shim_event_source *src)
{
	struct shim_event_source *before = NULL;

	for (struct shim_event_source *s = q->head; s; before = s, s = s->next) {
		if (s != src)
			continue;
		*(before ? &before->next : &q->head) = s->next;
		if (q->tail == s)
			q->tail = before;
		break;
	}
	src->queued = false;
}

static void queue_count_up(struct shim_event_queue *q)
{
	uint64_t one = 1;

	while (syscall(SYS_write, q->fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

/* Subtract one from the eventfd's count. @return false: the count is 0, because another thread has read the count
 * and is about to take the event. */
static bool queue_count_down(struct shim_event_queue *q)
{
	uint64_t one;
	struct iovec iov = {&one, sizeof(one)};
	long got;

	do {
		got = syscall(SYS_preadv2, q->fd, &iov, 1, -1L, -1L, RWF_NOWAIT);
	} while (got < 0 && errno == EINTR);
	return got > 0;
}

/* Update `ready` and the eventfd's count. Must be called after a change of the list or of `waiting`. */
static void queue_settle(struct shim_event_queue *q)
{
	uint32_t owed = q->n > q->waiting ? q->n - q->waiting : 0;

	__atomic_store_n(&q->ready, q->n > 0, __ATOMIC_RELAXED);
	for (; q->counted < owed; q->counted++)
		queue_count_up(q);
	while (q->counted > owed && queue_count_down(q))
		q->counted--;
}

/* Add an asynchronous event; it is dropped if the source has SHIM_SOURCE_DEPTH pending ones. @param merge do not add an
 * event type that is already pending; false for port events. */
static void queue_add(struct shim_event_queue *q, struct shim_event_source *src, uint8_t type, bool merge)
{
	pthread_mutex_lock(&q->lock);
	bool known = merge && memchr(src->types, type, src->n);

	if (q->fd >= 0 && !known && src->n < SHIM_SOURCE_DEPTH) {
		src->types[src->n++] = type;
		source_enqueue(q, src);
		q->n++;
		queue_settle(q);
	}
	pthread_mutex_unlock(&q->lock);
}

static void queue_add_comp(struct shim_event_queue *q, struct shim_event_source *src)
{
	pthread_mutex_lock(&q->lock);
	if (q->fd >= 0) {
		src->n_comp++;
		source_enqueue(q, src);
		q->n++;
		queue_settle(q);
	}
	pthread_mutex_unlock(&q->lock);
}

/* Take the oldest event; for an asynchronous event set *type. @return the event's source, or NULL: no event. */
static struct shim_event_source *queue_first(struct shim_event_queue *q, uint8_t *type)
{
	struct shim_event_source *src = q->head;

	if (!src)
		return NULL;
	source_dequeue(q, src);
	if (src->n_comp) {
		src->n_comp--;
	} else {
		*type = src->types[0];
		memmove(src->types, src->types + 1, --src->n);
	}
	src->reported++;
	if (src->n_comp || src->n)
		source_enqueue(q, src);
	q->n--;
	return src;
}

uint32_t shim_event_purge(struct shim_event_queue *q, struct shim_event_source *src)
{
	uint32_t reported;

	pthread_mutex_lock(&q->lock);
	if (q->fd >= 0) {
		q->n -= src->n + src->n_comp;
		source_dequeue(q, src);
		queue_settle(q);
	}
	src->n = 0;
	src->n_comp = 0;
	src->queued = false;
	reported = src->reported;
	pthread_mutex_unlock(&q->lock);
	return reported;
}

static void unlock(void *mutex)
{
	pthread_mutex_unlock(mutex);
}

/* Wait for acknowledgements. This wait can last forever, so it is a cancellation point. If the thread is cancelled,
 * the object still exists, and late acknowledgements find it. */
void shim_event_wait_acks(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed, uint32_t reported)
{
	pthread_mutex_lock(mutex);
	pthread_cleanup_push(unlock, mutex);
	while (*completed != reported)
		pthread_cond_wait(cond, mutex);
	pthread_cleanup_pop(true);
}

/* Called after a wait in the engine, with the queue locked; unlocks the queue. @return the taken event's source, or
 * NULL. */
static struct shim_event_source *queue_wait_end(struct shim_event_queue *q, uint8_t *type)
{
	struct shim_event_source *src = queue_first(q, type);

	q->waiting--;
	queue_settle(q);
	pthread_mutex_unlock(&q->lock);
	return src;
}

/* Cleanup handler of a thread cancelled in pmd_wait(): leave the event to other threads. */
static void queue_wait_cancelled(void *arg)
{
	struct shim_event_queue *q = arg;

	pthread_mutex_lock(&q->lock);
	q->waiting--;
	queue_settle(q);
	pthread_mutex_unlock(&q->lock);
}

/*
 * Wait in the engine, where the thread makes progress and learns of an event at once. Called with the queue locked;
 * unlocks the queue.
 * @return an event's source; NULL with *rc 0: another thread has taken the event; NULL with *rc < 0: pmd_wait failed.
 */
static struct shim_event_source *queue_wait(struct pmd_engine *engine, struct shim_event_queue *q, uint8_t *type,
					    int *rc)
{
	q->waiting++;
	pthread_mutex_unlock(&q->lock);
	pthread_cleanup_push(queue_wait_cancelled, q);
	*rc = pmd_wait(engine, q->fd, &q->ready);
	pthread_cleanup_pop(false);
	pthread_mutex_lock(&q->lock);
	return queue_wait_end(q, type);
}

/*
 * Take the oldest event. If there is none, wait for one, unless the descriptor is non-blocking.
 * @param engine the engine to wait in; NULL: wait in the kernel.
 * @return the event's source, with *type set for an asynchronous event; or NULL with errno set.
 */
static struct shim_event_source *queue_take(struct pmd_engine *engine, struct shim_event_queue *q, uint8_t *type)
{
	struct shim_event_source *src;
	uint64_t one;
	int rc = -EBUSY;

	pthread_testcancel(); /* like read(), this is a cancellation point even if an event is there */
	for (;;) {
		pthread_mutex_lock(&q->lock);
		src = queue_first(q, type);
		if (src || !engine) {
			queue_settle(q);
			pthread_mutex_unlock(&q->lock);
		} else {
			src = queue_wait(engine, q, type, &rc);
		}
		if (src)
			return src;
		if (rc == 0)
			continue;
		if (rc == -EINTR) {
			errno = EINTR;
			return NULL;
		}
		if (read(q->fd, &one, sizeof(one)) != sizeof(one))
			return NULL;
		pthread_mutex_lock(&q->lock);
		q->counted--;
		src = queue_first(q, type);
		queue_settle(q);
		pthread_mutex_unlock(&q->lock);
		if (src)
			return src;
	}
}

/* ---- from the engine --------------------------------------------------------------------------------- */

static void raise_port(struct shim_device *dev, enum nic_event_type type)
{
	pthread_mutex_lock(&dev->lock);
	for (struct shim_context *c = dev->contexts; c; c = c->next)
		if (!shim_is_inherited(c)) /* an inherited context shares its eventfd with a parent process */
			queue_add(&c->async, &c->port_events, (uint8_t)type, false);
	pthread_mutex_unlock(&dev->lock);
}

void shim_event_raise(void *dev, const struct nic_event *event)
{
	struct shim_cq *cq = event->user;
	struct shim_qp *qp = event->user;
	struct shim_srq *srq = event->user;

	switch (event->type) {
	case NIC_EVENT_COMP:
		if (cq->ibv.channel)
			queue_add_comp(&container_of(cq->ibv.channel, struct shim_channel, ibv)->events, &cq->comp);
		break;
	case NIC_EVENT_CQ_ERR:
		queue_add(&shim_ctx(cq->ibv.context)->async, &cq->async, event->type, true);
		break;
	case NIC_EVENT_SRQ_LIMIT:
		queue_add(&shim_ctx(srq->ibv.context)->async, &srq->async, event->type, true);
		break;
	case NIC_EVENT_PORT_ACTIVE:
	case NIC_EVENT_PORT_ERR:
	case NIC_EVENT_GID_CHANGE:
		raise_port(dev, event->type);
		break;
	default:
		while (qp) { /* every struct shim_qp of an XRC target QP gets the event; there may be none */
			queue_add(&shim_ctx(qp->ibv.context)->async, &qp->async, event->type, true);
			qp = qp->next_handle == event->user ? NULL : qp->next_handle;
		}
	}
}

/* ---- asynchronous events ----------------------------------------------------------------------------- */

SHIM_EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	if (!shim_is_ours(context))
		return shim_real(ibv_get_async_event)(context, event);

	/* Do not open the device anew here: a child that was woken by an event of its parent would then wait for an
	 * event of its own. If the child has opened nothing, it gets EIO. */
	struct shim_context *ctx = shim_ctx(shim_context_opened(context));
	struct shim_event_source *src;
	uint8_t type;

	if (!shim_alive(ctx)) {
		errno = EIO;
		return -1;
	}
	src = queue_take(NULL, &ctx->async, &type);
	if (!src)
		return -1;
	event->event_type = (enum ibv_event_type)type;
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		event->element.cq = &container_of(src, struct shim_cq, async)->ibv;
		break;
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		event->element.srq = &container_of(src, struct shim_srq, async)->ibv;
		break;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_GID_CHANGE:
		event->element.port_num = 1;
		break;
	default:
		event->element.qp = &container_of(src, struct shim_qp, async)->ibv;
	}
	return 0;
}

static void ack(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed, unsigned n)
{
	pthread_mutex_lock(mutex);
	*completed += n;
	pthread_cond_broadcast(cond);
	pthread_mutex_unlock(mutex);
}

SHIM_EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
	struct ibv_cq *cq = event->element.cq;
	struct ibv_qp *qp = event->element.qp;
	struct ibv_srq *srq = event->element.srq;
	const struct ibv_context *context = NULL;

	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		context = cq->context;
		if (shim_is_ours(context))
			ack(&cq->mutex, &cq->cond, &cq->async_events_completed, 1);
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		context = srq->context;
		if (shim_is_ours(context))
			ack(&srq->mutex, &srq->cond, &srq->events_completed, 1);
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		context = qp->context;
		if (shim_is_ours(context))
			ack(&qp->mutex, &qp->cond, &qp->events_completed, 1);
		break;
	case IBV_EVENT_WQ_FATAL:
		context = event->element.wq->context; /* the context of a real device: ours have no WQs */
		break;
	default:
		break; /* device and port events need no acknowledgement */
	}
	if (context && !shim_is_ours(context))
		shim_real(ibv_ack_async_event)(event);
}

/* ---- completion channels ----------------------------------------------------------------------------- */

SHIM_EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	if (!shim_is_ours(context))
		return shim_real(ibv_create_comp_channel)(context);

	struct shim_channel *ch;
	int err;

	context = shim_context_here(context);
	if (!shim_alive(shim_ctx(context)))
		return shim_fail(EIO);
	ch = calloc(1, sizeof(*ch));
	if (!ch)
		return shim_fail(ENOMEM);
	err = shim_event_queue_init(&ch->events);
	if (err) {
		free(ch);
		return shim_fail(-err);
	}
	ch->ibv.context = context;
	ch->ibv.fd = ch->events.fd;
	atomic_fetch_add(&shim_ctx(context)->objects, 1);
	return &ch->ibv;
}

SHIM_EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	struct ibv_context *context = channel->context;

	if (!shim_is_ours(context))
		return shim_real(ibv_destroy_comp_channel)(channel);

	struct shim_channel *ch = container_of(channel, struct shim_channel, ibv);

	if (__atomic_load_n(&channel->refcnt, __ATOMIC_ACQUIRE))
		return EBUSY;
	shim_event_queue_fini(&ch->events, shim_holds_queue(shim_ctx(context), &ch->events));
	pthread_mutex_destroy(&ch->events.lock);
	free(ch);
	atomic_fetch_sub(&shim_ctx(context)->objects, 1);
	return 0;
}

SHIM_EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	if (!shim_is_ours(channel->context))
		return shim_real(ibv_get_cq_event)(channel, cq, cq_context);

	struct shim_event_source *src;
	uint8_t type;

	if (!shim_alive(shim_ctx(channel->context))) {
		errno = EIO;
		return -1;
	}
	src = queue_take(shim_ctx(channel->context)->engine, &container_of(channel, struct shim_channel, ibv)->events,
			 &type);
	if (!src)
		return -1;
	*cq = &container_of(src, struct shim_cq, comp)->ibv;
	*cq_context = (*cq)->cq_context;
	return 0;
}

SHIM_EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	if (!shim_is_ours(cq->context))
		shim_real(ibv_ack_cq_events)(cq, n);
	else
		ack(&cq->mutex, &cq->cond, &cq->comp_events_completed, n);
}
