/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * observe.c - see observe.h. Owns nothing that outlives a request: captures and faults have their own state.
 *
 * The engine is locked while a request is handled. So a reply has at most 32 KiB of text, and the tool requests longer
 * lists in pages.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "capture.h"
#include "control.h"
#include "devices.h"
#include "engine_cm.h"
#include "fault.h"
#include "nic_cm.h"
#include "observe.h"
#include "port.h"
#include "proto.h"
#include "tap.h"

#define QPS_PAGE 40 /* maximum number of QPs or connections per reply: these fit into reply.text */

struct reply {
	int status;
	size_t len;
	char text[PROTO_TEXT_MAX];
};

static void say(struct reply *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(struct reply *r, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start is in the line above */
	n = vsnprintf(r->text + r->len, sizeof(r->text) - r->len, format, args);
	va_end(args);
	if (n < 0 || (size_t)n >= sizeof(r->text) - r->len)
		r->status = -EMSGSIZE;
	else
		r->len += (size_t)n;
}

/** Write a JSON string. */
static void say_string(struct reply *r, const char *s)
{
	say(r, "\"");
	for (; *s; s++)
		if (*s == '"' || *s == '\\' || (unsigned char)*s < 0x20)
			say(r, "\\u%04x", (unsigned char)*s);
		else
			say(r, "%c", *s);
	say(r, "\"");
}

static void fail(struct reply *r, int status, const char *sentence)
{
	r->len = 0;
	say(r, "%s", sentence);
	r->status = status;
}

/* ---- status ------------------------------------------------------------------------------------------------------ */

static unsigned count_qps(const struct nic *nic)
{
	struct nic_qp *qps[QPS_PAGE];
	unsigned total = 0, n;
	uint32_t from = 0;

	while ((n = nic_qp_list(nic, from, qps, QPS_PAGE)) > 0) {
		total += n;
		from = nic_qp_num(qps[n - 1]) + 1;
	}
	return total;
}

static void observe_status(struct pmd_host *host, struct reply *r)
{
	static const struct nic_gid none;
	const char *separator = "";
	char addr[64];

	say(r, "{\"function\":%u,\"pid\":%d,\"command\":", host->function, (int)getpid());
	say_string(r, program_invocation_short_name);
	say(r, ",\"device\":");
	say_string(r, host->device->name);
	say(r, ",\"port\":");
	say_string(r, host->device->port);
	say(r, ",\"gids\":[");
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++) {
		struct nic_gid gid;

		nic_gid_get(host->nic, i, &gid);
		if (memcmp(&gid, &none, sizeof(gid)) == 0)
			continue;
		say(r, "%s{\"index\":%u,\"address\":\"%s\"}", separator, i, pmd_gid_str(&gid, addr, sizeof(addr)));
		separator = ",";
	}
	say(r, "],\"mtu\":%u,\"link\":\"%s\",\"faults\":%s,\"qps\":%u,\"version\":\"" UROCE_VERSION "\"}",
	    128u << nic_active_mtu(host->nic), nic_port_is_up(host->nic) ? "up" : "down",
	    host->stages->fault && pmd_fault_rule(host->stages->fault, 0) ? "true" : "false", count_qps(host->nic));
}

/* ---- counters ---------------------------------------------------------------------------------------------------- */

static void say_counter(struct reply *r, const char **separator, const char *name, uint64_t value, const char *sentence)
{
	say(r, "%s[\"%s\",%llu,\"%s\"]", *separator, name, (unsigned long long)value, sentence);
	*separator = ",";
}

static void say_fault_counters(const struct pmd_host *host, struct reply *r, const char **separator)
{
	static const struct pmd_fault_stats zero;
	const struct pmd_fault_stats *fault = host->stages->fault ? pmd_fault_stats(host->stages->fault) : &zero;

#define PMD_FAULT_STAT(name, sentence) say_counter(r, separator, #name, fault->name, sentence);
#include "fault_stats.def"
#undef PMD_FAULT_STAT
}

