/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * qp.h - the queue pair: its state, and the accessors that go with it. IBTA 9.7, 10.2, 10.3.
 *
 * Three parts of the NIC work on a QP, each on its own members (the table below has the exceptions):
 *   requester  (req*.h)  sq, req:  sends request packets, retransmits
 *   completer  (comp.h)  comp:     takes responses, completes send WQEs, tells the requester through req.h
 *   responder  (resp.h)  resp:     takes requests, queues responses
 * Send queue indices are free-running: tail (oldest not completed) <= next (being sent) <= head (next to be posted).
 *
 * Who writes what, once the QP exists. Each row has members, the files that write them and, if there are several files,
 * on what occasions they do. qp.c also creates a QP and empties it in state RESET. ud.c is requester, completer and
 * responder of datagrams. tests/house/qp_writers_test.py compares this table with the code.
 *
 * nic qpn type send_cq xrcd sig_all be_replies | qp.c | never change
 * pd recv_cq srq | qp.c xrc_target.c | an XRC target borrows those of the SRQ while it executes a request
 * state | qp_state.c |
 * posts | qp_state.c tm_qp.c | tm_qp.c posts the NIC's own requests
 * held | req_tx.h | by req_hold(), which is called where a reason begins or ends
 * send_flags | qp.c cross.c rdm.c rdm_qp.c | at creation: what cross-channel requests and endpoints need
 * cap | qp.c |
 * attr | qp.c qp_modify.c | reset
 * pmtu udp_sport sgid says hears | qp_modify.c |
 * sq.slots sq.stride sq.operands sq.capacity sq.max_sge sq.max_inline sq.max_atomic_arg sq.max_fetch sq.mask | qp.c |
 * sq.head | qp.c post.c | reset
 * sq.next | qp.c req_tx.c req.c comp.c ud.c | reset; a flush passes over what was not sent
 * sq.tail | qp.c comp.c | reset
 * sq.streak | qp.c post.c | reset
 * rq | qp.c cross.c post.c qp_state.c | reset; `managed`; `open`, at posting and for a flush; rq.c writes the rest
 * req req.tlp | req.c | reset, as a whole
 * req.psn | req.c ud.c | datagrams
 * req.sent_psn | req.c ud.c | datagrams
 * req.packet | req_tx.c req.c qp_state.c | going back; a send error that leaves the QP in SQE
 * req.failed | req.c qp_state.c | a send error that leaves the QP in SQE
 * req.rd_out | req_tx.c req_quick.c req.c | sent; sent at once; answered
 * req.read_end | req_tx.c |
 * req.unasked | req_tx.h req_window.c req.c | AckReq set; PSNs counted; going back
 * req.cwnd req.cwnd_acked | req_window.c |
 * req.ack_deadline req.rnr_until | req.c qp_state.c | the error state stops timers
 * req.retries req.rnr_retries req.backoff req.retrying req.forgiven | req.c |
 * req.taken | req.c req_taken.c | req.c starts the timer whose expiry req_taken.c judges
 * req.taken_mark | req_taken.c |
 * req.tlp.at req.tlp.srtt_ns req.tlp.rttvar_ns req.tlp.timed_ns req.tlp.timed_psn | req_tlp.c |
 * req.tlp.timing req.tlp.again | req.c req_tlp.c | an RNR NAK; the ACK timer has expired
 * req.referred req.referred_end | refer.c req.c | sent by reference; acknowledged, or not fetched
 * req.drained | qp_modify.c req.c | on entering SQD; when drained
 * req.sqd_stop | qp_modify.c |
 * comp | comp.c | reset, as a whole
 * comp.una | comp.c req.c ud.c | UC and datagrams complete when sent
 * comp.read_open | comp.c |
 * resp.epsn resp.msn resp.nak_sent | resp.c resp_quick.c resp_move.c | executed; and answered at once; by another NIC
 * resp.va resp.rkey resp.left resp.srqn resp.heard | resp.c resp_move.c | executed; executed by another NIC
 * resp.received | resp.c tm_qp.c resp_move.c | tagged messages; executed by another NIC
 * resp.open | resp.c qp_state.c resp_move.c | a flush ends the message; executed by another NIC
 * resp.dying | resp.c resp_tx.c resp_move.c | a request failed; an endpoint drops the QP, or the NAK or ACK is sent
 * resp.have_wqe | qp_recv.c resp.c tm_qp.c | reset, SRQ of an XRC message gone; tagged messages
 * resp.tm | tm_qp.c |
 * resp.wqe | qp.c |
 * resp.ack_queued resp.ack_lazy resp.ack_due | resp_ack.c resp.c resp_tx.c | cancelled; sent
 * resp.ack_node | qp.c resp_ack.c resp.c | creation; cancelled
 * resp.syndrome | resp_ack.c resp.c resp_move.c | the next request replaces a NAK; executed by another NIC
 * resp.nak_psn resp.ack_at | resp_ack.c |
 * resp.unacked | resp.c resp_tx.c resp_quick.c resp_move.c | counted; sent; answered at once; as resp.c
 * resp.res resp.res_size | qp_modify.c |
 * resp.saved | qp_modify.c resp_elem.c | the ring grows; first use
 * resp.res_head | resp.c resp_quick.c | taken; taken, and answered at once
 * resp.res_next | resp.c resp_tx.c | taken; queued, sent
 * resp.res_todo | resp.c resp.h resp_tx.c lend.c | reset, cancelled; sent; queued; made by another NIC
 * resp.foreign | resp.c resp_tx.c lend.c | reset, cancelled; sent; queued
 * resp.resource | resp.c resp_quick.c | taken, as a whole (both)
 * resp.resource.atomic resp.resource.psn resp.resource.packets resp.resource.msn | resp.c |
 * resp.resource.rkey resp.resource.length resp.resource.srqn | resp.c |
 * resp.resource.va resp.resource.elements resp.resource.size resp.resource.orig | resp.c | values by way of mem_atomic
 * resp.resource.used | resp.c |
 * resp.resource.base resp.resource.end resp.resource.cursor | resp_tx.c |
 * resp.resource.duplicate resp.resource.stop | resp_dup.c |
 * resp.resource.todo | resp.h resp_tx.c resp.c | sent; queued; cancelled
 * resp.resource.referred resp.resource.answered | resp_tx.c |
 * cross.* | cross.c |
 * path | qp.c path.c | reset
 * takes peer_is_local rx_at_port | source.c |
 * ready | qp.h qp.c path.c | reset; sent
 * resp_turn | path.c |
 * deadline | qp.c timer.c | reset
 * heap_pos | qp.c timer.c | creation
 * events | gsi.c rdm.c rdm_qp.c qp_query.c guest.c call.c | `silent`: endpoints' QPs, QP 1, guests; `user`; `listener`;
 *   event.c writes the rest
 * lent | lend.c guest.c | on first use
 * counters | nic.c comp.c lend.c mcast.c qp_packet.c quick.h req.c resp.c resp_dup.c resp_tx.c ud.c | each what it sees
 * mcasts | mcast.c |
 * refers | refer.c rdm_qp.c | references of an endpoint's dropped QP stay valid
 * peer_joins | qp.c rdm_conn.c | reset
 * no_delay | qp.c rdm.c | reset
 * owner | qp.c gsi.c rdm.c rdm_qp.c | tags; MADs; datagrams; connections
 * rdm | rdm.c |
 * rdm_peer | rdm_qp.c |
 * lingering | qp.c rdm_qp.c | creation, destruction
 */
