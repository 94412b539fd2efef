/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * observe.h - what the `uroce` command asks of a function (pmd-internal). All calls with the engine locked.
 *
 * Requests are texts (PROTO_TOOL of proto.h); each is answered by one JSON object (PROTO_TEXT) and PROTO_END, with 0
 * or a negative errno (the text is then a sentence). Nobody waits for a tool: one that has no room for its answer is
 * cut off.
 *
 *   status                         who this is: device, addresses, program, link, number of QPs
 *   stats                          all counters, with their sentences
 *   qps [FROM]                     QPs from this number on, as many as fit; "next" says where to go on, 0: that was all
 *   fault set ... | fault clear .. see fault.h
 *   fault show                     rules, and what they have done
 *   capture [qp=N] [dir=tx|rx|both] [snaplen=N]    no answer but PROTO_PACKET after PROTO_PACKET, see capture.h
 *   capture counts                 seen and lost so far by this connection
 *   capture stop                   the same, and no more packets; a function that ends says it unasked
 *
 * Faults (but fault show) and captures are for the process's own user, the daemon's and root.
 */
#ifndef PMD_OBSERVE_H
#define PMD_OBSERVE_H

struct pmd_engine;

/** A request has come on the connection fd, which stays the caller's. A tool that is cut off sees the end of the
 *  connection, and so does the caller. */
void pmd_observe_request(struct pmd_engine *e, int fd, const char *text);
/** The function ends: a tool that captures hears what it has lost. */
void pmd_observe_last_words(struct pmd_engine *e, int fd);
/** The connection is about to be closed. */
void pmd_observe_closed(struct pmd_engine *e, int fd);

#endif
