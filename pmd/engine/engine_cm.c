/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine_cm.c - the engine's connection manager (CM): its messages on queue pair 1, its timers, its records.
 *
 * nic_rx delivers each message to the CM at once (nic_gsi.h). The CM's answer usually leaves in the step that received
 * the message. Messages that the application causes leave with its doorbell. Other functions of the device get their
 * messages on their own sockets (uroced_steer.c). A message for another function can still come here: a kernel may
 * merge datagrams of two functions, or our function may just have released a port. We drop such a message, because an
 * answer in another function's name would end a connection. The sender repeats the message.
 *
 * The records of connections are in memory that this process shares with the daemon. When the process has ended, even
 * if it was killed, the daemon disconnects the process's connections.
 *
 * Owns: struct pmd_cm.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "eal.h"
#include "engine_priv.h"
#include "filesize.h"
#include "nic_gsi.h"
#include "points.h"
#include "proto.h"

#define ID_BITS	 24 /* the leading byte of an ID is the function's number, see uroced_steer.c */
#define IDS	 32768u
#define ID_OF(n) ((uint32_t)(n) << ID_BITS)

/* ---- messages ----------------------------------------------------------------------------------------------- */

/** Whether the message is for our function. On an ethdev device every message is. */
static bool is_ours(struct pmd_cm *cm, const uint8_t *mad)
{
	const struct pmd_host *host = &cm->engine->host;
	struct nic_cm_peek what;

	if (!host->control || nic_cm_peek(mad, NIC_CM_MAD_LEN, &what) != 0)
		return true; /* malformed: the CM counts the message */
	if (what.request) {
		if (what.service_id <= UINT32_MAX && pmd_services_have(host, (uint32_t)what.service_id))
			return true;
		cm->stats.cm_rx_not_served++;
		return false;
	}
	/* The ID is 0 in a REJ from a peer that never learned our ID. */
	if ((what.rej && what.local_id == 0) || what.local_id >> ID_BITS == host->function)
		return true;
	cm->stats.cm_rx_misrouted++;
	return false;
}

static void arrived(void *ctx, const struct nic_gsi_addr *addr, const uint8_t *mad)
{
	const struct nic_cm_route route = {.own = addr->own, .peer = addr->peer};
	struct pmd_cm *cm = ctx;

	if (!is_ours(cm, mad))
		return;
	cm->stats.cm_rx_mads++;
	PMD_POINT(cm_mad_come);
	nic_cm_rx(cm->nic_cm, &route, mad, NIC_CM_MAD_LEN);
}

static void send_mad(void *ctx, const struct nic_cm_route *route, const uint8_t *mad)
{
	struct pmd_cm *cm = ctx;
	const struct nic_gsi_addr addr = {.own = route->own,
					  .peer = route->peer,
					  .flow_label = route->flow_label,
					  .tclass = route->traffic_class,
					  .hop_limit = route->hop_limit};
	int rc;

	PMD_POINT(cm_mad_due);
	rc = nic_gsi_send(cm->engine->host.nic, &addr, mad);
	PMD_POINT(cm_mad_sent);
	cm->stats.cm_tx_mads += rc == 0;
	cm->stats.cm_tx_full += rc == -ENOMEM;
	cm->stats.cm_tx_no_source += rc != 0 && rc != -ENOMEM;
}

static void event(void *ctx, const struct nic_cm_event *event)
{
	const struct pmd_cm *cm = ctx;

	PMD_POINT(cm_event_due);
	if (cm->on_event)
		cm->on_event(cm->ctx, event);
}

static uint64_t now(void *ctx)
{
	(void)ctx;
	return pmd_now_ns();
}

static uint32_t random_word(void *ctx)
{
	const struct pmd_cm *cm = ctx;
	uint32_t word;

	pmd_random_take(&cm->engine->random, &word, sizeof(word));
	return word;
}

