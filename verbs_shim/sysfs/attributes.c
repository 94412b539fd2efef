/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attributes.c - the files below a device's folder infiniband/NAME and their text, in the kernel's formats. The values
 * are those that verbs report. They come from facts.h, from struct pmd_device and from struct sysfs_live (live.c,
 * rest.c).
 */
#include <stdio.h>
#include <string.h>

#include "facts.h"
#include "sysfs.h"

struct folder {
	sysfs_emit_fn emit;
	void *ctx;
	const char *place;
	int err; /* the first error; once set, nothing more is emitted */
	char text[SYSFS_TEXT_MAX];
};

static void put(struct folder *f, enum sysfs_kind kind, const char *name, const char *text)
{
	char path[SYSFS_OWN_MAX];

	if (f->err)
		return;
	snprintf(path, sizeof(path), "%s%s%s", f->place, name[0] ? "/" : "", name);
	f->err = f->emit(f->ctx, kind, path, text);
}

static void put_text(struct folder *f, const char *name)
{
	size_t n = strlen(f->text);

	f->text[n] = '\n';
	f->text[n + 1] = '\0';
	put(f, SYSFS_FILE, name, f->text);
}

/** Emit a file of one line, whose text is formatted as by printf. */
#define put_line(f, name, ...) ((void)snprintf((f)->text, sizeof((f)->text) - 1, __VA_ARGS__), put_text(f, name))

static void put_folder(struct folder *f, const char *name)
{
	put(f, SYSFS_FOLDER, name, NULL);
}

static void put_guid(struct folder *f, const char *name, uint64_t guid)
{
	put_line(f, name, "%04x:%04x:%04x:%04x", (unsigned)(guid >> 48), (unsigned)(guid >> 32 & 0xffff),
		 (unsigned)(guid >> 16 & 0xffff), (unsigned)(guid & 0xffff));
}

/* ---- device ------------------------------------------------------------------------------------------ */

static void put_device(struct folder *f, const struct pmd_device *d)
{
	put_folder(f, "");
	put_line(f, "node_type", "1: CA");
	put_guid(f, "node_guid", d->node_guid);
	put_guid(f, "sys_image_guid", d->node_guid);
	put_line(f, "node_desc", "%s", d->name);
	put_line(f, "fw_ver", "%s", FACT_FIRMWARE);
	put_line(f, "hw_rev", "0x%x", FACT_HARDWARE);
	put_line(f, "hca_type", "uroce");
	put_line(f, "board_id", "uroce");
}

/* ---- port -------------------------------------------------------------------------------------------- */

static const char *name_of(const char *const *names, unsigned n, unsigned value)
{
	return value < n && names[value] ? names[value] : "<unknown>";
}

static void put_port(struct folder *f, const struct sysfs_live *live)
{
	static const char *const states[] = {"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"};
	static const char *const phys[] = {[1] = "Sleep", "Polling",	       "Disabled", "PortConfigurationTraining",
					   "LinkUp",	  "LinkErrorRecovery", "Phy Test"};

	put_folder(f, "ports");
	put_folder(f, "ports/1");
	put_line(f, "ports/1/state", "%u: %s", live->state, name_of(states, 6, live->state));
	put_line(f, "ports/1/phys_state", "%u: %s", live->phys_state, name_of(phys, 8, live->phys_state));
	put_line(f, "ports/1/rate", "%u Gb/sec (%uX %s)", FACT_LANES * FACT_LANE_GBPS, FACT_LANES, FACT_SPEED_NAME);
	put_line(f, "ports/1/link_layer", "Ethernet");
	put_line(f, "ports/1/lid", "0x0");
	put_line(f, "ports/1/lid_mask_count", "0");
	put_line(f, "ports/1/sm_lid", "0x0");
	put_line(f, "ports/1/sm_sl", "0");
	put_line(f, "ports/1/cap_mask", "0x%08x", (unsigned)FACT_PORT_CAPS);
	put_folder(f, "ports/1/pkeys");
	put_line(f, "ports/1/pkeys/0", "0x%04x", FACT_PKEY);
}

/** Emit the GID table. Empty entries get no files for type and interface, so opening these fails; the kernel has the
 * files, but reading them fails. */
static void put_gids(struct folder *f, const struct pmd_device *d, const struct sysfs_live *live)
{
	static const struct nic_gid empty;
	char name[64];

	put_folder(f, "ports/1/gids");
	put_folder(f, "ports/1/gid_attrs");
	put_folder(f, "ports/1/gid_attrs/types");
	put_folder(f, "ports/1/gid_attrs/ndevs");
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++) {
		const uint8_t *g = live->gids[i].raw;

		snprintf(name, sizeof(name), "ports/1/gids/%u", i);
		put_line(f, name, "%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x", g[0], g[1],
			 g[2], g[3], g[4], g[5], g[6], g[7], g[8], g[9], g[10], g[11], g[12], g[13], g[14], g[15]);
		if (!memcmp(&live->gids[i], &empty, sizeof(empty)))
			continue;
		snprintf(name, sizeof(name), "ports/1/gid_attrs/types/%u", i);
		put_line(f, name, "RoCE v2");
		snprintf(name, sizeof(name), "ports/1/gid_attrs/ndevs/%u", i);
		if (d->netdev[0])
			put_line(f, name, "%s", d->netdev);
	}
}

#define NIC(name)  live->nic[NIC_CNT_##name]
#define PORT(name) live->port.name

static void put_counters(struct folder *f, const struct sysfs_live *live)
{
	put_folder(f, "ports/1/counters");
#define PORT_COUNTER(name, value) put_line(f, "ports/1/counters/" #name, "%llu", (unsigned long long)(value));
#define HW_COUNTER(name, value)
#include "port_counters.def"
#undef PORT_COUNTER
#undef HW_COUNTER
}

/** Emit all counters of the NIC and its port. Some counters are also emitted under the names that other drivers use. */
static void put_hw_counters(struct folder *f, const struct sysfs_live *live)
{
	put_folder(f, "ports/1/hw_counters");
#define PORT_COUNTER(name, value)
#define HW_COUNTER(name, value) put_line(f, "ports/1/hw_counters/" #name, "%llu", (unsigned long long)(value));
#include "port_counters.def"
#undef PORT_COUNTER
#undef HW_COUNTER
#define HW_COUNTER(name, value)	    put_line(f, "ports/1/hw_counters/" name, "%llu", (unsigned long long)(value));
#define NIC_COUNTER(name, sentence) HW_COUNTER(#name, NIC(name))
#include "counters.def"
#undef NIC_COUNTER
#define PMD_PORT_STAT(name, sentence) HW_COUNTER("port_" #name, PORT(name))
#include "port_stats.def"
#undef PMD_PORT_STAT
#undef HW_COUNTER
}

int sysfs_device_emit(const char *place, const struct pmd_device *d, const struct sysfs_live *live, sysfs_emit_fn emit,
		      void *ctx)
{
	struct folder f = {.emit = emit, .ctx = ctx, .place = place};

	put_device(&f, d);
	put_port(&f, live);
	put_gids(&f, d, live);
	put_counters(&f, live);
	put_hw_counters(&f, live);
	return f.err;
}