static void say_cm_counters(const struct pmd_host *host, struct reply *r)
{
	const char *separator = "";

	if (!host->nic_cm)
		return;
#define PMD_CM_STAT(name, sentence) say_counter(r, &separator, #name, host->cm_stats->name, sentence);
#include "cm_stats.def"
#undef PMD_CM_STAT
	for (unsigned i = 0; i < NIC_CM_COUNTERS; i++)
		say_counter(r, &separator, nic_cm_counter_name(i), nic_cm_count(host->nic_cm, i),
			    nic_cm_counter_sentence(i));
}

static void observe_stats(struct pmd_host *host, struct reply *r)
{
	const uint64_t *counters = nic_counters(host->nic);
	const char *separator = "";
	const struct pmd_port_stats *port;

	say(r, "{\"function\":%u,\"now_ns\":%llu,\"nic\":[", host->function, (unsigned long long)pmd_now_ns());
	for (unsigned i = 0; i < NIC_CNT_COUNT; i++)
		say_counter(r, &separator, nic_counter_name(i), counters[i], nic_counter_sentence(i));
	say(r, "],\"port\":[");
	separator = "";
	port = pmd_port_stats_now(host->port);
#define PMD_PORT_STAT(name, sentence) say_counter(r, &separator, #name, port->name, sentence);
#include "port_stats.def"
#undef PMD_PORT_STAT
	say(r, "],\"control\":[");
	separator = "";
	if (host->control) {
		const struct pmd_control_stats *control = pmd_control_stats(host->control);

#define PMD_CONTROL_STAT(name, sentence) say_counter(r, &separator, #name, control->name, sentence);
#include "control_stats.def"
#undef PMD_CONTROL_STAT
	}
	say(r, "],\"cm\":[");
	say_cm_counters(host, r);
	say(r, "],\"fault\":[");
	separator = "";
	say_fault_counters(host, r, &separator);
	say(r, "]}");
}

/* ---- QPs --------------------------------------------------------------------------------------------------------- */

static const char *qp_type(enum nic_qp_type type)
{
	static const char *const names[] = {[NIC_QPT_RC] = "RC",
					    [NIC_QPT_UC] = "UC",
					    [NIC_QPT_UD] = "UD",
					    [NIC_QPT_XRC_INI] = "XRC_INI",
					    [NIC_QPT_XRC_TGT] = "XRC_TGT"};

	return names[type];
}

static const char *qp_state(enum nic_qp_state state)
{
	static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

	return state < sizeof(names) / sizeof(names[0]) ? names[state] : "?";
}

static void say_qp(struct reply *r, const struct nic_qp *qp)
{
	struct nic_qp_counters c;
	struct nic_qp_init init;
	struct nic_qp_attr attr;
	char addr[64];

	nic_qp_query(qp, &attr, &init);
	nic_qp_counters(qp, &c);
	say(r, "{\"qpn\":%u,\"type\":\"%s\",\"state\":\"%s\"", nic_qp_num(qp), qp_type(init.type),
	    qp_state(nic_qp_state(qp)));
	if (init.type != NIC_QPT_UD && nic_qp_state(qp) >= NIC_QPS_RTR)
		say(r, ",\"peer\":\"%s\",\"peer_qpn\":%u,\"mtu\":%u,\"by\":\"%s\"",
		    pmd_gid_str(&attr.av.dgid, addr, sizeof(addr)), attr.dest_qp_num, 128u << attr.path_mtu,
		    nic_qp_path(qp) ? "memory" : "network");
	say(r,
	    ",\"counters\":{\"tx_packets\":%llu,\"tx_bytes\":%llu,\"rx_packets\":%llu,\"rx_bytes\":%llu,"
	    "\"retransmits\":%llu,\"timeouts\":%llu,\"rnr_naks_rx\":%llu,\"rnr_naks_tx\":%llu,\"seq_naks_rx\":%llu,"
	    "\"seq_naks_tx\":%llu,\"duplicates_rx\":%llu,\"dropped_rx\":%llu}}",
	    (unsigned long long)c.tx_packets, (unsigned long long)c.tx_bytes, (unsigned long long)c.rx_packets,
	    (unsigned long long)c.rx_bytes, (unsigned long long)c.retransmits, (unsigned long long)c.timeouts,
	    (unsigned long long)c.rnr_naks_rx, (unsigned long long)c.rnr_naks_tx, (unsigned long long)c.seq_naks_rx,
	    (unsigned long long)c.seq_naks_tx, (unsigned long long)c.duplicates_rx, (unsigned long long)c.dropped_rx);
}

