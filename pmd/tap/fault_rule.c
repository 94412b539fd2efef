/* SPDX-License-Identifier: BSD-3-Clause */
/* fault_rule.c - commands for fault injection: parses text into rules. See fault.h for the syntax. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault_priv.h"

#define TEXT_MAX 512
#define GAP_MAX	 1000
#define TIME_MAX 10000000000u /* 10 s */
#define QPN_MAX	 0xffffffu

static const struct key {
	const char *name;
	size_t offset;
	uint64_t max;
} keys[] = {
	{"loss", offsetof(struct pmd_fault_rule, loss_ppb), PMD_FAULT_PPB},
	{"dup", offsetof(struct pmd_fault_rule, dup_ppb), PMD_FAULT_PPB},
	{"corrupt", offsetof(struct pmd_fault_rule, corrupt_ppb), PMD_FAULT_PPB},
	{"reorder", offsetof(struct pmd_fault_rule, reorder_ppb), PMD_FAULT_PPB},
	{"gap", offsetof(struct pmd_fault_rule, gap), GAP_MAX},
	{"delay", offsetof(struct pmd_fault_rule, delay_ns), TIME_MAX},
	{"jitter", offsetof(struct pmd_fault_rule, jitter_ns), TIME_MAX},
	{"down", offsetof(struct pmd_fault_rule, down), 1},
	{"seed", offsetof(struct pmd_fault_rule, seed), UINT64_MAX},
};

/** Parse a text that must be a decimal number, at most `max`. @return false: it is not. */
static bool number(const char *text, uint64_t max, uint64_t *out)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*out = strtoull(text, &end, 10);
	return errno == 0 && *end == '\0' && *out <= max;
}

static int key_value(struct pmd_fault_rule *r, const char *word, char *err, size_t err_len)
{
	const char *value = strchr(word, '=');
	size_t len = value ? (size_t)(value - word) : 0;
	uint64_t n;

	if (len == 2 && strncmp(word, "qp", len) == 0 && number(value + 1, QPN_MAX, &n)) {
		r->qpn = (uint32_t)n;
		return 0;
	}
	if (len == 3 && strncmp(word, "dir", len) == 0) {
		r->directions = strcmp(value + 1, "tx") == 0	 ? PMD_FAULT_TX
				: strcmp(value + 1, "rx") == 0	 ? PMD_FAULT_RX
				: strcmp(value + 1, "both") == 0 ? PMD_FAULT_TX | PMD_FAULT_RX
								 : 0;
		if (r->directions)
			return 0;
	}
	for (unsigned i = 0; len && i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (strlen(keys[i].name) != len || strncmp(word, keys[i].name, len) != 0)
			continue;
		if (number(value + 1, keys[i].max, &n)) {
			memcpy((char *)r + keys[i].offset, &n, sizeof(n));
			return 0;
		}
	}
	snprintf(err, err_len, "'%.40s' is no part of a fault, or out of range", word);
	return -EINVAL;
}

/** @return the rule of a QP (0: of the function); if the QP has none, a free rule; NULL: no rule is free. */
static struct pmd_fault_rule *rule_slot(struct pmd_fault *f, uint32_t qpn)
{
	struct pmd_fault_rule *unused = NULL;

	if (qpn == 0)
		return &f->rules[0];
	for (unsigned i = 1; i <= PMD_FAULT_RULES; i++) {
		if (!f->rules[i].directions)
			unused = &f->rules[i];
		else if (f->rules[i].qpn == qpn)
			return &f->rules[i];
	}
	return unused;
}

static int command_set(struct pmd_fault *f, struct pmd_fault_rule *r, char *err, size_t err_len)
{
	struct pmd_fault_rule *slot = rule_slot(f, r->qpn);

	if (!slot) {
		snprintf(err, err_len, "%d QPs have faults of their own, and more are not kept; clear some",
			 PMD_FAULT_RULES);
		return -ENOSPC;
	}
	if (r->qpn && r->down) {
		snprintf(err, err_len, "a QP has no link that could be down; let it lose all packets instead");
		return -EINVAL;
	}
	if (r->gap == 0)
		r->gap = 3;
	for (unsigned d = 0; d < 2; d++) {
		uint64_t mix = r->seed ^ (uint64_t)f->function << 32 ^ (uint64_t)d << 48 ^ r->qpn;

		r->state[d] = fault_random(&mix);
	}
	*slot = *r;
	return 0;
}

int pmd_fault_command(struct pmd_fault *f, const char *text, char *err, size_t err_len)
{
	struct pmd_fault_rule rule = {.directions = PMD_FAULT_TX};
	char copy[TEXT_MAX], *save = NULL, *verb, *word;
	int rc = 0;

	if (strlen(text) >= sizeof(copy)) {
		snprintf(err, err_len, "the description of the fault is too long");
		return -EINVAL;
	}
	memcpy(copy, text, strlen(text) + 1);
	verb = strtok_r(copy, " ", &save);
	while (rc == 0 && (word = strtok_r(NULL, " ", &save)))
		rc = key_value(&rule, word, err, err_len);
	if (rc != 0)
		return rc;
	if (verb && strcmp(verb, "set") == 0)
		return command_set(f, &rule, err, err_len);
	if (!verb || strcmp(verb, "clear") != 0) {
		snprintf(err, err_len, "a fault is set or cleared, not '%.40s'", verb ? verb : "");
		return -EINVAL;
	}
	for (unsigned i = 0; i <= PMD_FAULT_RULES; i++)
		if (rule.qpn == 0 || f->rules[i].qpn == rule.qpn)
			f->rules[i] = (struct pmd_fault_rule){0};
	if (rule.qpn == 0)
		fault_release_all(f);
	return 0;
}

const struct pmd_fault_rule *pmd_fault_rule(const struct pmd_fault *f, unsigned index)
{
	for (unsigned i = 0; i <= PMD_FAULT_RULES; i++)
		if (f->rules[i].directions && index-- == 0)
			return &f->rules[i];
	return NULL;
}

bool pmd_fault_link_down(const struct pmd_fault *f)
{
	return f->rules[0].directions && f->rules[0].down;
}
