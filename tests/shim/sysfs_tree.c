/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sysfs_tree.c - the tree of sysfs and device files, without the hooks: what it contains, where it is stored, and which
 * process removes it. XDG_RUNTIME_DIR names a folder that only this test uses.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
/* cmocka.h needs the headers before it. */
#include <cmocka.h>

#include "sysfs.h"

static char runtime[64];

/* ---- fixture ----------------------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *at)
{
	(void)st;
	(void)flag;
	(void)at;
	return remove(path);
}

static int setup(void **state)
{
	(void)state;
	/* The tests create thousands of files, so they prefer a file system in memory. */
	strcpy(runtime, access("/dev/shm", W_OK) ? "/tmp/uroce-test-XXXXXX" : "/dev/shm/uroce-test-XXXXXX");
	assert_non_null(mkdtemp(runtime));
	setenv("XDG_RUNTIME_DIR", runtime, 1);
	setenv("UROCE_DEVICES", "127.14.200.1", 1);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	return nftw(runtime, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static struct sysfs_world *world_of(const char *devices)
{
	struct sysfs_world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	setenv("UROCE_DEVICES", devices, 1);
	assert_int_equal(sysfs_world_read(w), 0);
	return w;
}

static void world_end(struct sysfs_world *w)
{
	sysfs_world_free(w);
	free(w);
}

/** In the folder of trees, count the entries whose names begin with `prefix`. */
static unsigned count_trees(const char *prefix)
{
	char path[128];
	struct dirent *d;
	unsigned n = 0;

	snprintf(path, sizeof(path), "%s/uroce", runtime);

	DIR *dir = opendir(path);

	while (dir && (d = readdir(dir)))
		n += !strncmp(d->d_name, prefix, strlen(prefix)) && d->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return n;
}

/** Find or create the tree that shows these devices. */
static struct sysfs_store store_of(const char *devices)
{
	struct sysfs_world *w = world_of(devices);
	struct sysfs_store store;

	assert_int_equal(sysfs_store_open(w, sysfs_store_hash(w), &store), 0);
	world_end(w);
	return store;
}

static void read_text(const char *root, const char *path, char *out, size_t len)
{
	char at[512];
	ssize_t n;
	int fd;

	snprintf(at, sizeof(at), "%s%s", root, path);
	fd = open(at, O_RDONLY);
	if (fd < 0)
		fail_msg("%s: %s", at, strerror(errno));
	n = read(fd, out, len - 1);
	assert_true(n >= 0);
	out[n] = '\0';
	close(fd);
}

/* ---- contents ---------------------------------------------------------------------------------------- */

#define ENTRIES_MAX 4096

struct entries {
	unsigned n;
	struct {
		enum sysfs_kind kind;
		char path[SYSFS_OWN_MAX], text[SYSFS_TEXT_MAX];
	} at[ENTRIES_MAX];
};

static int collect(void *ctx, enum sysfs_kind kind, const char *path, const char *text)
{
	struct entries *e = ctx;

	assert_true(e->n < ENTRIES_MAX);
	e->at[e->n].kind = kind;
	snprintf(e->at[e->n].path, sizeof(e->at[0].path), "%s", path);
	snprintf(e->at[e->n].text, sizeof(e->at[0].text), "%s", text ? text : "");
	e->n++;
	return 0;
}

static const char *text_of(const struct entries *e, const char *path)
{
	for (unsigned i = 0; i < e->n; i++)
		if (!strcmp(e->at[i].path, path))
			return e->at[i].text;
	fail_msg("no %s", path);
	return NULL;
}

static bool has_folder(const struct entries *e, const char *path, size_t len, unsigned before)
{
	for (unsigned i = 0; i < before; i++)
		if (e->at[i].kind == SYSFS_FOLDER && strlen(e->at[i].path) == len && !memcmp(e->at[i].path, path, len))
			return true;
	return false;
}

/* No path is emitted twice, and every folder is emitted before its entries; otherwise the tree could not be written. */
static void tree__names_are_unique_and_folders_come_first(void **state)
{
	struct entries *e = calloc(1, sizeof(*e));
	struct sysfs_world *w = world_of("127.14.200.1 127.14.200.2");
	char place[SYSFS_OWN_MAX];

	(void)state;
	assert_non_null(e);
	assert_int_equal(sysfs_tree_emit(w, collect, e), 0);
	assert_true(e->n > 200);
	for (unsigned i = 0; i < e->n; i++) {
		const char *path = e->at[i].path, *slash = strrchr(path, '/');

		for (unsigned j = 0; j < i; j++)
			if (!strcmp(path, e->at[j].path))
				fail_msg("%s is there twice", path);
		if (slash > path && !has_folder(e, path, (size_t)(slash - path), i))
			fail_msg("%s comes before its folder", path);
		if (e->at[i].kind == SYSFS_FILE)
			assert_int_equal(e->at[i].text[strlen(e->at[i].text) - 1], '\n');
	}
	sysfs_pci_place(w, 1, place, sizeof(place));
	strcat(place, "/infiniband/uroce1/ports/1/gids/0");
	assert_string_equal(text_of(e, place), "0000:0000:0000:0000:0000:ffff:7f0e:c802\n");
	world_end(w);
	free(e);
}

/* The mask has a word for each 32 CPUs. With more CPUs than the file has room for, those of the first words count. */
static void tree__all_cpus_are_local(void **state)
{
	static const unsigned counts[] = {0, 1, 2, 32, 33, 64, 928, 960, 1024, 1792, 2000, UINT32_MAX};
	struct sysfs_world *w = world_of("127.14.200.1");
	char place[SYSFS_OWN_MAX], path[SYSFS_OWN_MAX + 32];

	(void)state;
	sysfs_pci_place(w, 0, place, sizeof(place));
	for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		struct entries *e = calloc(1, sizeof(*e));
		unsigned expected = !counts[i] ? 1 : counts[i] < 1792 ? counts[i] : 1792, n = 0, last = 0;
		const char *text;

		assert_non_null(e);
		w->cpus = counts[i];
		assert_int_equal(sysfs_pci_emit(w, collect, e), 0);
		snprintf(path, sizeof(path), "%s/local_cpus", place);
		for (text = text_of(e, path); *text != '\n'; text++)
			if (*text != ',')
				n += (unsigned)__builtin_popcount((unsigned)strtoul((char[]){*text, '\0'}, NULL, 16));
		assert_int_equal(n, expected);
		snprintf(path, sizeof(path), "%s/local_cpulist", place);
		if (expected > 1)
			assert_int_equal(sscanf(text_of(e, path), "0-%u\n", &last), 1);
		assert_int_equal(last, expected - 1);
		free(e);
	}
	world_end(w);
}

