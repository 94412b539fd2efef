/* SPDX-License-Identifier: BSD-3-Clause */
/* wr.c - the table of send opcodes (IBTA 9.2, table 38, and our own): who may post them, what they send, how they
 * complete. Stateless. */
#include "nic_cq.h"
#include "nic_qp.h"
#include "opcode.h"
#include "wr.h"

#define RC	WR_TYPE(NIC_QPT_RC)
#define RC_XRC	(RC | WR_TYPE(NIC_QPT_XRC_INI))
#define RC_UC	(RC | WR_TYPE(NIC_QPT_UC))
#define STREAM	(RC_UC | RC_XRC)
#define ALL	(STREAM | WR_TYPE(NIC_QPT_UD))
#define CROSS	WR_CROSS
#define ANY	WR_FLAGS
/* For WRITEs without immediate data, FLUSH and ATOMIC WRITE, which consume no receive and so solicit no event. */
#define UNHEARD (WR_FLAGS & ~NIC_SEND_SOLICITED)

/* clang-format off */
const struct wr_row wr_rows[WR_OPCODES + 1] = {
#define ROW(opcode, posters, form, kind, extra, flags, completion) \
	[NIC_WR_##opcode] = {posters, FORM_##form, kind, extra, flags, NIC_WC_##completion},
	/*  opcode                 posters  form       kind                  extra      flags     completion */
	ROW(RDMA_WRITE,            STREAM,  LONG,      OP_WRITE,             OP_PLAIN,  UNHEARD,  RDMA_WRITE)
	ROW(RDMA_WRITE_WITH_IMM,   STREAM,  LONG,      OP_WRITE,             OP_IMM,    ANY,      RDMA_WRITE)
	ROW(SEND,                  ALL,     LONG,      OP_SEND,              OP_PLAIN,  ANY,      SEND)
	ROW(SEND_WITH_IMM,         ALL,     LONG,      OP_SEND,              OP_IMM,    ANY,      SEND)
	ROW(SEND_WITH_INV,         RC_XRC,  LONG,      OP_SEND,              OP_INV,    ANY,      SEND)
	ROW(RDMA_READ,             RC_XRC,  READ,      OP_READ_REQ,          OP_PLAIN,  ANY,      RDMA_READ)
	ROW(ATOMIC_CMP_AND_SWP,    RC_XRC,  ATOMIC,    OP_CMP_SWAP,          OP_PLAIN,  ANY,      COMP_SWAP)
	ROW(ATOMIC_FETCH_AND_ADD,  RC_XRC,  ATOMIC,    OP_FETCH_ADD,         OP_PLAIN,  ANY,      FETCH_ADD)
	ROW(MASKED_CMP_AND_SWP,    RC,      MASKED,    OP_MASKED_CMP_SWAP,   OP_PLAIN,  ANY,      MASKED_COMP_SWAP)
	ROW(MASKED_FETCH_AND_ADD,  RC,      MASKED,    OP_MASKED_FETCH_ADD,  OP_PLAIN,  ANY,      MASKED_FETCH_ADD)
	ROW(ELEMENTS,              RC,      ELEMENTS,  OP_ELEMENTS,          OP_PLAIN,  ANY,      ELEMENTS)
	ROW(FETCH_ELEMENTS,        RC,      FETCH,     OP_FETCH_ELEMENTS,    OP_PLAIN,  ANY,      FETCH_ELEMENTS)
	ROW(FLUSH,                 RC_XRC,  FLUSH,     OP_FLUSH,             OP_PLAIN,  UNHEARD,  FLUSH)
	ROW(ATOMIC_WRITE,          RC_XRC,  ATOMIC_WRITE, OP_ATOMIC_WRITE,   OP_PLAIN,  UNHEARD,  ATOMIC_WRITE)
	ROW(LOCAL_INV,             STREAM,  LOCAL,     0,                    0,         ANY,      LOCAL_INV)
	ROW(BIND_MW,               STREAM,  LOCAL,     0,                    0,         ANY,      BIND_MW)
	ROW(NOP,                   ALL,     LOCAL,     0,                    0,         ANY,      SEND)
	ROW(SEND_ENABLE,           CROSS,   LOCAL,     0,                    0,         ANY,      SEND)
	ROW(RECV_ENABLE,           CROSS,   LOCAL,     0,                    0,         ANY,      SEND)
	ROW(CQE_WAIT,              CROSS,   LOCAL,     0,                    0,         ANY,      SEND)
#undef ROW
};
/* clang-format on */
