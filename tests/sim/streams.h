/* SPDX-License-Identifier: BSD-3-Clause */
/* streams.h - the purposes that have a random stream of their own. Append new ones at the end. */
#ifndef SIM_STREAMS_H
#define SIM_STREAMS_H

enum sim_stream {
	STREAM_OPTIONS,
	STREAM_SETUP,
	STREAM_NIC,
	STREAM_NODE,
	STREAM_WORK,
	STREAM_RECV,
	STREAM_POLL,
	STREAM_CONTROL,
	STREAM_PAIR,
	STREAM_LINK_DELAY,
	STREAM_LINK_LOSS,
	STREAM_LINK_DUP,
	STREAM_LINK_REORDER,
	STREAM_LINK_FLIP,
	STREAM_TRIGGER,
	STREAM_LINK_FORGE,
	STREAM_CLOCK,
	STREAM_PLACE,
	STREAM_ROOM,
};

#endif
