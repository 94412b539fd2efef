/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * observe.h - requests of the `uroce` command to a function (pmd-internal). All functions are called with the engine
 * locked, or while it closes.
 *
 * Requests are texts (PROTO_TOOL of proto.h). The function answers each with one JSON object (PROTO_TEXT) and PROTO_END
 * with 0, or with an error message (PROTO_TEXT) and PROTO_END with a negative errno. The function never waits for a
 * tool: if the answer does not fit into the socket's queue, the connection is shut down.
 *
 *   status                         device, addresses, program, MTU, link, faults, number of QPs
 *   stats                          all counters, each with a sentence that explains it
 *   qps [FROM]                     QPs from this number on, as many as fit; "next": where to go on, 0: no more
 *   cm [FROM]                      the connection manager's listeners and connections, from index FROM on; "next" as
 *                                  for qps
 *   fault set ... | fault clear .. see fault.h
 *   fault show                     rules, and counters of their effects
 *   capture [qp=N] [dir=tx|rx|both] [snaplen=N]    no answer except a stream of PROTO_PACKET, see capture.h
 *   capture counts                 packets that this connection's capture has seen and lost so far
 *   capture stop                   end the capture, and answer like `capture counts`; when a function ends, it
 *                                  sends this answer unasked
 *
 * Only the user of this process, the user of the daemon and root may set faults and take captures.
 */
#ifndef PMD_OBSERVE_H
#define PMD_OBSERVE_H

#include "engine_host.h"

/** Answer a request from connection fd, which still belongs to the caller. If the answer does not fit into the socket's
 *  queue, fd is shut down: the tool and the caller then both read the end of the connection. */
void pmd_observe_request(struct pmd_host *host, int fd, const char *text);
/** The function ends: if the tool at connection fd captures packets, send it its final counts. */
void pmd_observe_last_words(struct pmd_host *host, int fd);
/** End the capture of connection fd, if there is one. Call before fd is closed. */
void pmd_observe_closed(struct pmd_host *host, int fd);

#endif