static int stop_at_third(void *ctx, enum sysfs_kind kind, const char *path, const char *text)
{
	(void)kind;
	(void)path;
	(void)text;
	return ++*(unsigned *)ctx == 3 ? -ENOSPC : 0;
}

static void tree__an_error_ends_it_and_is_returned(void **state)
{
	struct sysfs_world *w = world_of("127.14.200.1");
	unsigned n = 0;

	(void)state;
	assert_int_equal(sysfs_tree_emit(w, stop_at_third, &n), -ENOSPC);
	assert_int_equal(n, 3);
	n = 0;
	assert_int_equal(sysfs_device_emit("/x", &w->devices[0], &w->rest[0], stop_at_third, &n), -ENOSPC);
	assert_int_equal(n, 3);
	n = 0;
	assert_int_equal(sysfs_pci_emit(w, stop_at_third, &n), -ENOSPC);
	assert_int_equal(n, 3);
	world_end(w);
}

/* Each counter is given a different value: its file must show this value, and no other counter's. */
static void tree__each_counter_file_shows_its_own_value(void **state)
{
	struct sysfs_live *live = calloc(1, sizeof(*live));
	struct entries *e = calloc(1, sizeof(*e));
	struct sysfs_world *w = world_of("127.14.200.1");
	char path[128], want[32];
	unsigned i = 0;

	(void)state;
	assert_non_null(live);
	assert_non_null(e);
	live->state = 1;
	live->phys_state = 3;
	for (unsigned c = 0; c < NIC_CNT_COUNT; c++)
		live->nic[c] = 1000 + 4 * c;
	live->port.rx_packets = 77;
	live->gids[2] = w->devices[0].gid;
	assert_int_equal(sysfs_device_emit("/x/infiniband/uroce0", &w->devices[0], live, collect, e), 0);
#define NIC_COUNTER(name, sentence)                                                                                    \
	snprintf(path, sizeof(path), "/x/infiniband/uroce0/ports/1/hw_counters/%s", #name);                            \
	snprintf(want, sizeof(want), "%u\n", 1000 + 4 * i++);                                                          \
	assert_string_equal(text_of(e, path), want);
#include "counters.def"
#undef NIC_COUNTER
	assert_int_equal(i, NIC_CNT_COUNT);
#define PORTS "/x/infiniband/uroce0/ports/1/"
	snprintf(want, sizeof(want), "%u\n", (1000 + 4 * NIC_CNT_tx_bytes) / 4);
	assert_string_equal(text_of(e, PORTS "counters/port_xmit_data"), want);
	assert_string_equal(text_of(e, PORTS "hw_counters/port_rx_packets"), "77\n");
	assert_string_equal(text_of(e, PORTS "state"), "1: DOWN\n");
	assert_string_equal(text_of(e, PORTS "phys_state"), "3: Disabled\n");
	assert_string_equal(text_of(e, PORTS "gids/0"), "0000:0000:0000:0000:0000:0000:0000:0000\n");
	assert_string_equal(text_of(e, PORTS "gids/2"), "0000:0000:0000:0000:0000:ffff:7f0e:c801\n");
	assert_string_equal(text_of(e, PORTS "gid_attrs/types/2"), "RoCE v2\n");
	for (unsigned k = 0; k < e->n; k++)
		assert_string_not_equal(e->at[k].path, PORTS "gid_attrs/types/0");
	world_end(w);
	free(live);
	free(e);
}

/* ---- store ------------------------------------------------------------------------------------------- */

static void store__one_tree_for_the_same_devices(void **state)
{
	struct sysfs_store a = store_of("127.14.200.1"), b;
	unsigned before = count_trees("");
	char text[128];
	struct stat st;

	(void)state;
	b = store_of("127.14.200.1");
	assert_string_equal(a.root, b.root);
	assert_int_equal(count_trees(""), before);
	read_text(a.root, "/sys/class/infiniband/uroce0/ports/1/state", text, sizeof(text));
	assert_string_equal(text, "4: ACTIVE\n");
	snprintf(text, sizeof(text), "%s/uroce", runtime);
	assert_int_equal(stat(text, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	sysfs_store_close(&a);
	sysfs_store_close(&b);
}

/** What realpath() returns below the tree must begin with its root. */
static void store__links_to_the_folder_are_resolved(void **state)
{
	struct sysfs_store a = store_of("127.14.200.1"), b;
	char link[160];

	(void)state;
	snprintf(link, sizeof(link), "%s/link", runtime);
	assert_int_equal(symlink(runtime, link), 0);
	setenv("XDG_RUNTIME_DIR", link, 1);
	b = store_of("127.14.200.1");
	setenv("XDG_RUNTIME_DIR", runtime, 1);
	assert_string_equal(a.root, b.root);
	assert_int_equal(unlink(link), 0);
	sysfs_store_close(&a);
	sysfs_store_close(&b);
}

static void store__unused_trees_are_removed_and_used_ones_kept(void **state)
{
	struct sysfs_store a = store_of("127.14.203.1"), b;
	unsigned before = count_trees("tree-");

	(void)state;
	store_of("127.14.203.2");
	assert_int_equal(count_trees("tree-"), before + 1);
	assert_int_equal(access(a.root, F_OK), 0);
	sysfs_store_close(&a);
	b = store_of("127.14.203.3");
	assert_int_equal(access(a.root, F_OK), -1);
	assert_int_equal(access(b.root, F_OK), 0);
	assert_int_equal(count_trees("tree-"), before + 1); /* this process keeps the tree of 127.14.203.2 locked */
	sysfs_store_close(&b);
}

/** Start a process that holds the tree of `devices` until it is killed. */
static pid_t holder(const char *devices)
{
	int ready[2];
	char c;

	assert_int_equal(pipe(ready), 0);

	pid_t pid = fork();

	if (pid == 0) {
		store_of(devices);
		_exit(write(ready[1], "x", 1) == 1 ? pause() : 1);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	return pid;
}

static void kill_and_wait(pid_t pid)
{
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void store__trees_left_by_a_killed_process_are_removed(void **state)
{
	pid_t pid = holder("127.14.201.1");
	char half[128];
	unsigned before;

	(void)state;
	/* Make a folder like one that a writer leaves if the writer is killed before it has finished. */
	snprintf(half, sizeof(half), "%s/uroce/new-1-0", runtime);
	assert_int_equal(mkdir(half, 0755), 0);
	strcat(half, "/sys");
	assert_int_equal(mkdir(half, 0755), 0);

	struct sysfs_store b = store_of("127.14.201.2");

	before = count_trees("tree-");
	assert_int_equal(count_trees("new-"), 0);
	kill_and_wait(pid);

	struct sysfs_store c = store_of("127.14.201.3");

	assert_int_equal(count_trees("tree-"), before); /* making tree c removed the killed process's tree */
	assert_int_equal(count_trees(""), count_trees("tree-"));
	sysfs_store_close(&b);
	sysfs_store_close(&c);
}

static void store__an_unsafe_folder_is_not_used(void **state)
{
	char base[128];
	struct sysfs_store a;

	(void)state;
	snprintf(base, sizeof(base), "%s/uroce", runtime);
	assert_int_equal(nftw(base, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
	assert_int_equal(mkdir(base, 0777), 0);
	assert_int_equal(chmod(base, 0777), 0);
	a = store_of("127.14.202.1");
	assert_int_not_equal(strncmp(a.root, runtime, strlen(runtime)), 0);
	sysfs_store_close(&a);
	assert_int_equal(rmdir(base), 0);
	assert_int_equal(symlink("/tmp", base), 0);
	a = store_of("127.14.202.1");
	assert_int_not_equal(strncmp(a.root, runtime, strlen(runtime)), 0);
	sysfs_store_close(&a);
	assert_int_equal(unlink(base), 0);
}

/* A thread or process that repeatedly opens one of three trees, which others create and remove at the same time: an
 * open tree can always be read completely. */
static void *churn(void *arg)
{
	const unsigned me = (unsigned)(uintptr_t)arg;

	for (unsigned i = 0; i < 15; i++) {
		struct sysfs_world *w = calloc(1, sizeof(*w));
		struct sysfs_store store;
		char text[160];

		assert_non_null(w);
		w->n = 1;
		snprintf(w->devices[0].name, sizeof(w->devices[0].name), "uroce%u", (i * 7 + me) % 3);
		snprintf(text, sizeof(text), "/sys/class/infiniband/%s/ports/1/hw_counters/tx_packets",
			 w->devices[0].name);
		assert_int_equal(sysfs_store_open(w, sysfs_store_hash(w), &store), 0);
		read_text(store.root, text, text, sizeof(text));
		assert_string_equal(text, "0\n");
		sysfs_store_close(&store);
		free(w);
	}
	return NULL;
}

static void store__many_threads_and_processes_at_once(void **state)
{
	pthread_t threads[4];
	pid_t children[3];
	int status;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		children[i] = fork();
		if (children[i] == 0) {
			churn((void *)(uintptr_t)i);
			_exit(0);
		}
	}
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, churn, (void *)(uintptr_t)i), 0);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(waitpid(children[i], &status, 0), children[i]);
		assert_int_equal(status, 0);
	}
}

/* ---- paths ------------------------------------------------------------------------------------------- */

static void path__only_our_paths_are_redirected_to_the_tree(void **state)
{
	char ibdev[64], node[64], pci[4][64];
	const unsigned domain = sysfs_pci_domain();
	const char *const ours[] = {
		"/sys/class/infiniband",
		"/sys/class/infiniband/",
		"//sys//class/./infiniband",
		"/sys/class/infiniband/uroce0/ports/1/state",
		"/sys/class/infiniband//uroce0",
		"/sys/class/infiniband_verbs",
		ibdev,
		"/dev/infiniband/",
		node,
		"/dev/infiniband/rdma_cm",
		"/sys/class/misc/rdma_cm/abi_version",
		pci[0],
		pci[1],
		pci[2],
		pci[3],
	};
	static const char *const others[] = {
		"",
		"/",
		"/sys",
		"/sys/class",
		"/sys/class/infini",
		"/sys/class/infiniband2",
		"/sys/class/infiniband_cm",
		"/sys/class/net/infiniband",
		"/sys/class/infiniband/uroce", /* a device with this name would be the kernel's */
		"/sys/class/infiniband/uroce00",
		"/sys/class/infiniband/mlx5_0/ports/1/state",
		"/sys/class/infiniband_verbs/uverbs77",
		"/dev",
		"/dev/null",
		"/dev/infiniband/rdma_cm0",
		"/sys/class/misc",
		"/sys/class/misc/rdma_cm2",
		"/sys/class/misc/rdma_cm/uevent",
		"sys/class/infiniband",
		"/tmp/sys/class/infiniband",
		/* Not our domain; and these lists show only hardware. */
		"/sys/devices",
		"/sys/devices/",
		"/sys/devices/pci0000:00",
		"/sys/devices/pciff00:01",
		"/sys/devices/virtual/net/lo",
		"/sys/bus/pci/devices",
		"/sys/bus/pci/devices/0000:00:00.0/class",
		"/sys/bus/pci/drivers",
		"/sys/class/pci_bus/",
		"/sys/class/pci_bus/0000:00",
	};
	char buf[SYSFS_PATH_MAX], plain[SYSFS_OWN_MAX];

	(void)state;
	setenv("UROCE_DEVICES", "127.14.200.1", 1);
	assert_false(sysfs_match(NULL));
	snprintf(ibdev, sizeof(ibdev), "/sys/class/infiniband_verbs/uverbs%u/ibdev", sysfs_uverbs_first());
	snprintf(node, sizeof(node), "/dev/infiniband/uverbs%u", sysfs_uverbs_first());
	snprintf(pci[0], sizeof(pci[0]), "/sys/devices/pci%04x:00", domain);
	snprintf(pci[1], sizeof(pci[1]), "/sys//devices/pci%04x:00/nobody", domain);
	snprintf(pci[2], sizeof(pci[2]), "/sys/bus/pci/devices/%04x:01:00.0", domain);
	snprintf(pci[3], sizeof(pci[3]), "/sys/class/pci_bus/%04x:01/../..", domain);
	for (unsigned i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
		assert_true(sysfs_match(ours[i]));
		errno = 4321;
		if (sysfs_path(ours[i], buf) != buf)
			fail_msg("%s is not taken for ours", ours[i]);
		assert_int_equal(errno, 4321);
		assert_true(sysfs_path_back(buf) > buf);
		assert_true(sysfs_path_plain(ours[i], plain, sizeof(plain)));
		assert_int_equal(
			strncmp(plain, ours[i][1] == 'd' ? "/dev/infiniband" : "/sys/", ours[i][1] == 'd' ? 15 : 5), 0);
	}
	for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (sysfs_path(others[i], buf) != others[i])
			fail_msg("%s is taken for ours", others[i]);
	assert_true(sysfs_is_node(sysfs_path(node, buf)));
	assert_false(sysfs_is_cm_node(buf));
	assert_true(sysfs_is_cm_node(sysfs_path("/dev//infiniband/./rdma_cm", buf)));
	assert_false(sysfs_is_cm_node("/dev/infiniband/rdma_cm"));
	assert_false(sysfs_is_node(sysfs_path("/sys/class/infiniband", buf)));
	uroce_sysfs_bypass(1);
	assert_ptr_equal(sysfs_path(ours[0], buf), ours[0]);
	uroce_sysfs_bypass(-1);
	assert_ptr_equal(sysfs_path(ours[0], buf), buf);
}

static void *look(void *out)
{
	sysfs_path("/sys/class/infiniband/uroce0/node_guid", out);
	return NULL;
}

/* Eight threads look a path up at the same time, with nothing cached, and get the same result. When the
 * list of devices has changed, later lookups soon find the tree of the new list. */
static void path__concurrent_lookups_agree_and_follow_device_changes(void **state)
{
	static char found[8][SYSFS_PATH_MAX];
	pthread_t threads[8];
	char text[64];

	(void)state;
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, look, found[i]), 0);
	for (unsigned i = 0; i < 8; i++) {
		pthread_join(threads[i], NULL);
		assert_string_equal(found[i], found[0]);
	}
	read_text(found[0], "", text, sizeof(text));
	setenv("UROCE_DEVICES", "127.14.200.9", 1);
	for (unsigned i = 0; i < 500 && !strcmp(found[1], found[0]); i++) {
		usleep(10000);
		look(found[1]);
	}
	assert_string_not_equal(found[1], found[0]);
	read_text(found[1], "", text, sizeof(text));
	setenv("UROCE_DEVICES", "no-such-interface", 1);
	for (unsigned i = 0; i < 500 && found[1][0]; i++) {
		usleep(10000);
		found[1][0] = '\0';
		look(found[1]);
	}
	assert_string_equal(found[1], "");
	setenv("UROCE_DEVICES", "127.14.200.1", 1);
	for (unsigned i = 0; i < 500 && !found[1][0]; i++) {
		usleep(10000);
		look(found[1]);
	}
	assert_string_equal(found[1], found[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(path__concurrent_lookups_agree_and_follow_device_changes),
		cmocka_unit_test(tree__names_are_unique_and_folders_come_first),
		cmocka_unit_test(tree__all_cpus_are_local),
		cmocka_unit_test(tree__an_error_ends_it_and_is_returned),
		cmocka_unit_test(tree__each_counter_file_shows_its_own_value),
		cmocka_unit_test(store__one_tree_for_the_same_devices),
		cmocka_unit_test(store__links_to_the_folder_are_resolved),
		cmocka_unit_test(store__unused_trees_are_removed_and_used_ones_kept),
		cmocka_unit_test(store__trees_left_by_a_killed_process_are_removed),
		cmocka_unit_test(store__many_threads_and_processes_at_once),
		cmocka_unit_test(path__only_our_paths_are_redirected_to_the_tree),
		cmocka_unit_test(store__an_unsafe_folder_is_not_used),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
