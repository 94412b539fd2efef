/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * strings.c - names of enumerators, static rates, and reading sysfs files: functions of libibverbs that need no
 * object. We implement them instead of calling the real library, so that programs run on hosts without it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shim.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const char *pick(const char *const *names, size_t n, int value)
{
	return value >= 0 && (size_t)value < n && names[value] ? names[value] : "unknown";
}

SHIM_EXPORT const char *ibv_node_type_str(enum ibv_node_type type)
{
	static const char *const names[] = {
		NULL,
		"InfiniBand channel adapter",
		"InfiniBand switch",
		"InfiniBand router",
		"iWARP NIC",
		"usNIC",
		"usNIC UDP",
		"unspecified",
	};

	return pick(names, COUNT(names), (int)type);
}

SHIM_EXPORT const char *ibv_port_state_str(enum ibv_port_state state)
{
	static const char *const names[] = {"no state change (NOP)", "down", "init", "armed", "active", "active defer"};

	return pick(names, COUNT(names), (int)state);
}

SHIM_EXPORT const char *ibv_event_type_str(enum ibv_event_type event)
{
	static const char *const names[] = {
		[IBV_EVENT_CQ_ERR] = "CQ error",
		[IBV_EVENT_QP_FATAL] = "local work queue catastrophic error",
		[IBV_EVENT_QP_REQ_ERR] = "invalid request local work queue error",
		[IBV_EVENT_QP_ACCESS_ERR] = "local access violation work queue error",
		[IBV_EVENT_COMM_EST] = "communication established",
		[IBV_EVENT_SQ_DRAINED] = "send queue drained",
		[IBV_EVENT_PATH_MIG] = "path migrated",
		[IBV_EVENT_PATH_MIG_ERR] = "path migration request error",
		[IBV_EVENT_DEVICE_FATAL] = "local catastrophic error",
		[IBV_EVENT_PORT_ACTIVE] = "port active",
		[IBV_EVENT_PORT_ERR] = "port error",
		[IBV_EVENT_LID_CHANGE] = "LID change",
		[IBV_EVENT_PKEY_CHANGE] = "P_Key change",
		[IBV_EVENT_SM_CHANGE] = "SM change",
		[IBV_EVENT_SRQ_ERR] = "SRQ catastrophic error",
		[IBV_EVENT_SRQ_LIMIT_REACHED] = "SRQ limit reached",
		[IBV_EVENT_QP_LAST_WQE_REACHED] = "last WQE reached",
		[IBV_EVENT_CLIENT_REREGISTER] = "client reregistration",
		[IBV_EVENT_GID_CHANGE] = "GID table change",
		[IBV_EVENT_WQ_FATAL] = "WQ fatal",
	};

	return pick(names, COUNT(names), (int)event);
}

SHIM_EXPORT const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	static const char *const names[] = {
		[IBV_WC_SUCCESS] = "success",
		[IBV_WC_LOC_LEN_ERR] = "local length error",
		[IBV_WC_LOC_QP_OP_ERR] = "local QP operation error",
		[IBV_WC_LOC_EEC_OP_ERR] = "local EE context operation error",
		[IBV_WC_LOC_PROT_ERR] = "local protection error",
		[IBV_WC_WR_FLUSH_ERR] = "Work Request Flushed Error",
		[IBV_WC_MW_BIND_ERR] = "memory management operation error",
		[IBV_WC_BAD_RESP_ERR] = "bad response error",
		[IBV_WC_LOC_ACCESS_ERR] = "local access error",
		[IBV_WC_REM_INV_REQ_ERR] = "remote invalid request error",
		[IBV_WC_REM_ACCESS_ERR] = "remote access error",
		[IBV_WC_REM_OP_ERR] = "remote operation error",
		[IBV_WC_RETRY_EXC_ERR] = "transport retry counter exceeded",
		[IBV_WC_RNR_RETRY_EXC_ERR] = "RNR retry counter exceeded",
		[IBV_WC_LOC_RDD_VIOL_ERR] = "local RDD violation error",
		[IBV_WC_REM_INV_RD_REQ_ERR] = "remote invalid RD request",
		[IBV_WC_REM_ABORT_ERR] = "aborted error",
		[IBV_WC_INV_EECN_ERR] = "invalid EE context number",
		[IBV_WC_INV_EEC_STATE_ERR] = "invalid EE context state",
		[IBV_WC_FATAL_ERR] = "fatal error",
		[IBV_WC_RESP_TIMEOUT_ERR] = "response timeout error",
		[IBV_WC_GENERAL_ERR] = "general error",
		[IBV_WC_TM_ERR] = "TM error",
		[IBV_WC_TM_RNDV_INCOMPLETE] = "TM software rendezvous",
	};

	return pick(names, COUNT(names), (int)status);
}

