/* SPDX-License-Identifier: BSD-3-Clause */
/* aeth.h - the syndrome of an ACK extended transport header. Private to nic/. */
#ifndef NIC_AETH_H
#define NIC_AETH_H

enum {
	AETH_ACK = 0x1f, /* credit code 0x1f: no end-to-end credits */
	AETH_RNR = 0x20, /* RNR NAK: 0x20 to 0x3f, with the timer code in the low 5 bits */
	AETH_CLASS = 0x60,
	AETH_NAK_SEQUENCE = 0x60,
	AETH_NAK_INVALID = 0x61,
	AETH_NAK_ACCESS = 0x62,
	AETH_NAK_OPERATION = 0x63,
};

#endif
