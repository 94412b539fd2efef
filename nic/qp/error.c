/* SPDX-License-Identifier: BSD-3-Clause */
/* error.c - what each error condition means for the peer, the completion and the QP, from error.def. */
#include "qp.h"

const struct error_row error_rows[ERR_COUNT] = {
#define NIC_ERROR(name, syndrome, status, event, sentence) {syndrome, status, event, sentence},
#include "error.def"
#undef NIC_ERROR
};

const char *nic_vendor_err_str(uint32_t vendor_err)
{
	return vendor_err < ERR_COUNT ? error_rows[vendor_err].sentence : NULL;
}
