/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * links_peer.c - verifies who the producer of an incoming link is, and tells the NIC on which link a peer's packets
 * arrive.
 *
 * A producer claims to be a certain function of a certain device. The proof is the function's name, on which only one
 * process can listen (proto.h): that process must be the one that connected to us. If a process is invisible because it
 * is in another PID namespace, the listener and the producer must run as the same user. A producer that has already
 * exited has no name any more, but its last packets may be in the ring: if no process has the name and the connection
 * has ended, we accept the claim for the packets that are in the ring.
 *
 * Each peer has a number, which every packet received from it carries in nic_rx_frame.peer. The number is valid while
 * the peer has a link, and is never reused. A link is for one address of ours: the peer sends all its packets to QPs at
 * this address over this link.
 *
 * Owns nothing: the numbers are stored in the links.
 */
#include <poll.h>

#include "links_priv.h"
#include "local.h"

/* Maximum number of links from one peer. For each of our addresses: one link for the peer's own packets, one for
 * strays, and two such links that are just ending. In addition: the links to services. */
#define PEER_LINKS_MAX (4 * NIC_GID_TABLE_LEN + LINKS_SERVICE_MAX)

#define GONE_MS 2 /* maximum time between the loss of an exiting process's name and the end of its connections */

/** Whether the producer has exited or closed the connection, and so cannot add packets. */
static bool has_hung_up(int connection)
{
	struct pollfd p = {.fd = connection, .events = 0};

	return poll(&p, 1, GONE_MS) == 1 && (p.revents & POLLHUP);
}

static bool is_same_peer(const struct proto_link *a, const struct proto_link *b)
{
	return a->function == b->function && pmd_gid_equal(&a->key, &b->key);
}

bool links_may_take(const struct pmd_links *l, const struct proto_link *said)
{
	unsigned same = 0;

	for (uint32_t i = 0; i < l->n_in; i++)
		same += l->in[i] && is_same_peer(&l->in[i]->peer, said);
	return same < PEER_LINKS_MAX;
}

bool links_prove(const struct pmd_links *l, int connection, const struct proto_link *said)
{
	struct proto_name name;
	struct ucred peer;

	if (said->function == 0 || said->function > PROTO_FUNCTION_MAX || said->strays > 1 ||
	    proto_peer(connection, &peer) != 0)
		return false;
	if (pmd_gid_equal(&said->key, &l->self.key) && said->function == l->self.function)
		return peer.pid == l->pid; /* the producer claims to be our function: it must be this process */
	pmd_name_function(&said->key, said->function, &name);
	switch (proto_holder(&name, &said->key, &peer)) {
	case PROTO_HOLDER_IT:
	case PROTO_HOLDER_UNSEEN:
		return true;
	case PROTO_HOLDER_NONE:
		return has_hung_up(connection);
	default:
		return false;
	}
}

uint32_t links_number(struct pmd_links *l, const struct proto_link *said)
{
	for (uint32_t i = 0; i < l->n_in; i++)
		if (l->in[i] && is_same_peer(&l->in[i]->peer, said))
			return l->in[i]->number;
	return ++l->numbers;
}

bool links_has_other(const struct pmd_links *l, const struct link_in *in)
{
	for (uint32_t i = 0; i < l->n_in; i++)
		if (l->in[i] && l->in[i] != in && l->in[i]->number == in->number &&
		    proto_link_is_peers(&l->in[i]->peer) && pmd_gid_equal(&l->in[i]->peer.to, &in->peer.to))
			return true;
	return false;
}

/** Find the incoming link of function `target` that was made to our address `own`.
 *  @param key the key of the function's device; NULL: any device.
 *  @param number the peer number that the link must have if `key` is NULL; 0: any. */
static const struct link_in *find_in(const struct pmd_links *l, const struct nic_gid *key, uint32_t target,
				     const struct nic_gid *own, uint32_t number)
{
	for (uint32_t i = 0; i < l->n_in; i++) {
		const struct link_in *in = l->in[i];

		if (in && in->peer.function == target && proto_link_is_peers(&in->peer) &&
		    pmd_gid_equal(&in->peer.to, own) &&
		    (key ? pmd_gid_equal(&in->peer.key, key) : !number || in->number == number))
			return in;
	}
	return NULL;
}

/*
 * The daemon of the peer's device tells which addresses the device owns. If no device claims the peer's address,
 * because that daemon is late or was killed, accept the address if it is local, the function number is right,
 * and the peer has sent us a packet. Without this exception connections would depend on that daemon.
 */
uint32_t pmd_links_source(struct pmd_links *l, const struct nic_gid *dgid, uint32_t dest_qpn, const struct nic_gid *own,
			  uint32_t claimed)
{
	uint32_t target = pmd_links_target(dest_qpn);
	const struct link_in *in;
	struct nic_gid key;

	if (!l || link_is_to_service(target) || !find_in(l, NULL, target, own, claimed))
		return 0;
	if (links_key_of(l, dgid, &key))
		in = find_in(l, &key, target, own, 0);
	else if (claimed && pmd_local_has(l->host->local, dgid))
		in = find_in(l, NULL, target, own, claimed);
	else
		in = NULL;
	return in ? in->number : 0;
}
