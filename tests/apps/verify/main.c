/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * main.c - options and plan of the data verifier.
 *
 *   verify -s [-d DEVICE] [-g GID_INDEX] [-p PORT]              the server takes the plan from the client
 *   verify -c ADDRESS [-d ...] [-g ...] [-p ...] [-t rc,uc,ud] [-o OPS] [-z SIZES] [-m MTU] [-q QPS] [-n MESSAGES]
 *          [-D client|server|both] [-T TIMEOUT_CODE] [-w STALL_MS] [-r SEED] [-e] [-S] [-I] [-v]
 *
 * Exit code 0: all data arrived exactly once and in the right place, and no other memory changed.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "verify.h"

#define PLAN_AREA_MAX	 ((size_t)24 << 20)
#define PLAN_BURST_MAX	 ((size_t)8 << 20) /* bytes in flight in a phase, for reliable services */
/* Bytes in flight in a phase, for services that lose packets when a socket buffer is full. */
#define PLAN_LOSSY_MAX	 ((size_t)96 << 10)
#define UNRELIABLE_TRIES 12

static bool verbose;

void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "verify: ");
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\n");
	va_end(ap);
	exit(1);
}

uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000ull + t.tv_nsec / 1000000;
}

static uint32_t mask_parse(const char *list, const char *(*name)(unsigned), unsigned count, const char *what)
{
	char *copy = strdup(list), *save = NULL;
	uint32_t mask = 0;

	for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		unsigned i = 0;

		while (i < count && strcmp(word, name(i)))
			i++;
		if (i == count)
			die("unknown %s \"%s\"", what, word);
		mask |= 1u << i;
	}
	free(copy);
	return mask;
}

static const char *op_name_of(unsigned i)
{
	return op_name(i);
}

static const char *service_name_of(unsigned i)
{
	return service_name(i);
}

static void sizes_parse(struct plan *plan, const char *list)
{
	char *copy = strdup(list), *save = NULL;

	plan->size_count = 0;
	for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		if (plan->size_count == MAX_SIZES)
			die("more than %d sizes", MAX_SIZES);
		plan->sizes[plan->size_count++] = strtoul(word, NULL, 0);
	}
	free(copy);
}

static void sizes_default(struct plan *plan)
{
	uint32_t size[] = {0, 1, 7, 100, plan->mtu - 1, plan->mtu, plan->mtu + 1, 65539, 1 << 20, 3 << 20};

	plan->size_count = sizeof(size) / sizeof(size[0]);
	memcpy(plan->sizes, size, sizeof(size));
}

static bool op_legal(enum service svc, enum op op)
{
	static const uint32_t legal[] = {(1u << OP_COUNT) - 1,
					 1u << OP_SEND | 1u << OP_SEND_IMM | 1u << OP_WRITE | 1u << OP_WRITE_IMM,
					 1u << OP_SEND | 1u << OP_SEND_IMM};
	return legal[svc] >> op & 1;
}

/** Choose the number of messages for each QP: at most what the plan says and what the limit on bytes in flight allows,
 * but at least one. @return whether all messages fit the memory areas. */
static bool phase_fit(struct phase *ph)
{
	const struct plan *plan = ph->plan;
	size_t limit = ph->svc == SVC_RC ? PLAN_BURST_MAX : PLAN_LOSSY_MAX, most;

	ph->stride = phase_stride(ph);
	most = limit / ((size_t)ph->stride * plan->qps);
	ph->msgs = plan->msgs < most ? plan->msgs : most;
	if (!ph->msgs)
		ph->msgs = 1;
	return (size_t)ph->stride * ph->msgs * plan->qps <= PLAN_AREA_MAX;
}

static void phase_attempt(struct end *end, struct phase *ph, uint64_t *generation)
{
	for (int i = 0; i < UNRELIABLE_TRIES; i++) {
		if (phase_run(end, ph) == PHASE_OK)
			return;
		end->lost_phases++;
		links_connect(end, ph->plan, ph->svc, ++*generation);
	}
	die("%s %s size %u: lost %d times in a row", service_name(ph->svc), op_name(ph->op), ph->size,
	    UNRELIABLE_TRIES);
}

