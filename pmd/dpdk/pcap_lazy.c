/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pcap_lazy.c - libpcap on demand, for DPDK's net_pcap.
 *
 * net_pcap is linked statically like the other PMDs, but libpcap would bring ten more libraries into every process.
 * This file defines the functions of libpcap that the PMD calls. Each forwards to libpcap.so.0.8; the first call, made
 * when a device with a net_pcap port is opened, loads that library. If libpcap is not installed, a net_pcap port fails
 * to open.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include <pcap/pcap.h>

static void *pcap_symbol(const char *name)
{
	static void *library;

	if (!library)
		library = dlopen("libpcap.so.0.8", RTLD_NOW | RTLD_LOCAL);
	return library ? dlsym(library, name) : NULL;
}

/* Declares `fn`, which points to the real function; NULL if libpcap is not installed. */
#define PCAP_REAL(name) __typeof__(&name) fn = (__typeof__(&name))pcap_symbol(#name)

static pcap_t *pcap_absent(char *errbuf)
{
	if (errbuf)
		snprintf(errbuf, PCAP_ERRBUF_SIZE, "libpcap.so.0.8 is not installed (package libpcap0.8)");
	return NULL;
}

/** Open the device without promiscuous mode, although net_pcap asks for it: frames for other hosts are of no use to
 *  us. */
pcap_t *pcap_open_live(const char *device, int snaplen, int promisc, int to_ms, char *errbuf)
{
	PCAP_REAL(pcap_open_live);
	(void)promisc;
	return fn ? fn(device, snaplen, 0, to_ms, errbuf) : pcap_absent(errbuf);
}

pcap_t *pcap_open_offline(const char *path, char *errbuf)
{
	PCAP_REAL(pcap_open_offline);
	return fn ? fn(path, errbuf) : pcap_absent(errbuf);
}

pcap_t *pcap_open_dead_with_tstamp_precision(int linktype, int snaplen, u_int precision)
{
	PCAP_REAL(pcap_open_dead_with_tstamp_precision);
	return fn ? fn(linktype, snaplen, precision) : NULL;
}

/* The functions below get a pcap_t or pcap_dumper_t, so libpcap has been loaded; it is never unloaded. */

void pcap_close(pcap_t *p)
{
	PCAP_REAL(pcap_close);
	if (fn)
		fn(p);
}

char *pcap_geterr(pcap_t *p)
{
	PCAP_REAL(pcap_geterr);
	return fn ? fn(p) : (char *)"libpcap.so.0.8 is not installed (package libpcap0.8)";
}

pcap_dumper_t *pcap_dump_open(pcap_t *p, const char *path)
{
	PCAP_REAL(pcap_dump_open);
	return fn ? fn(p, path) : NULL;
}

void pcap_dump_close(pcap_dumper_t *d)
{
	PCAP_REAL(pcap_dump_close);
	if (fn)
		fn(d);
}

int pcap_dump_flush(pcap_dumper_t *d)
{
	PCAP_REAL(pcap_dump_flush);
	return fn ? fn(d) : -1;
}

int pcap_datalink(pcap_t *p)
{
	PCAP_REAL(pcap_datalink);
	return fn ? fn(p) : PCAP_ERROR;
}

int pcap_setdirection(pcap_t *p, pcap_direction_t direction)
{
	PCAP_REAL(pcap_setdirection);
	return fn ? fn(p, direction) : -1;
}

int pcap_setnonblock(pcap_t *p, int on, char *errbuf)
{
	PCAP_REAL(pcap_setnonblock);
	return fn ? fn(p, on, errbuf) : -1;
}

int pcap_stats(pcap_t *p, struct pcap_stat *stats)
{
	PCAP_REAL(pcap_stats);
	return fn ? fn(p, stats) : -1;
}

/* For functions called per packet: looks up the symbol only at the first call. If two threads make the first call at
 * the same time, both look up the symbol, which is harmless. */
#define PCAP_REAL_HOT(name)                                                                                            \
	static __typeof__(&name) hot;                                                                                  \
	__typeof__(&name) fn = __atomic_load_n(&hot, __ATOMIC_RELAXED);                                                \
	if (!fn) {                                                                                                     \
		fn = (__typeof__(&name))pcap_symbol(#name);                                                            \
		__atomic_store_n(&hot, fn, __ATOMIC_RELAXED);                                                          \
	}

void pcap_dump(u_char *d, const struct pcap_pkthdr *header, const u_char *data)
{
	PCAP_REAL_HOT(pcap_dump);
	if (fn)
		fn(d, header, data);
}

const u_char *pcap_next(pcap_t *p, struct pcap_pkthdr *header)
{
	PCAP_REAL_HOT(pcap_next);
	return fn ? fn(p, header) : NULL;
}

int pcap_next_ex(pcap_t *p, struct pcap_pkthdr **header, const u_char **data)
{
	PCAP_REAL_HOT(pcap_next_ex);
	return fn ? fn(p, header, data) : -1;
}

int pcap_sendpacket(pcap_t *p, const u_char *data, int len)
{
	PCAP_REAL_HOT(pcap_sendpacket);
	return fn ? fn(p, data, len) : -1;
}
