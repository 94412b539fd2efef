/* SPDX-License-Identifier: BSD-3-Clause */
/* wr.h - send work requests as data: a row per opcode (wr.c), and the forms in which requests are sent. Private to
 * nic/. */
#ifndef NIC_WR_H
#define NIC_WR_H

#include <stdint.h>

#include "nic_wr.h"

/** The form in which a request is sent: selects the function of req_tx.c that builds its packets. Set by the post. */
enum wr_form {
	FORM_LOCAL,    /* no packet: the requester executes it itself */
	FORM_DATAGRAM, /* a datagram of a UD QP */
	FORM_INLINE,   /* one packet with its payload in the WQE (inline) */
	FORM_GATHER,   /* one packet, its payload in the memory of the SGEs */
	FORM_LONG,     /* several packets, their payload in the WQE (inline) or in the memory of the SGEs */
	FORM_REFER,    /* several packets, or fewer that refer to the memory of the SGEs, if the path permits */
	FORM_OFFER,    /* as FORM_INLINE, and the packet may refer to the message that it offers */
	FORM_CALC,     /* one packet, its payload calculated from the memory of the SGEs */
	FORM_ELEMENTS,
	FORM_ELEMENT, /* one element: may share a packet with other requests (req_run.c) */
	/* A response, not an ACK, completes the forms from here on. */
	FORM_READ,
	FORM_ATOMIC,
	FORM_MASKED, /* extended atomics */
	FORM_FETCH,  /* an operation on elements that returns their original values */
	FORM_FLUSH,  /* FLUSH and ATOMIC WRITE: a READ response without data answers them */
	FORM_ATOMIC_WRITE,
	FORMS
};

/* Who may post a request: bits of wr_row.posters and nic_qp.posts. */
#define WR_CROSS   1u	       /* cross-channel QPs of any type */
#define WR_TYPE(t) (1u << (t)) /* QPs of this type */

#define WR_FLAGS UINT8_MAX /* wr_row.flags: all flags apply */

struct wr_row {
	uint8_t posters;   /* 0: no such opcode */
	uint8_t form;	   /* enum wr_form; FORM_LONG: SENDs and WRITEs, for which post.c chooses the form */
	uint8_t kind;	   /* enum op_kind of its packets */
	uint8_t extra;	   /* enum op_extra of its last packet */
	uint8_t flags;	   /* enum nic_send_flags that apply to this opcode */
	uint8_t wc_opcode; /* enum nic_wc_opcode of its completion */
};

#define WR_OPCODES (NIC_WR_FETCH_ELEMENTS + 1)

/** The table of send opcodes, indexed by enum nic_wr_opcode. */
extern const struct wr_row wr_rows[WR_OPCODES + 1];

static inline const struct wr_row *wr_row(uint32_t opcode)
{
	return &wr_rows[opcode < WR_OPCODES ? opcode : WR_OPCODES];
}

#endif
