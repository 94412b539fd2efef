/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroced_tools.c - the daemon's answers to commands of the `uroce` tool (PROTO_TOOL in proto.h).
 *
 * Answers are JSON or an error message, and are sent without waiting: if a tool does not read its answer and the queue
 * is full, the connection is closed.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "uplink.h"
#include "uroced.h"

static void put_string(FILE *out, const char *name, const char *value)
{
	fprintf(out, "\"%s\": \"", name);
	for (; *value; value++) {
		unsigned char c = (unsigned char)*value;

		if (c == '"' || c == '\\')
			fprintf(out, "\\%c", c);
		else if (c < 0x20 || c >= 0x7f)
			fprintf(out, "\\u%04x", c);
		else
			fputc(c, out);
	}
	fputc('"', out);
}

static void put_gids(const struct daemon *d, FILE *out)
{
	char address[PMD_GID_TEXT];
	const char *comma = "";

	fputs("  \"gids\": [", out);
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++) {
		if (pmd_gid_is_none(&d->gids[i].gid))
			continue;
		fprintf(out, "%s\n    {\"index\": %u, \"gid\": \"%s\", \"sockets\": %u}", comma, i,
			pmd_gid_str(&d->gids[i].gid, address, sizeof(address)), d->gids[i].n_sockets);
		comma = ",";
	}
	fputs("\n  ],\n", out);
}

static void put_services(const struct slot *s, FILE *out)
{
	const char *comma = "";

	fputs("\"services\": [", out);
	for (unsigned i = 0; i < s->n_services; i++) {
		if (proto_service_space(s->services[i]) != 0)
			continue;
		fprintf(out, "%s%u", comma, s->services[i]);
		comma = ", ";
	}
	fputs("], \"cm_ports\": [", out); /* each as [space, port] */
	comma = "";
	for (unsigned i = 0; i < s->n_services; i++) {
		if (proto_service_space(s->services[i]) == 0)
			continue;
		fprintf(out, "%s[%u, %u]", comma, proto_service_space(s->services[i]), s->services[i] & 0xffff);
		comma = ", ";
	}
	fputs("]}", out);
}

static void put_functions(const struct daemon *d, FILE *out)
{
	static const char *const states[] = {
		[SLOT_LIVE] = "live", [SLOT_ADOPTING] = "silent", [SLOT_FOREIGN] = "foreign"};
	char address[PMD_GID_TEXT];
	const char *comma = "";

	fputs("  \"functions\": [", out);
	for (unsigned n = 1; n < DAEMON_SLOTS; n++) {
		const struct slot *s = &d->slots[n];

		if (s->state == SLOT_FREE)
			continue;
		fprintf(out, "%s\n    {\"number\": %u, \"state\": \"%s\", \"pid\": %d, ", comma, n, states[s->state],
			(int)s->peer.pid);
		put_string(out, "command", s->command);
		fprintf(out, ", \"uid\": %u, \"since\": %.3f, \"gids\": \"%s\", ", s->peer.uid,
			(double)s->since_ns / 1e9,
			s->join.follow == PROTO_FOLLOW_NONE && s->state == SLOT_LIVE
				? pmd_gid_str(&s->join.gid, address, sizeof(address))
				: "all");
		put_services(s, out);
		comma = ",";
	}
	fputs("\n  ],\n", out);
}

static void put_status(const struct daemon *d, FILE *out)
{
	static const char *const follows[] = {"none", "v6", "all"};
	char address[PMD_GID_TEXT], problem[sizeof(d->why) + sizeof(((struct keeper_status *)0)->problem) + 8];
	struct keeper_status keeper;

	fprintf(out, "{\n  \"device\": \"%s\",\n", pmd_gid_str(&d->key, address, sizeof(address)));
	fprintf(out,
		"  \"daemon\": {\"pid\": %d, \"version\": \"" UROCE_VERSION
		"\", \"uid\": %u, \"uptime\": %.3f, \"stay\": %s, ",
		(int)getpid(), geteuid(), (double)(daemon_now_ns() - d->since_ns) / 1e9, d->stay ? "true" : "false");
	put_string(out, "allow", d->allow);
	fputs("},\n  ", out);
	put_string(out, "interface", d->iface);
	fprintf(out, ", \"follow\": \"%s\", \"port\": \"%s\", ", follows[d->follow], d->port_up ? "up" : "down");
	keeper_status(d, &keeper);
	snprintf(problem, sizeof(problem), "%s%s%s", d->why, d->why[0] && keeper.problem[0] ? "; and " : "",
		 keeper.problem);
	put_string(out, "problem", problem);
	uplink_put(d, out);
	fprintf(out, ",\n  \"keeper\": {\"there\": %s, \"sockets\": %u, \"missing\": %u, \"limit\": %llu},\n",
		keeper.there ? "true" : "false", keeper.kept, keeper.missing, (unsigned long long)d->files_limit);
	put_gids(d, out);
	put_functions(d, out);
	fputs("  \"counters\": {", out);
	const char *comma = "";
#define UROCED_STAT(name, sentence)                                                                                    \
	fprintf(out, "%s\n    \"" #name "\": %llu", comma, (unsigned long long)d->stats.name);                         \
	comma = ",";
#include "uroced_stats.def"
#undef UROCED_STAT
	fputs("\n  }\n}\n", out);
}

static bool answer(struct daemon *d, int fd, int32_t status, const char *text, size_t len)
{
	int rc = 0;

	for (size_t at = 0; at < len && rc == 0; at += PROTO_TEXT_MAX)
		rc = proto_send(fd, PROTO_TEXT, text + at, len - at < PROTO_TEXT_MAX ? len - at : PROTO_TEXT_MAX, NULL,
				0);
	if (rc == 0)
		rc = proto_send(fd, PROTO_END, &status, sizeof(status), NULL, 0);
	d->stats.overrun_tools += rc == -EAGAIN;
	return rc == 0;
}

static bool say(struct daemon *d, int fd, int32_t status, const char *sentence)
{
	return answer(d, fd, status, sentence, strlen(sentence));
}

static bool command_status(struct daemon *d, int fd)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	bool ok;

	if (!out)
		return false;
	put_status(d, out);
	ok = fclose(out) == 0 && answer(d, fd, 0, text, len);
	free(text);
	return ok;
}