#ifndef NIC_QP_H
#define NIC_QP_H

#include "core.h"
#include "errors.h"
#include "nic.h"
#include "opcode.h"
#include "rq.h"
#include "trigger.h"

/** Bits of swqe.flags besides those of enum nic_send_flags. */
enum {
	/** reliable datagram endpoints only: the payload offers a message, to whose memory the packet may also refer
	   (nic_reference.psns) */
	NIC_SEND_OFFERS = 1 << 6,
	/** reliable datagram endpoints only: on lossless paths the request needs no AckReq; it completes with a later
	   ACK */
	NIC_SEND_UNAWAITED = 1 << 7,
};

/** A send work queue element, followed in its slot by its SGEs or inline data, or both for operations on elements, and
 * by the operands of an extended atomic. */
struct swqe {
	uint64_t wr_id;
	uint8_t opcode;	   /* enum nic_wr_opcode */
	uint8_t form;	   /* enum wr_form */
	uint8_t flags;	   /* enum nic_send_flags that apply to the opcode; SIGNALED takes sq_sig_all into account */
	bool started;	   /* psn and packets are set */
	bool coalesced;	   /* when last sent, it was in the packet of the previous WQE */
	bool may_coalesce; /* may go in the packet of the previous WQE */
	uint32_t num_sge;
	uint32_t length;
	uint32_t ex;
	uint32_t psn;	  /* PSN of the WQE's first packet */
	uint32_t packets; /* PSNs it takes; 0 for local operations */
	union {
		struct {
			uint64_t remote_addr;
			union {
				struct {
					uint64_t compare, swap_add;
				};
				struct {
					uint32_t piece; /* READ: response packets that each request packet asks for;
							   fixed once the READ has begun */
					uint32_t feth, range; /* FLUSH: the FETH as on the wire; number of bytes */
				};
				struct {
					uint32_t count, data_len; /* elements; bytes of operands and compare values */
					uint16_t num_data;	  /* operand SGEs, which follow the result SGEs */
					uint8_t op, datatype;
				} element;
				struct {
					uint32_t data_len; /* bytes of operands */
					uint8_t op, type;
				} calc;
			};
			uint32_t rkey;
			uint32_t srqn; /* XRC */
		};
		struct {
			struct nic_av av;
			uint32_t remote_qpn, remote_qkey;
			uint32_t path;
		} ud;
		struct {
			struct nic_bind bind;
			uint32_t mw_key, mr_key; /* keys at posting time: they show, when the bind runs, whether
						    window and region still exist */
		};
		struct {
			struct nic_cq *cq; /* NULL: no longer waiting */
			uint64_t threshold;
		} wait;
		struct {
			struct nic_qp *qp; /* may be destroyed: compare it with the QP that has `qpn` now */
			uint32_t qpn, index, resets;
		} enable;
	};
	struct nic_sge sge[]; /* SGEs, or bytes of inline data */
};
_Static_assert(offsetof(struct swqe, ud.path) >= offsetof(struct swqe, enable.resets) + sizeof(uint32_t) &&
		       offsetof(struct swqe, ud.path) >= offsetof(struct swqe, wait.threshold) + sizeof(uint64_t),
	       "all requests of a UD QP have a path");