static unsigned plan_run(struct end *end, const struct plan *plan)
{
	unsigned phases = 0;
	uint64_t generation = 0;

	for (unsigned svc = 0; svc < SVC_COUNT; svc++) {
		if (!(plan->services >> svc & 1))
			continue;
		links_connect(end, plan, svc, ++generation);
		for (unsigned op = 0; op < OP_ERRORS; op++) {
			for (unsigned i = 0; i < plan->size_count; i++) {
				struct phase ph = {.plan = plan,
						   .svc = svc,
						   .op = op,
						   .index = phases,
						   .size = op_is_atomic(op) ? 8 : plan->sizes[i]};

				if (!(plan->ops >> op & 1) || !op_legal(svc, op) || (op_is_atomic(op) && i > 1) ||
				    (svc == SVC_UD && ph.size > plan->mtu))
					continue;
				ph.sges = 1 + phases % 4;
				ph.inline_data = phases & 1 && op != OP_READ && !op_is_atomic(op) &&
						 ph.size <= end->max_inline && !plan->no_inline;
				if (!phase_fit(&ph))
					continue;
				if (verbose)
					printf("%s %-10s %7u B x %u x %u, %u SGEs%s\n", service_name(svc), op_name(op),
					       ph.size, plan->qps, ph.msgs, ph.sges, ph.inline_data ? ", inline" : "");
				phase_attempt(end, &ph, &generation);
				phases++;
			}
		}
	}
	if (plan->ops >> OP_ERRORS & 1)
		errors_run(end, plan);
	return phases;
}

static void async_events_check(struct end *end)
{
	struct ibv_async_event event;

	if (end->lost_phases) /* ignore events: late packets may have reached a closing QP and caused them */
		return;
	while (!ibv_get_async_event(end->ctx, &event)) {
		enum ibv_event_type type = event.event_type;

		ibv_ack_async_event(&event);
		/* These three types are not errors. PORT_ACTIVE: a virtual machine's link may just have come up. */
		if (type != IBV_EVENT_COMM_EST && type != IBV_EVENT_QP_LAST_WQE_REACHED &&
		    type != IBV_EVENT_PORT_ACTIVE)
			die("asynchronous event: %s", ibv_event_type_str(type));
	}
}

int main(int argc, char **argv)
{
	struct plan plan = {.seed = 1,
			    .services = 7,
			    .ops = (1u << OP_ERRORS) - 1,
			    .qps = 2,
			    .msgs = 8,
			    .mtu = 1024,
			    .dirs = DIR_BOTH,
			    .timeout_code = 14,
			    .stall_ms = 20000};
	const char *host = NULL, *device = NULL, *sizes = NULL;
	struct end end = {.self = 1};
	int port = 18700, opt, flags;
	unsigned phases;

	while ((opt = getopt(argc, argv, "sc:d:g:p:t:o:z:m:q:n:D:T:w:r:eSIv")) != -1) {
		switch (opt) {
		case 's':
			break;
		case 'c':
			host = optarg;
			break;
		case 'd':
			device = optarg;
			break;
		case 'g':
			end.gid_index = atoi(optarg);
			break;
		case 'p':
			port = atoi(optarg);
			break;
		case 't':
			plan.services = mask_parse(optarg, service_name_of, SVC_COUNT, "service");
			break;
		case 'o':
			plan.ops = mask_parse(optarg, op_name_of, OP_COUNT, "operation");
			break;
		case 'z':
			sizes = optarg;
			break;
		case 'm':
			plan.mtu = atoi(optarg);
			break;
		case 'q':
			plan.qps = atoi(optarg);
			break;
		case 'n':
			plan.msgs = atoi(optarg);
			break;
		case 'D':
			plan.dirs = *optarg == 'c' ? DIR_CLIENT : *optarg == 's' ? DIR_SERVER : DIR_BOTH;
			break;
		case 'T':
			plan.timeout_code = atoi(optarg);
			break;
		case 'w':
			plan.stall_ms = atoi(optarg);
			break;
		case 'r':
			plan.seed = strtoull(optarg, NULL, 0);
			break;
		case 'e':
			plan.events = 1;
			break;
		case 'S':
			plan.use_srq = 1;
			break;
		case 'I':
			plan.no_inline = 1;
			break;
		case 'v':
			verbose = true;
			break;
		default:
			die("unknown option; see the head of main.c");
		}
	}
	if (!plan.qps || plan.qps > MAX_QPS || !plan.msgs || plan.msgs > MAX_MSGS)
		die("-q takes 1 to %d, -n takes 1 to %d", MAX_QPS, MAX_MSGS);
	sizes ? sizes_parse(&plan, sizes) : sizes_default(&plan);
	end.self = !host;
	end.oob = host ? oob_connect(host, port) : oob_accept(port);
	if (host)
		oob_send(end.oob, &plan, sizeof(plan));
	else
		oob_recv(end.oob, &plan, sizeof(plan));
	end_open(&end, device, &plan, PLAN_AREA_MAX);
	flags = fcntl(end.ctx->async_fd, F_GETFL);
	fcntl(end.ctx->async_fd, F_SETFL, flags | O_NONBLOCK);
	phases = plan_run(&end, &plan);
	if (!(plan.ops >> OP_ERRORS & 1))
		async_events_check(&end);
	oob_agree(end.oob, 0);
	end_close(&end);
	printf("verify: %u phases, %llu messages, %llu bytes intact, %llu phases repeated after loss\n", phases,
	       (unsigned long long)end.total_msgs, (unsigned long long)end.total_bytes,
	       (unsigned long long)end.lost_phases);
	return 0;
}
