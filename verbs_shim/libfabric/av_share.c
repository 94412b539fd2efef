/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * av_share.c - address tables that processes of one user share by name (fi_av(3), FI_SHARED_AV), in POSIX shared
 * memory. An index is assigned once, and its address is then written once. If a process dies between the two steps, the
 * index has no address. av.c keeps each process's private copy of the table. The last process that closes the table
 * removes the shared memory. If that process is killed before it does so, the next process that opens the table empties
 * it (or, if it opens the table read-only, removes it).
 */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "filesize.h"
#include "share.h"

#define MAGIC	     0x75614131u /* must change with the layout below */
#define ROOM_DEFAULT 1024u
#define ROOM_MOST    (1u << 20)
#define NAME_LEN     255

struct shared_entry {
	uint8_t gid[16];
	uint16_t port;
	_Atomic uint8_t state; /* enum ufi_share_state; the other members are valid once state is UFI_SHARE_NAMES */
};

struct shared_table {
	uint32_t magic, room;
	_Atomic uint32_t n; /* number of indices assigned */
	_Atomic uint32_t removed;
	/** `room` elements fi_addr_t, then `room` elements struct shared_entry. */
	fi_addr_t map[];
};

struct ufi_share {
	int fd;
	bool read_only;
	unsigned forks; /* pmd_forks() when the table was opened */
	struct shared_table *table;
	struct shared_entry *entries;
	uint32_t room;
	char name[NAME_LEN + 1];
};

static size_t table_len(uint32_t room)
{
	return sizeof(struct shared_table) + room * (sizeof(fi_addr_t) + sizeof(struct shared_entry));
}

/* ---- opening --------------------------------------------------------------------------------------------- */

/** Make the name of the shared memory. @return false: the name is too long. */
static bool name_of(const struct ufi_domain *domain, const char *name, char *out)
{
	int len = snprintf(out, NAME_LEN + 1, "/uroce-av-%u-%s-%c-", (unsigned)geteuid(), domain->device.name,
			   ufi_gid_is_ipv4(&domain->device.gid) ? '4' : '6');

	for (; *name && len > 0 && len < NAME_LEN - 3; name++)
		len += snprintf(out + len, 4, *name == '/' || *name == '%' ? "%%%02x" : "%c", (unsigned char)*name);
	return len > 0 && !*name;
}

/** Lock the table's file. Every user holds a shared lock (F_RDLCK); whoever gets the exclusive lock (F_WRLCK) is the
 * only user. */
static bool lock_use(int fd, short type, bool wait)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
	int rc;

	do {
		rc = fcntl(fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &lock);
	} while (rc && errno == EINTR);
	return rc == 0;
}

static int table_map(struct ufi_share *share, uint32_t room)
{
	int prot = PROT_READ | (share->read_only ? 0 : PROT_WRITE);
	void *at = mmap(NULL, table_len(room), prot, MAP_SHARED, share->fd, 0);

	if (at == MAP_FAILED)
		return -errno;
	share->table = at;
	share->room = room;
	share->entries = (struct shared_entry *)(void *)(share->table->map + room);
	return 0;
}

/** Empty the table. Called when no other process uses it. */
static int table_init(struct ufi_share *share, uint32_t room)
{
	int rc;

	if (!filesize_is_allowed(table_len(room)))
		return -EFBIG;
	if (ftruncate(share->fd, 0))
		return -errno;
	/* Allocate the whole table now: if the file system were full at the first access to a page, a signal would
	 * kill the process. */
	do {
		rc = posix_fallocate(share->fd, 0, (off_t)table_len(room));
	} while (rc == EINTR);
	if (rc) {
		(void)!ftruncate(share->fd, 0);
		return -rc;
	}
	rc = table_map(share, room);
	if (rc)
		return rc;
	share->table->room = room;
	share->table->magic = MAGIC;
	return 0;
}

/** Remove a table that a read-only opener found without users: its content is outdated, and a read-only opener cannot
 * empty it. @return -FI_ENOENT. */
static int table_gone(const struct ufi_share *share)
{
	shm_unlink(share->name);
	return -FI_ENOENT;
}

/** Map a table that other processes use. */
static int table_join(struct ufi_share *share, const struct stat *st)
{
	struct shared_table head;

	/* The table is not initialized yet. Only an opener that is the file's only user can initialize it. */
	if (st->st_size == 0)
		return share->read_only ? -FI_ENOENT : -FI_EAGAIN;
	if (pread(share->fd, &head, sizeof(head), 0) != sizeof(head) || head.magic != MAGIC || head.room > ROOM_MOST ||
	    (size_t)st->st_size < table_len(head.room))
		return -FI_EINVAL;
	return table_map(share, head.room);
}

