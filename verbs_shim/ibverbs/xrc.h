/* SPDX-License-Identifier: BSD-3-Clause */
/* xrc.h - XRC domains and target QPs (IBTA A14). */
#ifndef SHIM_XRC_H
#define SHIM_XRC_H

#include "nic_xrc_share.h"
#include "shim.h"

struct shim_xrc_share; /* what an engine needs to share domains with other processes (xrc_share.c) */

/** A file that names a domain. The engine lock protects its members; see also xrc.c. */
struct shim_xrc_file {
	struct shim_xrc_file *next;
	struct shim_xrc_share *share;
	struct nic *nic;
	dev_t dev;
	ino_t ino;
	int fd;	     /* keeps the inode's number from being used again when the file is removed; -1: closed by a fork */
	bool locked; /* fd is an open file description of our own, with a lock that tells other processes of us */
	bool shared; /* other processes can use the domain */
	struct nic_xrcd *xrcd;
	unsigned opened;	 /* number of struct shim_xrcd that were opened with this file */
	struct shim_qp *remotes; /* structures of target QPs of other processes, linked by `next_remote` */
	uint32_t *left;		 /* numbers of target QPs that only other processes use, or have used */
	unsigned n_left;
};

/* ---- xrc.c ------------------------------------------------------------------------------------------- */

struct ibv_xrcd *shim_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr);
int shim_close_xrcd(struct ibv_xrcd *xrcd);
/** Release the NIC's object of a domain, which is freed when no other domain shares it. Engine lock held. Call
 * shim_share_end() afterwards, without the lock. */
void shim_xrcd_drop(struct shim_xrcd *xrcd);
/** The file that names the domain; NULL: none. Engine lock held. */
struct shim_xrc_file *shim_xrc_file_of(const struct nic_xrcd *xrcd);
/** Register the fork handler of xrc.c. */
void shim_xrc_fork(void);

/* ---- xrc_share.c ------------------------------------------------------------------------------------- */

/** Get the share of the context's engine, which is created if there is none, and become a user of it. No lock held.
 * @return NULL with errno */
struct shim_xrc_share *shim_share_get(struct shim_context *ctx);
/** Become, and cease to be, a user of a share. Engine lock held. Call shim_share_end() after the latter, without the
 * lock. */
void shim_share_ref(struct shim_xrc_share *share);
void shim_share_unref(struct shim_xrc_share *share);
/** Destroy the share of the context's engine if nobody uses it. No lock held. */
void shim_share_end(struct shim_context *ctx);
/** Whether another process has a domain on this device that the file of `fd` names. Locks of the open file description
 * of `fd` do not count. */
bool shim_share_is_taken(const struct shim_xrc_share *share, int fd);
/** Tell other processes, by a lock of the file of `fd`, that this process has a domain on this device that the file
 * names. @return a descriptor of a new open file description that has the lock: closing its last copy ends the lock;
 * -1: the file cannot be locked, and other processes learn nothing */
int shim_share_lock(const struct shim_xrc_share *share, int fd, const struct stat *st);
/** Whether other processes can find this process by its lock, and reach its NIC. */
bool shim_share_reaches(const struct shim_xrc_file *file);
/** Let other processes use the domain. */
void shim_share_domain(struct shim_xrc_file *file);

/* ---- xrc_target.c ------------------------------------------------------------------------------------ */

/** Create an XRC target QP. */
struct ibv_qp *shim_target_create(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
struct ibv_qp *shim_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr);
/** Detach a structure from its QP, which is not an XRC target of another process. Engine lock held. @return false: only
 * this structure uses the NIC's QP, so the caller must destroy the QP. */
bool shim_target_leave(struct shim_qp *qp);
/** The process closes the domain that the file names: destroy the target QPs that only other processes use. Engine lock
 * held. */
void shim_targets_left_destroy(struct shim_context *ctx, struct shim_xrc_file *file);
/** Verbs on a target QP of another process. Engine lock held; it is released while the call waits for that process.
 * @return 0 or a negative errno */
int shim_remote_query(struct shim_qp *qp, struct nic_qp_attr *attr);
int shim_remote_modify(struct shim_qp *qp, const struct nic_qp_attr *attr, uint32_t mask);
/** Detach a structure from a target QP of another process. Engine lock held. @param wait wait until that process knows;
 * then the lock is released meanwhile. */
void shim_remote_leave(struct shim_qp *qp, bool wait);

#endif