struct send_queue {
	uint8_t *slots;
	uint32_t stride;
	uint32_t operands; /* offset in a slot at which the operands of an extended atomic begin */
	uint32_t capacity, max_sge, max_inline, max_atomic_arg, max_fetch;
	uint32_t mask;
	uint32_t head, next, tail;
	uint32_t streak; /* WQEs [streak, head) are alike: all but the first have `may_coalesce` set */
};

/** Tail loss probes (req_tlp.c). */
struct requester_tlp {
	uint64_t at;		     /* while the ACK timer runs: when to probe; TIME_NEVER: wait for the ACK timer */
	uint32_t srtt_ns, rttvar_ns; /* smoothed RTT and its variation; 0: not known yet */
	uint64_t timed_ns;	     /* if `timing` is set: when the timed packet was first sent */
	uint32_t timed_psn;	     /* if `timing` is set: the PSN after that packet */
	bool timing;
	uint8_t again; /* probes since the last progress; REQ_TLP_OVER: send no more */
};

/** Whether the peer has removed from its ring what was sent on a lossless path. Reset to unknown whenever the ACK timer
 * starts. */
enum req_taken { REQ_TAKEN_UNKNOWN, REQ_UNTAKEN, REQ_TAKEN };

/** Requester. */
struct requester {
	uint32_t psn;		   /* PSN of the next packet to send */
	uint32_t sent_psn;	   /* one past the highest PSN ever sent */
	uint32_t packet;	   /* the next packet to send is packet number `packet` of WQE sq.next */
	uint32_t rd_out;	   /* READ requests and atomics in flight */
	uint32_t read_end;	   /* one past the PSNs of the latest READ request sent */
	uint32_t unasked;	   /* PSNs sent since the last AckReq; a run (req_run.c) takes one PSN per request */
	uint32_t cwnd, cwnd_acked; /* in packets: congestion window after losses, and packets acknowledged since it was
				      last changed */
	uint64_t ack_deadline;	   /* ACK timer; TIME_NEVER: off */
	uint64_t rnr_until;	   /* RNR wait; TIME_NEVER: none */
	uint8_t retries, rnr_retries; /* retries left */
	uint8_t backoff;	      /* how many times the ACK timer has doubled, at most BACKOFF_MAX */
	uint8_t taken;		      /* enum req_taken; see req_taken.c */
	uint64_t taken_mark;	      /* path position that the peer has to pass: *mark of nic_config.untaken */
	struct requester_tlp tlp;
	bool retrying; /* the QP has gone back to comp.una because of a sequence NAK, a gap in the responses, or a
			  payload that was not fetched; further sequence NAKs and gaps are ignored. Cleared by progress,
			  a timeout, an RNR NAK, or a change of the path */
	bool forgiven; /* the QP has gone back without using a retry, because a referenced payload was not fetched, and
			  has made no progress since */
	bool referred; /* losses before referred_end may be unfetched payloads: going back may cost no retry */
	uint32_t referred_end;
	enum error_id failed; /* local error of WQE sq.next, to be reported once that WQE is the oldest */
	bool drained;	      /* in SQD: the send queue has drained */
	uint32_t sqd_stop;    /* in SQD: WQEs from here on wait */
};

