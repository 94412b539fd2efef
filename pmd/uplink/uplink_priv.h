/* SPDX-License-Identifier: BSD-3-Clause */
/* uplink_priv.h - the state of an uplink, which its files share: uplink.c (opening, the daemon's side), uplink_thread.c
 * (when the switch works and sleeps), uplink_sleep.c (how it sleeps), uplink_switch.c (moving packets). */
#ifndef PMD_UPLINK_PRIV_H
#define PMD_UPLINK_PRIV_H

#include <pthread.h>

#include "ring_pair.h"
#include "uplink_steer.h"

#define UPLINK_BELLS	  16	      /* that are looked at after one sleep; the others end the next one */
#define UPLINK_CONNECT_NS 1000000000u /* time between attempts to connect, for a port that connects */

struct pmd_pool;
struct pmd_port;

struct uplink_function {
	bool there;
	bool given; /* has been given packets since its bell was last looked at */
	struct ring_pair rings;
};

struct uplink {
	/* Set at the start. */
	struct pmd_port *port;
	struct pmd_pool *pool;
	struct nic_gid gid;
	uint16_t id; /* DPDK's number of the ethdev */
	uint16_t mtu;
	uint8_t mac[6];
	char netdev[16];
	bool connects; /* the port is to be started again when its link is down */
	int changed_fd, bell_fd, epoll_fd;
	pthread_t thread;

	/* The switch's thread alone uses these: whose bells ended its sleep. */
	uint8_t rung[UPLINK_BELLS];
	unsigned n_rung;

	/* The rest is used under the lock. The switch holds it while it moves packets, and lets go whenever `wanted` is
	 * not 0. */
	pthread_mutex_t lock;
	unsigned wanted; /* atomic */
	bool stop, asleep, up;
	bool missing;	       /* the kernel interface behind the port was not there at some look */
	bool lost;	       /* see struct uplink_state */
	unsigned netdev_index; /* of the kernel interface that the port has opened; 0: none was there */
	bool stopped;	       /* the port could not be started again */
	uint64_t look_ns;      /* when to look at the link next */
	uint64_t connect_ns;   /* when to start the port again, at the earliest */
	struct uplink_function functions[UPLINK_FUNCTIONS];
	uint8_t active[UPLINK_FUNCTIONS]; /* numbers of the functions that are there */
	unsigned n_active, turn;
	bool full;	    /* functions have packets, but the port took none of them in the last round */
	uint64_t flowed_ns; /* when it last took some, or none were there */
	struct steering steering;
	struct uplink_stats stats;
};

/* uplink_eal.c */
/** Start DPDK's EAL in the daemon, with its own thread's affinity. @return 0 or a negative errno with a message in err.
 */
int uplink_eal_start(const struct uplink_config *config, char *err, size_t err_len);
/** The first error that DPDK logged: one line; "": nothing. */
void uplink_eal_complaint(char *out, size_t len);
/** From now on log errors to syslog. */
void uplink_eal_quiet(void);

/* uplink_switch.c: lock held */
/** Move packets in both directions, a bounded number. @return how many. */
unsigned uplink_step(struct uplink *u, uint64_t now_ns, uint64_t *deadline_ns);
/** Send what a function that has ended left in its ring, as far as the port has room, and drop the rest. */
void uplink_function_flush(struct uplink *u, unsigned n, uint64_t now_ns);
/** Disconnect a function. */
void uplink_function_drop(struct uplink *u, unsigned n);

/* uplink_sleep.c */
/** Announce a sleep to all functions: they ring from now on. Lock held. @return false: some have packets. */
bool uplink_sleep_announce(struct uplink *u);
/** Sleep at most `ns`. Called by the switch's thread, lock not held. @return false: nobody rang, and nothing came. */
bool uplink_sleep(struct uplink *u, uint64_t ns);
/** The sleep is over: functions need not ring. Lock held. */
void uplink_sleep_end(struct uplink *u);

/* uplink_thread.c */
void *uplink_run(void *uplink);
/** Take the lock from the switch, and give it back. */
void uplink_lock(struct uplink *u);
void uplink_unlock(struct uplink *u);
/** Look at the port's link; if it has changed, tell the daemon. Lock held. */
void uplink_check_link(struct uplink *u);

#endif