static bool command_stats(struct daemon *d, int fd)
{
	static const char *const rows[][2] = {
#define UROCED_STAT(name, sentence) {#name, sentence},
#include "uroced_stats.def"
#undef UROCED_STAT
	};
	const uint64_t values[] = {
#define UROCED_STAT(name, sentence) d->stats.name,
#include "uroced_stats.def"
#undef UROCED_STAT
	};
	const struct uplink_state *uplink = uplink_look(d);
	char text[PROTO_TEXT_MAX];
	int len = snprintf(text, sizeof(text), "{\"daemon\": [");

	for (unsigned i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		len += snprintf(text + len, sizeof(text) - (size_t)len, "%s[\"%s\", %llu, \"%s\"]", i ? ", " : "",
				rows[i][0], (unsigned long long)values[i], rows[i][1]);
	if (uplink) {
#define UPLINK_STAT(name, sentence)                                                                                    \
	len += snprintf(text + len, sizeof(text) - (size_t)len, ", [\"uplink_" #name "\", %llu, \"%s\"]",              \
			(unsigned long long)uplink->stats.name, sentence);
#include "uplink_stats.def"
#undef UPLINK_STAT
	}
	len += snprintf(text + len, sizeof(text) - (size_t)len, "]}\n");
	return answer(d, fd, 0, text, (size_t)len);
}

/** Set or clear the faults for functions that join. `text` is "set ..." or "clear", without terminating zero. */
static bool command_fault(struct daemon *d, int fd, const char *text, size_t len)
{
	if (len >= sizeof(d->fault) || memchr(text, '\0', len))
		return say(d, fd, -EINVAL, "the description of the fault is too long");
	if (len >= 4 && memcmp(text, "set ", 4) == 0) {
		memcpy(d->fault, text, len);
		d->fault[len] = '\0';
	} else if (len == 5 && memcmp(text, "clear", 5) == 0) {
		d->fault[0] = '\0';
	} else {
		return say(d, fd, -EINVAL, "a fault is set or cleared");
	}
	return say(d, fd, 0, "{}\n");
}

void tools_joined(struct daemon *d, unsigned n)
{
	if (d->fault[0] && proto_send(d->slots[n].fd, PROTO_FAULT, d->fault, strlen(d->fault), NULL, 0) != 0)
		d->stats.late_faults++;
}

static bool is(const char *text, size_t len, const char *command)
{
	return len == strlen(command) && memcmp(text, command, len) == 0;
}

/** Commands that change the device. Only the daemon's own user and root may use them. */
static bool command_change(struct daemon *d, int fd, const struct ucred *peer, const char *text, size_t len)
{
	if (peer->uid != geteuid() && peer->uid != 0)
		return say(d, fd, -EPERM, "this is for the user who runs the daemon of the device, and for root");
	if (is(text, len, "stay") || is(text, len, "leave")) {
		d->stay = is(text, len, "stay");
		d->leave = !d->stay;
		guard_keep(d);
		return say(d, fd, 0, "{}\n");
	}
	return command_fault(d, fd, text + strlen("fault "), len - strlen("fault "));
}

bool tools_command(struct daemon *d, int fd, const struct ucred *peer, const char *text, size_t len)
{
	if (is(text, len, "status"))
		return command_status(d, fd);
	if (is(text, len, "stats"))
		return command_stats(d, fd);
	if (is(text, len, "stay") || is(text, len, "leave") || (len > 6 && memcmp(text, "fault ", 6) == 0))
		return command_change(d, fd, peer, text, len);
	if (is(text, len, "make way"))
		return !daemon_makes_way(d) && say(d, fd, -EBUSY, "the device is in use");
	return say(d, fd, -EINVAL, "unknown command; the daemon knows: status, stats, stay, leave, make way, fault");
}
