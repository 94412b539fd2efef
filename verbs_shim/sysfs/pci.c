/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pci.c - presents the devices in /sys/devices as PCI Express functions, for programs that derive from the PCI topology
 * how near a device is to CPUs, memory and other devices. Owns nothing.
 *
 *   /sys/devices/pciDDDD:00                   a host bridge
 *       DDDD:00:01.0                          a root port, one per device
 *           DDDD:01:00.0                      the device: vendor, device, class, ...
 *               infiniband/, infiniband_verbs/, net/
 *
 * Each device has a bus of its own, because NCCL treats functions that differ only in slot and function number as ports
 * or virtual functions of one card. Each device has a root port above it, because NCCL reads the link speeds of the
 * device and of the port, and uses the lower one. No kernel driver is bound to a function, so there is no link
 * `driver`. A function has no registers, memory or configuration space, so there are no files for these.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "facts.h"
#include "sysfs.h"

/* PCI class codes. RoCE NICs are Ethernet controllers; class 0x0207 (InfiniBand) is for NICs with that link layer. */
#define CLASS_ETHERNET 0x020000
#define CLASS_BRIDGE   0x060400

/* 252 Gb/s: faster than the device's RoCE port, so that programs find the bottleneck in the port and not in PCI. */
#define LINK_SPEED "16.0 GT/s PCIe"
#define LINK_LANES 16

#define PORTS_A_SLOT 8 /* a slot has eight functions */

#define CPUS_MAX (SYSFS_TEXT_MAX / 9 * 32) /* most CPUs whose mask fits: 32 of them take 8 digits and a comma */

struct pci {
	sysfs_emit_fn emit;
	void *ctx;
	const char *place; /* the path of the function that is emitted */
	unsigned cpus;	   /* of the machine */
	int err;	   /* the first error; once set, nothing more is emitted */
};

static void put_at(struct pci *p, enum sysfs_kind kind, const char *path, const char *text)
{
	if (!p->err)
		p->err = p->emit(p->ctx, kind, path, text);
}

static void put(struct pci *p, enum sysfs_kind kind, const char *name, const char *text)
{
	char path[SYSFS_OWN_MAX];

	snprintf(path, sizeof(path), "%s/%s", p->place, name);
	put_at(p, kind, path, text);
}

