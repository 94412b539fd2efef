/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * links_peer.c - identity of the producer of a link in, and which packets may come by the link.
 *
 * A producer states which function of which device it is. The proof is the function's name, on which only one process
 * can listen (proto.h): that process has to be the one that connected to us. If neither can be seen, as they are in
 * another PID namespace, both have to run as the same user. A producer that has already gone, with its last packets in
 * the ring, has no name any more: its statement is accepted if no process has the name and the connection has ended,
 * only for what is in the ring.
 *
 * Each peer has a number, which its packets carry (nic_rx_frame.peer). It is valid while the peer has a link, and never
 * reused. A link is for one address of ours; all that its producer sends to QPs at this address comes by it.
 *
 * Owns nothing: numbers are in the links.
 */
#include <poll.h>

#include "links_priv.h"
#include "local.h"

/* Links from one peer: one for its packets and one for strays per address of ours, twice because links that are ending
 * count too, and those to services. */
#define PEER_LINKS_MAX (4 * NIC_GID_TABLE_LEN + LINKS_SERVICE_MAX)

#define GONE_MS 2 /* an exiting process loses its name this long before its connections end, at most */

/** Whether the producer has gone, and so can add no packets. */
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
		return peer.pid == l->pid; /* it says that it is us: then it must be our own process */
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

/** Find the link from function `target` of device `key` to our address `own`. key NULL: of any device, with this link
 *  number, or any number if 0. */
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
 * A device's daemon tells which addresses the device owns. While none claims the peer's address, because its daemon is
 * late or was killed, accept a local address from a function with the right number once a packet of it has arrived:
 * otherwise connections would depend on that daemon.
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
