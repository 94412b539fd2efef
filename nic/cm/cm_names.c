/* SPDX-License-Identifier: BSD-3-Clause */
/* cm_names.c - texts for reasons, statuses and verdicts of the connection manager's messages; see cm_mad.h. The
 * names of the messages are in the table of cm_table.c. */
#include "cm_mad.h"

static const char *const verdict_names[CM_MAD_VERDICTS] = {
	"ok",
#define CM_VERDICT(name, small, sentence) #small,
#include "cm_verdict.def"
#undef CM_VERDICT
};

static const char *const sidr_status_names[] = {
	[CM_SIDR_OK] = "QPN and Q_Key valid",	      [CM_SIDR_UNSUPPORTED] = "service ID not supported",
	[CM_SIDR_REJECT] = "rejected by the service", [CM_SIDR_NO_QP] = "no QP available",
	[CM_SIDR_REDIRECT] = "redirection",	      [CM_SIDR_UNSUPPORTED_VERSION] = "version not supported",
};

static const char *const apr_status_names[] = {
	[CM_APR_LOADED] = "alternate path loaded",
	[CM_APR_INVALID_COMM_ID] = "invalid communication ID",
	[CM_APR_UNSUPPORTED] = "alternate paths not supported",
	[CM_APR_REJECTED] = "path rejected",
	[CM_APR_REDIRECT] = "redirection",
	[CM_APR_SAME_PATH] = "same as the current path",
	[CM_APR_INVALID_QPN] = "not the connection's QP",
	[CM_APR_INVALID_LID] = "invalid LID",
	[CM_APR_INVALID_GID] = "invalid GID",
	[CM_APR_INVALID_FLOW_LABEL] = "invalid flow label",
	[CM_APR_INVALID_TRAFFIC_CLASS] = "invalid traffic class",
	[CM_APR_INVALID_HOP_LIMIT] = "invalid hop limit",
	[CM_APR_INVALID_RATE] = "invalid packet rate",
	[CM_APR_INVALID_SL] = "invalid SL",
};

const char *cm_verdict_name(enum cm_verdict v)
{
	return (unsigned)v < CM_MAD_VERDICTS ? verdict_names[v] : "unknown";
}

const char *cm_reason_name(uint32_t reason)
{
	switch (reason) {
#define CM_REASON(value, name, words)                                                                                  \
	case value:                                                                                                    \
		return words;
#include "cm_reject.def"
#undef CM_REASON
	default:
		return "reserved reason";
	}
}

const char *cm_sidr_status_name(uint32_t status)
{
	return status < sizeof(sidr_status_names) / sizeof(sidr_status_names[0]) ? sidr_status_names[status]
										 : "reserved status";
}

const char *cm_apr_status_name(uint32_t status)
{
	return status < sizeof(apr_status_names) / sizeof(apr_status_names[0]) ? apr_status_names[status]
									       : "reserved status";
}
