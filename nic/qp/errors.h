/* SPDX-License-Identifier: BSD-3-Clause */
/* errors.h - the errors with which a QP can end a request or a connection: error.def as a table. Private to nic/. */
#ifndef NIC_ERRORS_H
#define NIC_ERRORS_H

#include <stdint.h>

enum error_id {
#define NIC_ERROR(name, syndrome, status, event, sentence) ERR_##name,
#include "error.def"
#undef NIC_ERROR
	ERR_COUNT
};

#define NO_EVENT (-1)

struct error_row {
	uint8_t syndrome;
	uint8_t status; /* enum nic_wc_status */
	int8_t event;	/* enum nic_event_type or NO_EVENT */
	const char *sentence;
};
extern const struct error_row error_rows[ERR_COUNT];

#endif
