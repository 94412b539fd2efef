/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * observe.h - requests of the `uroce` command to a function (pmd-internal). All calls with the engine locked.
 *
 * Requests are texts (PROTO_TOOL of proto.h); each is answered by one JSON object (PROTO_TEXT) and PROTO_END, with 0
 * or a negative errno (the text is then a sentence). The function never waits for a tool: if the answer does not fit in
 * the socket's queue, the connection is shut down.
 *
 *   status                         device, addresses, program, link, number of QPs
 *   stats                          all counters, with their sentences
 *   qps [FROM]                     QPs from this number on, as many as fit; "next": where to go on, 0: no more
 *   fault set ... | fault clear .. see fault.h
 *   fault show                     rules, and counters of their effects
 *   capture [qp=N] [dir=tx|rx|both] [snaplen=N]    no answer but PROTO_PACKET after PROTO_PACKET, see capture.h
 *   capture counts                 seen and lost so far by this connection
 *   capture stop                   end the capture, and answer as counts; a function that ends sends this unasked
 *
 * Faults (except fault show) and captures are for the process's own user, the daemon's and root.
 */
#ifndef PMD_OBSERVE_H
#define PMD_OBSERVE_H

#include "engine_host.h"

/** Answer a request from the connection fd, which stays the caller's. If the tool is cut off, fd is shut down: the tool
 *  and the caller both read the end of the connection. */
void pmd_observe_request(struct pmd_host *host, int fd, const char *text);
/** The function ends: send a capturing tool its final counts. */
void pmd_observe_last_words(struct pmd_host *host, int fd);
/** The connection is about to be closed. */
void pmd_observe_closed(struct pmd_host *host, int fd);

#endif