static void observe_qps(struct pmd_host *host, struct reply *r, const char *args)
{
	uint32_t from = (uint32_t)strtoul(args, NULL, 10);
	struct nic_qp *qps[QPS_PAGE];
	unsigned n = nic_qp_list(host->nic, from, qps, QPS_PAGE);

	say(r, "{\"function\":%u,\"now_ns\":%llu,\"qps\":[", host->function, (unsigned long long)pmd_now_ns());
	for (unsigned i = 0; i < n; i++) {
		say(r, i ? "," : "");
		say_qp(r, qps[i]);
	}
	say(r, "],\"next\":%u}", n == QPS_PAGE ? nic_qp_num(qps[n - 1]) + 1 : 0);
}

/* ---- connections --------------------------------------------------------------------------------------------------
 */

struct cm_page {
	struct reply *r;
	uint32_t from, at, n; /* index of the first connection to show; connections visited; connections shown */
};

static void say_cm_id(void *arg, const struct nic_cm_info *id)
{
	static const char *const states[NIC_CM_STATES] = {
		[NIC_CM_IDLE] = "idle",
		[NIC_CM_LISTEN] = "listen",
		[NIC_CM_REQ_SENT] = "req-sent",
		[NIC_CM_MRA_REQ_RCVD] = "mra-req-rcvd",
		[NIC_CM_REP_RCVD] = "rep-rcvd",
		[NIC_CM_MRA_REP_SENT] = "mra-rep-sent",
		[NIC_CM_REQ_RCVD] = "req-rcvd",
		[NIC_CM_MRA_REQ_SENT] = "mra-req-sent",
		[NIC_CM_REP_SENT] = "rep-sent",
		[NIC_CM_MRA_REP_RCVD] = "mra-rep-rcvd",
		[NIC_CM_ESTABLISHED] = "established",
		[NIC_CM_DREQ_SENT] = "dreq-sent",
		[NIC_CM_DREQ_RCVD] = "dreq-rcvd",
		[NIC_CM_TIMEWAIT] = "timewait",
		[NIC_CM_SIDR_REQ_SENT] = "sidr-req-sent",
		[NIC_CM_SIDR_REQ_RCVD] = "sidr-req-rcvd",
	};
	struct cm_page *page = arg;
	char own[64], peer[64];

	if (page->at++ < page->from || page->n == QPS_PAGE)
		return;
	say(page->r,
	    "%s{\"state\":\"%s\",\"service\":\"%#llx\",\"local_id\":%u,\"remote_id\":%u,\"qpn\":%u,\"peer_qpn\":%u,"
	    "\"own\":\"%s\",\"peer\":\"%s\",\"passive\":%s,\"backlog\":%u,\"pending\":%u,\"private_sent\":%u,"
	    "\"private_rcvd\":%u}",
	    page->n++ ? "," : "", states[id->state], (unsigned long long)id->service_id, id->local_id, id->remote_id,
	    id->local_qpn, id->remote_qpn, pmd_gid_str(&id->route.own, own, sizeof(own)),
	    pmd_gid_str(&id->route.peer, peer, sizeof(peer)), id->passive ? "true" : "false", id->backlog, id->pending,
	    id->private_sent, id->private_rcvd);
}

static void observe_cm(struct pmd_host *host, struct reply *r, const char *args)
{
	struct cm_page page = {.r = r, .from = (uint32_t)strtoul(args, NULL, 10)};

	say(r, "{\"function\":%u,\"cm\":[", host->function);
	if (host->nic_cm)
		nic_cm_each(host->nic_cm, say_cm_id, &page);
	say(r, "],\"next\":%u}", page.at > page.from + page.n ? page.from + page.n : 0);
}