void pmd_cm_advance(struct pmd_cm *cm, uint64_t now_ns)
{
	if (nic_cm_deadline(cm->nic_cm) <= now_ns)
		nic_cm_advance(cm->nic_cm);
}

/* ---- life --------------------------------------------------------------------------------------------------- */

/** Make the shared memory for the records, and give it to the daemon. If that fails, the CM works without records:
 *  then, if the process is killed, its peers notice that only by their own timers. */
static void records_make(struct pmd_cm *cm)
{
	size_t bytes = IDS * sizeof(struct nic_cm_record);
	void *memory = MAP_FAILED;
	int fd;

	if (!cm->engine->host.control || !filesize_is_allowed(bytes))
		return;
	fd = pmd_fd_high(memfd_create("uroce-cm", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (fd < 0)
		return;
	/* The seals keep the daemon, which may be another user's, from truncating the memory that we access. */
	if (ftruncate(fd, (off_t)bytes) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (memory == MAP_FAILED) {
		close(fd);
		return;
	}
	madvise(memory, bytes, MADV_DONTFORK);
	cm->records = memory;
	cm->records_bytes = bytes;
	PMD_POINT(cm_records_made);
	pmd_control_records(cm->engine->host.control, fd);
	PMD_POINT(cm_records_said);
}

static void cm_free(struct pmd_cm *cm)
{
	if (cm->nic_cm)
		nic_cm_destroy(cm->nic_cm);
	if (cm->records)
		munmap(cm->records, cm->records_bytes);
	free(cm);
}

static int cm_make(struct pmd_engine *e, pmd_cm_event_fn on_event, void *ctx)
{
	struct nic_cm_config config = {.id_bits = ID_BITS,
				       .id_base = ID_OF(e->host.function),
				       .ca_guid = e->device.node_guid,
				       .ack_delay = (uint8_t)nic_local_ack_delay(e->host.nic),
				       .max_ids = IDS,
				       .now = now,
				       .random = random_word,
				       .send = send_mad,
				       .event = event};
	struct pmd_cm *cm = calloc(1, sizeof(*cm));
	int rc;

	if (!cm)
		return -ENOMEM;
	cm->engine = e;
	cm->on_event = on_event;
	cm->ctx = ctx;
	records_make(cm);
	config.ctx = cm;
	config.records = cm->records;
	config.n_records = cm->records ? IDS : 0;
	rc = nic_cm_create(&cm->nic_cm, &config);
	if (rc == 0)
		rc = nic_gsi_open(e->host.nic, arrived, cm);
	if (rc != 0) {
		if (e->host.control)
			pmd_control_records(e->host.control, -1);
		cm_free(cm);
		return rc;
	}
	e->cm = cm;
	e->host.nic_cm = cm->nic_cm;
	e->host.cm_stats = &cm->stats;
	return 0;
}

int pmd_cm_open(struct pmd_engine *e, pmd_cm_event_fn on_event, void *ctx, struct nic_cm **out)
{
	int cancel_state, rc = 0;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	pmd_lock(e);
	if (e->host.dead)
		rc = -ENODEV;
	else if (!e->cm)
		rc = cm_make(e, on_event, ctx);
	*out = rc == 0 ? e->cm->nic_cm : NULL;
	pmd_unlock(e);
	pthread_setcancelstate(cancel_state, NULL);
	return rc;
}

void pmd_cm_forked(struct pmd_cm *cm)
{
	/* Put private memory in place of the records: the child must not write to the parent's records, but the program
	 * may still call the CM. */
	if (cm && cm->records &&
	    mmap(cm->records, cm->records_bytes, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
		cm->records = NULL;
}

void pmd_cm_close(struct pmd_cm *cm)
{
	if (cm)
		cm_free(cm);
}

void pmd_cm_stats_get(struct pmd_engine *e, struct pmd_cm_stats *out)
{
	*out = e->cm ? e->cm->stats : (struct pmd_cm_stats){0};
}