/** Try once to open the table. @return 0; -FI_EAGAIN: another process is creating or removing the table; another
 * negative errno. */
static int share_try(struct ufi_share *share, uint32_t room)
{
	struct stat st;
	bool alone;

	share->fd = shm_open(share->name, O_RDWR | (share->read_only ? 0 : O_CREAT), 0600);
	if (share->fd < 0 || fstat(share->fd, &st))
		return -errno;
	if (st.st_uid != geteuid()) /* refuse: another user could hold the lock forever */
		return -FI_EACCES;
	alone = lock_use(share->fd, F_WRLCK, false);
	if ((!alone && !lock_use(share->fd, F_RDLCK, true)) || fstat(share->fd, &st))
		return -errno;
	if (st.st_nlink == 0)
		return -FI_EAGAIN;
	if (alone) {
		int rc = share->read_only ? table_gone(share) : table_init(share, room);

		lock_use(share->fd, F_RDLCK, true);
		return rc;
	}
	return table_join(share, &st);
}

int ufi_share_open(const struct ufi_domain *domain, const char *name, bool read_only, size_t count,
		   struct ufi_share **out)
{
	struct ufi_share *share;
	int rc;

	if (count > ROOM_MOST)
		return -FI_ENOMEM;
	share = calloc(1, sizeof(*share));
	if (!share)
		return -FI_ENOMEM;
	share->read_only = read_only;
	share->forks = pmd_forks();
	rc = name_of(domain, name, share->name) ? -FI_EAGAIN : -FI_EINVAL;
	while (rc == -FI_EAGAIN) {
		rc = share_try(share, count > ROOM_DEFAULT ? (uint32_t)count : ROOM_DEFAULT);
		if (rc && share->fd >= 0)
			close(share->fd);
		if (rc == -FI_EAGAIN)
			sched_yield();
	}
	if (rc) {
		free(share);
		return rc;
	}
	*out = share;
	return 0;
}

void ufi_share_close(struct ufi_share *share)
{
	munmap(share->table, table_len(share->room));
	if (share->forks == pmd_forks()) { /* a forked child must leave the lock to its parent */
		if (lock_use(share->fd, F_WRLCK, false))
			shm_unlink(share->name);
		/* close() does not release the lock while a forked child still has the file open. */
		lock_use(share->fd, F_UNLCK, false);
	}
	close(share->fd);
	free(share);
}

/* ---- the table ------------------------------------------------------------------------------------------- */

fi_addr_t *ufi_share_map(const struct ufi_share *share)
{
	return share->table->map;
}

int ufi_share_add(struct ufi_share *share, const struct nic_rdm_addr *addr, uint32_t *out)
{
	uint32_t i = atomic_load(&share->table->n);

	do {
		if (i >= share->room)
			return -FI_ENOMEM;
	} while (!atomic_compare_exchange_weak(&share->table->n, &i, i + 1));
	if (addr) {
		memcpy(share->entries[i].gid, addr->gid.raw, sizeof(share->entries[i].gid));
		share->entries[i].port = addr->port;
		share->table->map[i] = i;
	} else {
		share->table->map[i] = FI_ADDR_NOTAVAIL;
	}
	atomic_store(&share->entries[i].state, addr ? UFI_SHARE_NAMES : UFI_SHARE_NOBODY);
	*out = i;
	return 0;
}

void ufi_share_remove(struct ufi_share *share, uint32_t i)
{
	atomic_store(&share->entries[i].state, UFI_SHARE_NOBODY);
	atomic_fetch_add(&share->table->removed, 1);
}

uint32_t ufi_share_count(const struct ufi_share *share)
{
	uint32_t n = atomic_load_explicit(&share->table->n, memory_order_acquire);

	return n < share->room ? n : share->room;
}

uint32_t ufi_share_removals(const struct ufi_share *share)
{
	return atomic_load_explicit(&share->table->removed, memory_order_acquire);
}

enum ufi_share_state ufi_share_at(const struct ufi_share *share, uint32_t i, struct nic_rdm_addr *addr)
{
	uint8_t state = atomic_load_explicit(&share->entries[i].state, memory_order_acquire);

	if (state == UFI_SHARE_NAMES) {
		memset(addr, 0, sizeof(*addr));
		memcpy(addr->gid.raw, share->entries[i].gid, sizeof(addr->gid.raw));
		addr->port = share->entries[i].port;
	}
	return state <= UFI_SHARE_NOBODY ? (enum ufi_share_state)state : UFI_SHARE_NOBODY;
}
