/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * facts.h - constants common to all our devices, as reported by ibv_query_* (ibverbs/query.c) and the sysfs tree
 * (sysfs/). Values that differ per device come from pmd/include/engine.h and nic.h.
 */
#ifndef FACTS_H
#define FACTS_H

#include <infiniband/verbs.h>

#define FACT_FIRMWARE UROCE_VERSION

/* ibv_query_device and the PCI network function report the same vendor and part IDs, as with bnxt_re and irdma.
 * Therefore the vendor ID has the 16 bits of a PCI ID. It is registered neither with the PCI-SIG nor, as an OUI, with
 * the IEEE. With the vendor ID 0 or 0xffffff, programs would mistake the device for the kernel's rxe. */
#define FACT_VENDOR_ID	    0x726f /* the characters "ro" */
#define FACT_VENDOR_PART_ID 0xce00
#define FACT_HARDWARE	    0

/* 4 lanes of 25 Gb/s. */
#define FACT_WIDTH	2 /* the code of 4X in the verbs */
#define FACT_LANES	4
#define FACT_SPEED	32 /* the code of EDR in the verbs */
#define FACT_SPEED_NAME "EDR"
#define FACT_LANE_GBPS	25

#define FACT_STATE	     IBV_PORT_ACTIVE
#define FACT_PHYS_STATE	     5 /* LinkUp */
#define FACT_PHYS_STATE_DOWN 3 /* Disabled */
#define FACT_PORT_CAPS	     IBV_PORT_IP_BASED_GIDS
#define FACT_PKEY	     0xffff

#endif