/** Completer. */
struct completer {
	uint32_t una;	/* oldest unacknowledged PSN, or the next READ response expected */
	bool read_open; /* the first packet of a READ response message has arrived, the last has not */
};

/** A READ, atomic, FLUSH or ATOMIC WRITE that was executed or begun, kept to answer its duplicates. */
struct resp_resource {
	bool used, atomic;
	bool duplicate; /* a duplicate of the request has arrived */
	bool referred;	/* READs: part of the response was sent by reference */
	bool todo;	/* response packets from `cursor` on are queued */
	bool answered;	/* READs: every response has been sent at least once */
	uint32_t psn, packets;
	uint32_t cursor; /* packet index of the next response to send */
	uint32_t end;	 /* packet index at which to stop sending */
	uint32_t stop;	 /* READs: byte offset in the message at which the last packet to send ends */
	uint32_t base;	 /* packet index at which the response message begins (FIRST or ONLY) */
	uint32_t msn;
	uint32_t rkey, length;
	uint32_t srqn; /* XRC targets: the SRQ that the request named */
	uint64_t va;
	bool elements;
	uint32_t size;			 /* atomics: size of the operand in bytes */
	uint64_t orig[NIC_ATOMIC_WORDS]; /* atomics: the original value; original elements are in responder.saved */
};

/** The message that arrives at a QP on an SRQ that matches tags. */
struct tm_message {
	uint64_t tag;
	uint32_t app_ctx; /* in network order */
	enum tm_form { TM_UNTAGGED, TM_UNEXPECTED, TM_EAGER, TM_RENDEZVOUS } form;
	struct tm_entry *entry; /* TM_RENDEZVOUS: the tagged buffer */
};

/** Responder. */
struct responder {
	uint32_t epsn, msn;
	const struct opcode *open; /* opcode of the latest packet of the message in progress, or NULL */
	bool nak_sent; /* a sequence NAK or RNR NAK was sent, and the packet with ePSN has not arrived since */
	bool heard;    /* a request has arrived since RTR (COMM_EST) */
	bool dying;    /* queued answers are sent even after the QP has entered the error state */
	/* RDMA WRITE in progress */
	uint64_t va;
	uint32_t rkey, left;
	uint32_t srqn; /* XRC targets: the SRQ that the latest message named */
	/* receive WQE in use */
	bool have_wqe;
	uint64_t received;
	struct rwqe *wqe;
	struct tm_message tm;
	/* ACK or NAK to send */
	bool ack_queued, ack_due; /* ack_due: send it without further delay */
	uint8_t syndrome;
	uint32_t nak_psn;
	uint32_t unacked; /* request packets accepted since the last ACK or response was sent */
	uint64_t ack_at;
	bool ack_lazy;		   /* the peer did not set AckReq */
	struct list ack_node;	   /* on nic.ack_wait or nic.ack_lazy */
	struct resp_resource *res; /* ring of res_size, a power of two; res_head counts resources ever taken */
	uint8_t *saved; /* original elements in wire format: sq.max_fetch bytes per resource; NULL until needed */
	uint32_t res_size, res_head;
	uint32_t res_next; /* no resource before this one has todo set */
	uint32_t res_todo; /* resources with todo set, and `foreign` */
	uint32_t foreign;  /* XRC targets: queued responses that other NICs have made (xrc/); sent after our own */
};

/** How far the ENABLEs posted for a managed queue reach. */
struct enabled {
	uint32_t base;	/* index that the counts of ENABLEs are relative to */
	uint32_t count; /* largest count posted since base moved */
};

/** State for cross-channel requests. */
struct cross {
	bool posts, managed; /* posts: may post WAIT, ENABLE and calculations; managed: the send queue is managed */
	struct nic_trig_work work; /* waits in the trigger unit on behalf of the WAIT at sq.next */
	struct enabled send, recv;
	uint32_t enabled; /* managed: WQEs before this one may start */
	uint32_t resets;
};

/** Bits of nic_qp.held. */
enum req_held {
	HELD_STATE = 1 << 0,  /* neither in RTS nor in SQD */
	HELD_RNR = 1 << 1,    /* req.rnr_until is not TIME_NEVER */
	HELD_FAILED = 1 << 2, /* req.failed is an error */
	HELD_BOUND = 1 << 3,  /* in state SQD, or in a managed queue: WQEs from some index on may not start */
};

#define HEAP_NONE UINT32_MAX