/* ---- faults ------------------------------------------------------------------------------------------------------ */

static void observe_fault_show(struct pmd_host *host, struct reply *r)
{
	static const char *const directions[] = {"", "tx", "rx", "both"};
	const char *separator = "";
	const struct pmd_fault_rule *rule;

	say(r, "{\"function\":%u,\"rules\":[", host->function);
	for (unsigned i = 0; host->stages->fault && (rule = pmd_fault_rule(host->stages->fault, i)); i++)
		say(r,
		    "%s{\"qp\":%u,\"dir\":\"%s\",\"loss\":%llu,\"dup\":%llu,\"corrupt\":%llu,\"reorder\":%llu,"
		    "\"gap\":%llu,\"delay\":%llu,\"jitter\":%llu,\"down\":%llu,\"seed\":%llu}",
		    i ? "," : "", rule->qpn, directions[rule->directions & 3], (unsigned long long)rule->loss_ppb,
		    (unsigned long long)rule->dup_ppb, (unsigned long long)rule->corrupt_ppb,
		    (unsigned long long)rule->reorder_ppb, (unsigned long long)rule->gap,
		    (unsigned long long)rule->delay_ns, (unsigned long long)rule->jitter_ns,
		    (unsigned long long)rule->down, (unsigned long long)rule->seed);
	say(r, "],\"counters\":[");
	say_fault_counters(host, r, &separator);
	say(r, "]}");
}

static void observe_fault(struct pmd_host *host, struct reply *r, const char *args)
{
	char err[160];
	int rc;

	if (strcmp(args, "show") == 0) {
		observe_fault_show(host, r);
		return;
	}
	rc = pmd_tap_fault(host, args, err, sizeof(err));
	if (rc != 0)
		fail(r, rc, err);
	else
		say(r, "{\"function\":%u}", host->function);
}

/* ---- captures ---------------------------------------------------------------------------------------------------- */

/** Parse the arguments of a capture request. @return false: invalid. */
static bool capture_words(const char *args, struct pmd_capture_filter *filter)
{
	char dir[8] = "";
	int used;

	*filter = (struct pmd_capture_filter){.directions = PMD_CAPTURE_TX | PMD_CAPTURE_RX,
					      .snaplen = PMD_CAPTURE_SNAPLEN};
	for (; *args; args += used) {
		unsigned n;

		used = 0;
		if (sscanf(args, " qp=%8u%n", &n, &used) == 1 && used) {
			filter->qpn = n;
		} else if (sscanf(args, " snaplen=%8u%n", &n, &used) == 1 && used) {
			filter->snaplen = n < PMD_CAPTURE_SNAPLEN ? n : PMD_CAPTURE_SNAPLEN;
		} else if (sscanf(args, " dir=%7s%n", dir, &used) == 1 && used) {
			filter->directions = strcmp(dir, "tx") == 0	? PMD_CAPTURE_TX
					     : strcmp(dir, "rx") == 0	? PMD_CAPTURE_RX
					     : strcmp(dir, "both") == 0 ? PMD_CAPTURE_TX | PMD_CAPTURE_RX
									: 0;
		}
		if (!used || !filter->directions || !filter->snaplen)
			return false;
	}
	return true;
}

static void observe_capture_start(struct pmd_host *host, int fd, struct reply *r, const char *args)
{
	struct pmd_capture_filter filter;

	if (!capture_words(args, &filter))
		fail(r, -EINVAL, "this is no capture: qp=N, dir=tx|rx|both, snaplen=BYTES");
	else if (!host->stages->capture && !(host->stages->capture = pmd_capture_create()))
		fail(r, -ENOMEM, "the process is out of memory");
	else if (pmd_capture_add(host->stages->capture, fd, &filter) != 0)
		fail(r, -EBUSY, "as many captures run on this function as it can serve; end one");
	pmd_tap_update(host);
}