const char *shim_wr_opcode_str(int opcode);

const char *shim_wr_opcode_str(int opcode)
{
	static const char *const names[] = {
		"rdma-write",
		"rdma-write-with-imm",
		"send",
		"send-with-imm",
		"rdma-read",
		"atomic-cmp-and-swp",
		"atomic-fetch-and-add",
		"local-inv",
		"bind-mw",
		"send-with-inv",
		"tso",
		"driver1",
		NULL,
		NULL,
		"flush",
		"atomic-write",
	};

	return pick(names, COUNT(names), opcode);
}

/* ---- static rates ------------------------------------------------------------------------------------ */

/* Each rate in Mb/s, and as a multiple of 2.5 Gb/s (-1: the verbs define no multiple for it). */
static const struct {
	enum ibv_rate rate;
	int mbps, mult;
} rates[] = {
	{IBV_RATE_2_5_GBPS, 2500, 1},	  {IBV_RATE_5_GBPS, 5000, 2},	      {IBV_RATE_10_GBPS, 10000, 4},
	{IBV_RATE_20_GBPS, 20000, 8},	  {IBV_RATE_30_GBPS, 30000, 12},      {IBV_RATE_40_GBPS, 40000, 16},
	{IBV_RATE_60_GBPS, 60000, 24},	  {IBV_RATE_80_GBPS, 80000, 32},      {IBV_RATE_120_GBPS, 120000, 48},
	{IBV_RATE_14_GBPS, 14062, -1},	  {IBV_RATE_56_GBPS, 56250, -1},      {IBV_RATE_112_GBPS, 112500, -1},
	{IBV_RATE_168_GBPS, 168750, -1},  {IBV_RATE_25_GBPS, 25781, -1},      {IBV_RATE_100_GBPS, 103125, -1},
	{IBV_RATE_200_GBPS, 206250, -1},  {IBV_RATE_300_GBPS, 309375, -1},    {IBV_RATE_28_GBPS, 28125, 11},
	{IBV_RATE_50_GBPS, 53125, 20},	  {IBV_RATE_400_GBPS, 425000, 160},   {IBV_RATE_600_GBPS, 637500, 240},
	{IBV_RATE_800_GBPS, 850000, 320}, {IBV_RATE_1200_GBPS, 1275000, 480},
};

SHIM_EXPORT int ibv_rate_to_mult(enum ibv_rate rate)
{
	for (size_t i = 0; i < COUNT(rates); i++)
		if (rates[i].rate == rate)
			return rates[i].mult;
	return -1;
}

SHIM_EXPORT enum ibv_rate mult_to_ibv_rate(int mult)
{
	for (size_t i = 0; i < COUNT(rates); i++)
		if (mult > 0 && rates[i].mult == mult)
			return rates[i].rate;
	return IBV_RATE_MAX;
}

SHIM_EXPORT int ibv_rate_to_mbps(enum ibv_rate rate)
{
	for (size_t i = 0; i < COUNT(rates); i++)
		if (rates[i].rate == rate)
			return rates[i].mbps;
	return -1;
}

SHIM_EXPORT enum ibv_rate mbps_to_ibv_rate(int mbps)
{
	for (size_t i = 0; i < COUNT(rates); i++)
		if (rates[i].mbps == mbps)
			return rates[i].rate;
	return IBV_RATE_MAX;
}

/* ---- sysfs ------------------------------------------------------------------------------------------- */

const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

SHIM_EXPORT const char *ibv_get_sysfs_path(void)
{
	const char *path = secure_getenv("SYSFS_PATH");

	return path && path[0] ? path : "/sys";
}

/** Read a file and remove the newline at its end. @return the length; -1: error, or the text and its final 0 do not
 * fit in buf. */
SHIM_EXPORT int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	char *path;
	ssize_t len;
	int fd;

	if (asprintf(&path, "%s/%s", dir, file) < 0)
		return -1;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	free(path);
	if (fd < 0)
		return -1;
	len = read(fd, buf, size);
	close(fd);
	if (len > 0 && buf[len - 1] == '\n')
		len--;
	else if (len < 0 || (size_t)len >= size)
		return -1;
	buf[len] = '\0';
	return (int)len;
}