struct nic_qp {
	struct nic *nic;
	struct nic_pd *pd;
	struct nic_cq *send_cq, *recv_cq;
	struct nic_srq *srq;
	struct nic_xrcd *xrcd; /* XRC targets; else NULL */
	struct xrc_lent *lent; /* XRC targets of shared domains: what is kept, and what other NICs have; or NULL */
	uint32_t qpn;
	enum nic_qp_type type;
	enum nic_qp_state state;
	bool sig_all;
	uint8_t posts; /* bits as in wr_row.posters: a request may be posted now if its row has one of these bits */
	uint8_t held;  /* enum req_held: why the requester may not send; HELD_BOUND lets it send part of the queue */
	uint32_t send_flags; /* flags allowed in requests, as in swqe.flags */
	uint32_t be_replies; /* as in nic_qp_init */
	struct nic_qp_cap cap;
	struct nic_qp_attr attr;
	uint32_t pmtu; /* bytes */
	uint16_t udp_sport;
	struct nic_gid sgid; /* the GID that attr.av.sgid_index named when the path was set */
	struct send_queue sq;
	struct rq rq;
	struct requester req;
	struct completer comp;
	struct responder resp;
	struct cross cross;
	uint32_t path;	     /* egress path of a connected QP */
	uint32_t takes;	     /* link that the QP accepts packets from, as nic_rx_frame.peer; 0: the port */
	bool peer_is_local;  /* the peer's address is local: packets via the port must have UDP source port 4791 */
	uint64_t rx_at_port; /* counters.rx_packets when `takes` became 0: packets since then came by the port */
	uint8_t says, hears; /* nic_tx_frame.addresses of the QP's bare packets, and of bare packets from the peer */
	struct list ready;   /* node on the ready list of a path */
	bool resp_turn;	     /* when the QP last had both responses and requests to send, it sent a response */
	uint64_t deadline;   /* the earliest deadline of the QP's timers */
	uint32_t heap_pos;
	struct event_source events;
	struct nic_qp_counters counters;
	bool refers;		       /* payload of its requests or responses may be in flight by reference */
	bool peer_joins;	       /* the peer accepts runs (req_run.c) */
	uint32_t mcasts;	       /* multicast groups that it is attached to */
	bool no_delay;		       /* send at once: no request waits to join a run */
	const struct qp_owner *owner;  /* NULL: the application */
	struct nic_rdm_peer *rdm_peer; /* an endpoint's RC QP: the endpoint's peer; NULL: none, or detached */
	struct nic_rdm *rdm;	       /* the endpoint whose UD QP this is, or NULL */
	struct list lingering; /* node on the endpoint's list of QPs to destroy once their last packets are sent */
};

/** Whether requests are acknowledged: RC and XRC. */
static inline bool qp_is_reliable(const struct nic_qp *qp)
{
	return (qp->type & 3) == NIC_QPT_RC;
}

/** Service bits of the opcodes that the QP sends (enum op_service); not for UD. */
static inline enum op_service qp_service(const struct nic_qp *qp)
{
	static const uint8_t service[] = {
		[NIC_QPT_RC] = OP_RC, [NIC_QPT_UC] = OP_UC, [NIC_QPT_XRC_INI] = OP_XRC, [NIC_QPT_XRC_TGT] = OP_XRC};

	return (enum op_service)service[qp->type];
}

/** Whether an endpoint of reliable datagrams owns the QP, or it is QP 1. An endpoint plans its QPs' retries. */
static inline bool qp_is_endpoints(const struct nic_qp *qp)
{
	return qp->owner && !(qp->srq && qp->srq->tm);
}

static inline struct swqe *sq_at(const struct nic_qp *qp, uint32_t index)
{
	return (struct swqe *)(void *)(qp->sq.slots + (size_t)(index & qp->sq.mask) * qp->sq.stride);
}

/** Where a WQE holds the operands of an extended atomic, in wire format. */
static inline uint8_t *sq_operands(const struct nic_qp *qp, const struct swqe *w)
{
	return (uint8_t *)(uintptr_t)w + qp->sq.operands;
}

/** The egress path of the QP's next packet. */
static inline uint32_t qp_path(const struct nic_qp *qp)
{
	if (qp->type != NIC_QPT_UD)
		return qp->path;
	return qp->sq.next != qp->sq.head ? sq_at(qp, qp->sq.next)->ud.path : 0;
}

/** The QP may have something to send: put it on its path's ready list. */
static inline void qp_ready(struct nic_qp *qp)
{
	uint32_t path;

	if (!list_empty(&qp->ready))
		return;
	path = qp_path(qp);
	list_append(&qp->nic->paths[path].ready, &qp->ready);
	qp->nic->paths_pending[path / 64] |= 1ull << path % 64;
}

#endif