/** Start or stop a capture, or report its counts. @return whether to reply: a tool that starts a capture gets only
 *  packets. */
static bool observe_capture(struct pmd_host *host, int fd, struct reply *r, const char *args)
{
	struct pmd_capture_counts counts;
	bool stop = strcmp(args, "stop") == 0;

	if (!stop && strcmp(args, "counts") != 0) {
		observe_capture_start(host, fd, r, args);
		return r->status != 0;
	}
	if (!host->stages->capture || !pmd_capture_get(host->stages->capture, fd, &counts)) {
		fail(r, -ENOENT, "no capture runs on this connection");
		return true;
	}
	say(r, "{\"function\":%u,\"seen\":%llu,\"lost\":%llu}", host->function, (unsigned long long)counts.seen,
	    (unsigned long long)counts.lost);
	if (stop)
		pmd_observe_closed(host, fd);
	return true;
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

/** @return the arguments, if `text` is a request with the command `name`; else NULL. */
static const char *command(const char *text, const char *name)
{
	size_t len = strlen(name);

	if (strncmp(text, name, len) != 0 || (text[len] != ' ' && text[len] != '\0'))
		return NULL;
	return text + len + strspn(text + len, " ");
}

/** Whether only the users listed in observe.h may make the request. Other users of the device may read counters, but
 *  may neither see nor drop packets. */
static bool is_owners(const char *text)
{
	const char *fault = command(text, "fault");

	return command(text, "capture") || (fault && strcmp(fault, "show") != 0);
}

/** Execute a request. @return whether to send the reply. */
static bool dispatch(struct pmd_host *host, int fd, const char *text, struct reply *r)
{
	const char *args;

	if (is_owners(text) && host->control && !pmd_control_is_owner(host->control, fd))
		fail(r, -EPERM,
		     "captures and faults are for the user who runs the process, the one who runs the device's daemon, "
		     "and root");
	else if (command(text, "status"))
		observe_status(host, r);
	else if (command(text, "stats"))
		observe_stats(host, r);
	else if ((args = command(text, "qps")))
		observe_qps(host, r, args);
	else if ((args = command(text, "cm")))
		observe_cm(host, r, args);
	else if ((args = command(text, "fault")))
		observe_fault(host, r, args);
	else if ((args = command(text, "capture")))
		return observe_capture(host, fd, r, args);
	else
		fail(r, -ENOSYS, "this function does not know the command; its uroce is older or newer than yours");
	return true;
}

/** @return an empty reply; NULL: out of memory, and the connection was shut down. */
static struct reply *reply_new(int fd)
{
	struct reply *r = malloc(sizeof(*r));

	if (!r) {
		shutdown(fd, SHUT_RDWR);
		return NULL;
	}
	r->status = 0;
	r->len = 0;
	return r;
}

static void reply_send(int fd, const struct reply *r)
{
	int32_t status = r->status;

	if ((r->len > 0 && proto_send(fd, PROTO_TEXT, r->text, r->len, NULL, 0) != 0) ||
	    proto_send(fd, PROTO_END, &status, sizeof(status), NULL, 0) != 0)
		shutdown(fd, SHUT_RDWR);
}

void pmd_observe_request(struct pmd_host *host, int fd, const char *text)
{
	struct reply *r = reply_new(fd);

	if (r && dispatch(host, fd, text, r))
		reply_send(fd, r);
	free(r);
}

void pmd_observe_last_words(struct pmd_host *host, int fd)
{
	struct pmd_capture_counts counts;
	struct reply *r;

	if (!host->stages->capture || !pmd_capture_get(host->stages->capture, fd, &counts))
		return;
	r = reply_new(fd);
	if (r && observe_capture(host, fd, r, "stop"))
		reply_send(fd, r);
	free(r);
}

void pmd_observe_closed(struct pmd_host *host, int fd)
{
	if (!host->stages->capture)
		return;
	pmd_capture_remove(host->stages->capture, fd);
	pmd_tap_update(host);
}
