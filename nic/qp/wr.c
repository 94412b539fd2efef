/* SPDX-License-Identifier: BSD-3-Clause */
/* wr.c - the table of send opcodes (IBTA 9.2, table 38, and our own): who may post them, what they send, how they
 * complete. Stateless. */
#include "nic_cq.h"
#include "nic_qp.h"
#include "opcode.h"
#include "wr.h"

#define RC	WR_TYPE(NIC_QPT_RC)
#define RC_UC	(RC | WR_TYPE(NIC_QPT_UC))
#define ALL	(RC_UC | WR_TYPE(NIC_QPT_UD))
#define CROSS	WR_CROSS
#define ANY	WR_FLAGS
/* A WRITE without immediate data consumes no receive, so it solicits no event. */
#define UNHEARD (WR_FLAGS & ~NIC_SEND_SOLICITED)

/* clang-format off */
const struct wr_row wr_rows[WR_OPCODES + 1] = {
	/*				 posters form		kind		     extra     flags	completion */
	[NIC_WR_RDMA_WRITE]		= {RC_UC, FORM_LONG,	 OP_WRITE,	      OP_PLAIN, UNHEARD, NIC_WC_RDMA_WRITE},
	[NIC_WR_RDMA_WRITE_WITH_IMM]	= {RC_UC, FORM_LONG,	 OP_WRITE,	      OP_IMM,	ANY,	 NIC_WC_RDMA_WRITE},
	[NIC_WR_SEND]			= {ALL,	  FORM_LONG,	 OP_SEND,	      OP_PLAIN, ANY,	 NIC_WC_SEND},
	[NIC_WR_SEND_WITH_IMM]		= {ALL,	  FORM_LONG,	 OP_SEND,	      OP_IMM,	ANY,	 NIC_WC_SEND},
	[NIC_WR_SEND_WITH_INV]		= {RC,	  FORM_LONG,	 OP_SEND,	      OP_INV,	ANY,	 NIC_WC_SEND},
	[NIC_WR_RDMA_READ]		= {RC,	  FORM_READ,	 OP_READ_REQ,	      OP_PLAIN, ANY,	 NIC_WC_RDMA_READ},
	[NIC_WR_ATOMIC_CMP_AND_SWP]	= {RC,	  FORM_ATOMIC,	 OP_CMP_SWAP,	      OP_PLAIN, ANY,	 NIC_WC_COMP_SWAP},
	[NIC_WR_ATOMIC_FETCH_AND_ADD]	= {RC,	  FORM_ATOMIC,	 OP_FETCH_ADD,	      OP_PLAIN, ANY,	 NIC_WC_FETCH_ADD},
	[NIC_WR_MASKED_CMP_AND_SWP]	= {RC,	  FORM_MASKED,	 OP_MASKED_CMP_SWAP,  OP_PLAIN, ANY,	 NIC_WC_MASKED_COMP_SWAP},
	[NIC_WR_MASKED_FETCH_AND_ADD]	= {RC,	  FORM_MASKED,	 OP_MASKED_FETCH_ADD, OP_PLAIN, ANY,	 NIC_WC_MASKED_FETCH_ADD},
	[NIC_WR_ELEMENTS]		= {RC,	  FORM_ELEMENTS, OP_ELEMENTS,	      OP_PLAIN, ANY,	 NIC_WC_ELEMENTS},
	[NIC_WR_FETCH_ELEMENTS]		= {RC,	  FORM_FETCH,	 OP_FETCH_ELEMENTS,   OP_PLAIN, ANY,	 NIC_WC_FETCH_ELEMENTS},
	[NIC_WR_LOCAL_INV]		= {RC_UC, FORM_LOCAL,	 0,		      0,	ANY,	 NIC_WC_LOCAL_INV},
	[NIC_WR_BIND_MW]		= {RC_UC, FORM_LOCAL,	 0,		      0,	ANY,	 NIC_WC_BIND_MW},
	[NIC_WR_NOP]			= {ALL,	  FORM_LOCAL,	 0,		      0,	ANY,	 NIC_WC_SEND},
	[NIC_WR_SEND_ENABLE]		= {CROSS, FORM_LOCAL,	 0,		      0,	ANY,	 NIC_WC_SEND},
	[NIC_WR_RECV_ENABLE]		= {CROSS, FORM_LOCAL,	 0,		      0,	ANY,	 NIC_WC_SEND},
	[NIC_WR_CQE_WAIT]		= {CROSS, FORM_LOCAL,	 0,		      0,	ANY,	 NIC_WC_SEND},
};
/* clang-format on */