/** Emit a file with a text that is formatted as by printf. */
static void __attribute__((format(printf, 3, 4))) put_text(struct pci *p, const char *name, const char *format, ...)
{
	char text[SYSFS_TEXT_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	put(p, SYSFS_FILE, name, text);
}

/** Emit a relative symbolic link `name` in the folder of class `c`. @param to the path of the target, below /sys */
static void put_link(struct pci *p, enum sysfs_class c, const char *name, const char *to)
{
	char path[SYSFS_OWN_MAX], target[SYSFS_OWN_MAX];

	snprintf(path, sizeof(path), "%s/%s", sysfs_class_paths[c], name);
	snprintf(target, sizeof(target), "%s%.200s", c == SYSFS_PCI ? "../../.." : "../..", to + strlen("/sys"));
	put_at(p, SYSFS_LINK, path, target);
}

/* ---- a function -------------------------------------------------------------------------------------- */

/** Emit the local CPUs: all CPUs, because the device's code runs on the CPUs of its application. */
static void put_cpus(struct pci *p)
{
	char mask[CPUS_MAX / 32 * 9 + 1];
	unsigned known = p->cpus ? p->cpus : 1, cpus = known < CPUS_MAX ? known : CPUS_MAX;
	size_t len = 0;

	for (unsigned group = (cpus - 1) / 32 + 1; group-- > 0;) {
		bool whole = cpus - 32 * group >= 32;
		uint32_t bits = whole ? UINT32_MAX : (1u << (cpus - 32 * group)) - 1;

		len += (size_t)snprintf(mask + len, sizeof(mask) - len, len ? ",%08x" : "%x", bits);
	}
	put_text(p, "local_cpus", "%s\n", mask);
	if (cpus > 1)
		put_text(p, "local_cpulist", "0-%u\n", cpus - 1);
	else
		put_text(p, "local_cpulist", "0\n");
}

static void put_ids(struct pci *p, const char *name, unsigned device, unsigned class)
{
	char alias[80];

	snprintf(alias, sizeof(alias), "pci:v%08Xd%08Xsv%08Xsd%08Xbc%02Xsc%02Xi%02X", FACT_VENDOR_ID, device,
		 FACT_VENDOR_ID, device, class >> 16, class >> 8 & 0xff, class & 0xff);
	put_text(p, "vendor", "0x%04x\n", FACT_VENDOR_ID);
	put_text(p, "device", "0x%04x\n", device);
	put_text(p, "subsystem_vendor", "0x%04x\n", FACT_VENDOR_ID);
	put_text(p, "subsystem_device", "0x%04x\n", device);
	put_text(p, "class", "0x%06x\n", class);
	put_text(p, "revision", "0x%02x\n", FACT_HARDWARE);
	put_text(p, "modalias", "%s\n", alias);
	put_text(p, "uevent",
		 "PCI_CLASS=%04X\nPCI_ID=%04X:%04X\nPCI_SUBSYS_ID=%04X:%04X\nPCI_SLOT_NAME=%s\nMODALIAS=%s\n", class,
		 FACT_VENDOR_ID, device, FACT_VENDOR_ID, device, name, alias);
}

/** Emit the folder p->place and its files. */
static void put_function(struct pci *p, unsigned device, unsigned class)
{
	static const char *const speeds[] = {"max_link_speed", "current_link_speed"};
	static const char *const widths[] = {"max_link_width", "current_link_width"};
	const char *name = strrchr(p->place, '/') + 1;

	put_at(p, SYSFS_FOLDER, p->place, NULL);
	put_ids(p, name, device, class);
	put_text(p, "numa_node", "-1\n");
	put_cpus(p);
	for (unsigned i = 0; i < 2; i++) {
		put_text(p, speeds[i], LINK_SPEED "\n");
		put_text(p, widths[i], "%u\n", LINK_LANES);
	}
	/* The link is relative, so that it leads to the tree's own /sys/bus/pci: the kernel may have none. */
	put(p, SYSFS_LINK, "subsystem", class == CLASS_BRIDGE ? "../../../bus/pci" : "../../../../bus/pci");
	put_link(p, SYSFS_PCI, name, p->place);
}

/** Emit bus number `bus`, which is below p->place. */
static void put_bus(struct pci *p, unsigned domain, unsigned bus)
{
	char name[32], path[SYSFS_OWN_MAX];

	snprintf(name, sizeof(name), "%04x:%02x", domain, bus);
	snprintf(path, sizeof(path), "%s/pci_bus", p->place);
	put_at(p, SYSFS_FOLDER, path, NULL);
	snprintf(path, sizeof(path), "%s/pci_bus/%s", p->place, name);
	put_at(p, SYSFS_FOLDER, path, NULL);
	put_link(p, SYSFS_PCI_BUS, name, path);
}

/* ---- all devices ------------------------------------------------------------------------------------- */

static void bridge_place(unsigned domain, char *out, size_t len)
{
	snprintf(out, len, "%s/pci%04x:00", sysfs_class_paths[SYSFS_DEVICES], domain);
}

static void port_place(unsigned domain, unsigned index, char *out, size_t len)
{
	snprintf(out, len, "%s/pci%04x:00/%04x:00:%02x.%x", sysfs_class_paths[SYSFS_DEVICES], domain, domain,
		 1 + index / PORTS_A_SLOT, index % PORTS_A_SLOT);
}

void sysfs_pci_place(const struct sysfs_world *w, unsigned index, char *out, size_t len)
{
	char port[64];

	port_place(w->pci_domain, index, port, sizeof(port));
	snprintf(out, len, "%s/%04x:%02x:00.0", port, w->pci_domain, index + 1);
}

static void put_device(struct pci *p, const struct sysfs_world *w, unsigned index)
{
	const char *netdev = w->devices[index].netdev;
	char port[SYSFS_OWN_MAX], place[SYSFS_OWN_MAX], name[64], target[64];

	port_place(w->pci_domain, index, port, sizeof(port));
	p->place = port;
	put_function(p, FACT_VENDOR_PART_ID + 1, CLASS_BRIDGE);
	put_bus(p, w->pci_domain, index + 1);
	sysfs_pci_place(w, index, place, sizeof(place));
	p->place = place;
	put_function(p, FACT_VENDOR_PART_ID, CLASS_ETHERNET);
	put(p, SYSFS_FOLDER, "infiniband", NULL);
	put(p, SYSFS_FOLDER, "infiniband_verbs", NULL);
	put(p, SYSFS_FOLDER, "net", NULL);
	if (netdev[0]) {
		snprintf(name, sizeof(name), "net/%s", netdev);
		snprintf(target, sizeof(target), "/sys/class/net/%s", netdev);
		put(p, SYSFS_LINK, name, target);
	}
}

int sysfs_pci_emit(const struct sysfs_world *w, sysfs_emit_fn emit, void *ctx)
{
	char bridge[SYSFS_OWN_MAX];
	struct pci p = {.emit = emit, .ctx = ctx, .place = bridge, .cpus = w->cpus};

	bridge_place(w->pci_domain, bridge, sizeof(bridge));
	put_at(&p, SYSFS_FOLDER, bridge, NULL);
	put_bus(&p, w->pci_domain, 0);
	for (unsigned i = 0; i < w->n; i++)
		put_device(&p, w, i);
	return p.err;
}
