/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sysfs.c - the files in /sys/class/infiniband and /dev/infiniband, read with every function of the C library that
 * takes a path: they show the devices as verbs report them, and current counters.
 */
#include "rig.h"

#include <dirent.h>
#include <dlfcn.h>
#include <endian.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define DEV   "/sys/class/infiniband/uroce0"
#define PORT  DEV "/ports/1"
#define STATE PORT "/state"
#define VERBS "/sys/class/infiniband_verbs"
#define GONE  DEV "/nobody"

/* Paths of uroce0 in /dev/infiniband and /sys/class/infiniband_verbs. Both end with uverbsN, where N is one more than
 * the highest number of the kernel's devices. */
static char node[128], verbs[128];

static int setup(void **state)
{
	int err = rig_setup(state);
	struct rig *rig = *state;

	snprintf(node, sizeof(node), "/dev/infiniband/%.60s", rig->end[0].ctx->device->dev_name);
	snprintf(verbs, sizeof(verbs), VERBS "/%.60s", rig->end[0].ctx->device->dev_name);
	return err;
}

/** @return the text of a file, without the newline. */
static const char *text_of(const char *path)
{
	static char text[512];
	ssize_t n;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		fail_msg("%s: %s", path, strerror(errno));
	n = read(fd, text, sizeof(text) - 1);
	assert_true(n > 0);
	assert_int_equal(text[n - 1], '\n');
	text[n - 1] = '\0';
	close(fd);
	return text;
}

static unsigned long long number_of(const char *path)
{
	return strtoull(text_of(path), NULL, 0);
}

/* ---- values ------------------------------------------------------------------------------------------ */

static uint64_t guid_of(const char *path)
{
	unsigned w[4];

	assert_int_equal(sscanf(text_of(path), "%04x:%04x:%04x:%04x", &w[0], &w[1], &w[2], &w[3]), 4);
	return (uint64_t)w[0] << 48 | (uint64_t)w[1] << 32 | (uint64_t)w[2] << 16 | w[3];
}

static void values__equal_those_from_the_verbs(void **state)
{
	struct rig *rig = *state;
	struct ibv_context *ctx = rig->end[0].ctx;
	struct ibv_device_attr dev;
	struct ibv_port_attr port;
	unsigned gbps, lanes;
	char want[160];

	assert_int_equal(ibv_query_device(ctx, &dev), 0);
	assert_int_equal(ibv_query_port(ctx, 1, &port), 0);
	assert_string_equal(text_of(DEV "/fw_ver"), dev.fw_ver);
	assert_true(guid_of(DEV "/node_guid") == be64toh(dev.node_guid));
	assert_true(guid_of(DEV "/sys_image_guid") == be64toh(dev.sys_image_guid));
	assert_int_equal(number_of(DEV "/hw_rev"), dev.hw_ver);
	assert_int_equal(number_of(DEV "/node_type"), ctx->device->node_type);
	assert_int_equal(number_of(STATE), port.state);
	assert_int_equal(number_of(PORT "/phys_state"), port.phys_state);
	assert_int_equal(number_of(PORT "/cap_mask"), port.port_cap_flags);
	assert_int_equal(number_of(PORT "/lid"), port.lid);
	assert_int_equal(number_of(PORT "/sm_lid"), port.sm_lid);
	assert_string_equal(text_of(PORT "/link_layer"), "Ethernet");
	assert_int_equal(sscanf(text_of(PORT "/rate"), "%u Gb/sec (%uX EDR)", &gbps, &lanes), 2);
	assert_int_equal(port.active_width, lanes == 4 ? 2 : 0);
	assert_int_equal(port.active_speed, gbps == 25 * lanes ? 32 : 0);
	assert_string_equal(ctx->device->dev_path, verbs);
	assert_string_equal(ctx->device->ibdev_path, DEV);
	snprintf(want, sizeof(want), "%s/ibdev", verbs);
	assert_string_equal(text_of(want), ibv_get_device_name(ctx->device));
	snprintf(want, sizeof(want), "%.100s/ibdev", rig->end[1].ctx->device->dev_path);
	assert_string_equal(text_of(want), "uroce1");
}

static void values__of_the_gid_table(void **state)
{
	struct rig *rig = *state;
	struct ibv_port_attr port;
	char path[128], want[64];
	__be16 pkey;

	assert_int_equal(ibv_query_port(rig->end[0].ctx, 1, &port), 0);
	for (int i = 0; i < port.gid_tbl_len; i++) {
		union ibv_gid gid;
		size_t n = 0;

		assert_int_equal(ibv_query_gid(rig->end[0].ctx, 1, i, &gid), 0);
		for (unsigned k = 0; k < 16; k += 2)
			n += (size_t)snprintf(want + n, sizeof(want) - n, "%s%02x%02x", k ? ":" : "", gid.raw[k],
					      gid.raw[k + 1]);
		snprintf(path, sizeof(path), PORT "/gids/%d", i);
		assert_string_equal(text_of(path), want);
		snprintf(path, sizeof(path), PORT "/gid_attrs/types/%d", i);
		assert_int_equal(access(path, F_OK) == 0, gid.global.interface_id != 0);
	}
	snprintf(path, sizeof(path), PORT "/gids/%d", port.gid_tbl_len);
	assert_int_equal(access(path, F_OK), -1);
	assert_string_equal(text_of(PORT "/gid_attrs/types/0"), "RoCE v2");
	assert_string_equal(text_of(PORT "/gid_attrs/ndevs/0"), "lo");
	assert_int_equal(ibv_query_pkey(rig->end[0].ctx, 1, 0, &pkey), 0);
	assert_int_equal(number_of(PORT "/pkeys/0"), be16toh(pkey));
	assert_int_equal(access(DEV "/device/net/lo/mtu", R_OK), 0);
}

/* ---- counters ---------------------------------------------------------------------------------------- */

static void send_some(struct rig *rig, uint32_t length)
{
	struct ibv_sge sge = rig_sge(&rig->end[0], 0, length);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;

	rig_post_recv(&rig->end[1], 1, 0, length);
	assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
	assert_int_equal(rig_wait(rig->end[0].cq).status, IBV_WC_SUCCESS);
	assert_int_equal(rig_wait(rig->end[1].cq).status, IBV_WC_SUCCESS);
}

static long value_of(const char *text)
{
	return strtol(text, NULL, 10);
}

static void counters__count_words_and_packets_of_each_device(void **state)
{
	struct rig *rig = *state;
	const char *rcv = "/sys/class/infiniband/uroce1/ports/1/counters/port_rcv_data";
	char text[32] = "";
	int fd = open(PORT "/counters/port_xmit_data", O_RDONLY), fd2 = open(PORT "/hw_counters/tx_packets", O_RDONLY);
	long words, packets, received = (long)number_of(rcv);

	assert_true(fd >= 0 && fd2 >= 0);
	assert_true(read(fd, text, sizeof(text) - 1) > 0);
	words = value_of(text);
	assert_true(pread(fd2, text, sizeof(text) - 1, 0) > 0);
	packets = value_of(text);
	rig_connect(rig, IBV_QPT_RC);
	send_some(rig, 4000); /* 1000 words in four packets of the path MTU */
	rig_disconnect(rig);
	/* As with sysfs, a file shows the new value when it is opened again, and when it is read again from the
	 * start. */
	assert_int_equal(number_of(PORT "/counters/port_xmit_data"), words + 1000);
	assert_int_equal(number_of(rcv), received + 1000);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	memset(text, 0, sizeof(text));
	assert_true(read(fd, text, sizeof(text) - 1) > 0);
	assert_int_equal(value_of(text), words + 1000);
	assert_int_equal(read(fd, text, sizeof(text)), 0);
	memset(text, 0, sizeof(text));
	assert_true(pread(fd2, text, sizeof(text) - 1, 0) > 0);
	assert_int_equal(value_of(text), packets + 4);
	close(fd);
	close(fd2);
}

/** A counter's file is closed, and its descriptor number is reused for another file: the hook that updates a counter's
 * file when it is read must not write to the other file. */
static void counters__a_reused_descriptor_is_not_refreshed(void **state)
{
	char path[] = "/tmp/uroce-sysfs-XXXXXX", text[32] = "";
	int fd = open(PORT "/counters/port_xmit_data", O_RDONLY), other = mkstemp(path);

	(void)state;
	assert_true(fd >= 0 && other >= 0);
	unlink(path);
	assert_int_equal(write(other, "mine", 4), 4);
	assert_int_equal(dup2(other, fd), fd);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_int_equal(read(fd, text, sizeof(text)), 4);
	assert_string_equal(text, "mine");
	close(fd);
	close(other);
}

static void counters__more_open_files_than_are_remembered(void **state)
{
	int fds[200];

	(void)state;
	for (unsigned i = 0; i < 200; i++) {
		char text[32] = "";

		fds[i] = open(PORT "/hw_counters/rx_packets", O_RDONLY | O_CLOEXEC);
		assert_true(fds[i] >= 0);
		assert_true(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
		assert_true(read(fds[i], text, sizeof(text) - 1) > 0);
	}
	for (unsigned i = 0; i < 200; i++)
		close(fds[i]);
}

/* ---- every function ---------------------------------------------------------------------------------- */

/** Look up, by name, a C library function that this program would not call itself, such as the _chk variants, which are
 * called with _FORTIFY_SOURCE. @return the function. */
static void *fn(const char *name)
{
	void *f = dlsym(RTLD_DEFAULT, name);

	if (!f)
		fail_msg("no %s", name);
	return f;
}

#define CALL(type, name, ...) (((type)fn(name))(__VA_ARGS__))

static void check_fd(const char *name, int fd, const char *starts)
{
	char text[64] = "";

	if (fd < 0)
		fail_msg("%s: %s", name, strerror(errno));
	assert_int_equal(errno, 4321);
	assert_true(read(fd, text, sizeof(text) - 1) >= 0);
	if (strncmp(text, starts, strlen(starts)) != 0)
		fail_msg("%s: read \"%s\"", name, text);
	close(fd);
}

static void functions__open_variants_find_our_files(void **state)
{
	static const char *const opens[] = {"open", "open64", "__open_2", "__open64_2"};
	static const char *const ats[] = {"openat", "openat64", "__openat_2", "__openat64_2"};
	static const char *const streams[] = {"fopen", "fopen64"};

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		errno = 4321;
		check_fd(opens[i], CALL(int (*)(const char *, int), opens[i], STATE, O_RDONLY), "4: ACTIVE");
		check_fd(ats[i], CALL(int (*)(int, const char *, int), ats[i], 77, STATE, O_RDONLY), "4: ACTIVE");
		check_fd(opens[i], CALL(int (*)(const char *, int), opens[i], node, O_RDWR), "");
		assert_int_equal(CALL(int (*)(const char *, int), opens[i], GONE, O_RDONLY), -1);
		assert_int_equal(errno, ENOENT);
		assert_int_equal(CALL(int (*)(const char *, int), opens[i], STATE, O_RDWR), -1);
		assert_int_equal(errno, EACCES);
		errno = 4321;
		check_fd(opens[i], CALL(int (*)(const char *, int), opens[i], "/dev/null", O_RDWR), "");
	}
	for (unsigned i = 0; i < 2; i++) {
		FILE *f = CALL(FILE * (*)(const char *, const char *), streams[i], STATE, "re");
		char line[32];

		assert_non_null(f);
		assert_string_equal(fgets(line, sizeof(line), f), "4: ACTIVE\n");
		fclose(f);
		assert_null(CALL(FILE * (*)(const char *, const char *), streams[i], STATE, "w"));
		assert_int_equal(errno, EACCES);
		f = fopen("/dev/null", "r");
		f = CALL(FILE * (*)(const char *, const char *, FILE *), i ? "freopen64" : "freopen", DEV "/fw_ver",
			 "r", f);
		assert_non_null(f);
		assert_non_null(fgets(line, sizeof(line), f));
		fclose(f);
	}
	assert_int_equal(open(PORT "/new", O_CREAT | O_WRONLY, 0600), -1);
	assert_int_equal(open(PORT "/new", O_CREAT | O_RDONLY, 0600), -1);
}

/* _STAT_VER of the glibc headers that had it */
#ifdef __aarch64__
#define STAT_VERSION 0
#else
#define STAT_VERSION 1
#endif

static void functions__stat_and_access_variants_find_our_files(void **state)
{
	static const char *const stats[] = {"stat", "stat64", "lstat", "lstat64"};
	static const char *const xstats[] = {"__xstat", "__xstat64", "__lxstat", "__lxstat64"};
	const char *const paths[] = {PORT, STATE, node};
	static const mode_t types[] = {S_IFDIR, S_IFREG, S_IFCHR};
	struct statvfs vfs;
	struct statfs fs;
	struct statx stx;
	struct stat st;

	(void)state;
	for (unsigned p = 0; p < 3; p++) {
		for (unsigned i = 0; i < 4; i++) {
			assert_int_equal(CALL(int (*)(const char *, struct stat *), stats[i], paths[p], &st), 0);
			assert_int_equal(st.st_mode & S_IFMT, types[p]);
			assert_int_equal(
				CALL(int (*)(int, const char *, struct stat *), xstats[i], STAT_VERSION, paths[p], &st),
				0);
			assert_int_equal(st.st_mode & S_IFMT, types[p]);
		}
		assert_int_equal(fstatat(77, paths[p], &st, AT_SYMLINK_NOFOLLOW), 0);
		assert_int_equal(st.st_mode & S_IFMT, types[p]);
		assert_int_equal(CALL(int (*)(int, int, const char *, struct stat *, int), "__fxstatat64", STAT_VERSION,
				      77, paths[p], &st, AT_SYMLINK_NOFOLLOW),
				 0);
		assert_int_equal(st.st_mode & S_IFMT, types[p]);
		assert_int_equal(statx(77, paths[p], AT_SYMLINK_NOFOLLOW, STATX_TYPE, &stx), 0);
		assert_int_equal(stx.stx_mode & S_IFMT, types[p]);
		assert_int_equal(access(paths[p], R_OK), 0);
		assert_int_equal(eaccess(paths[p], R_OK), 0);
		assert_int_equal(euidaccess(paths[p], R_OK), 0);
		assert_int_equal(faccessat(77, paths[p], R_OK, 0), 0);
		assert_int_equal(statfs(paths[p], &fs), 0);
		assert_int_equal(statvfs(paths[p], &vfs), 0);
	}
	assert_int_equal(lgetxattr(DEV, "user.none", NULL, 0), -1);
	assert_int_not_equal(errno, ENOENT);
	assert_int_equal(llistxattr(DEV, NULL, 0) < 0 && errno == ENOENT, 0);
	errno = 0;
	assert_int_equal(stat(GONE, &st), -1);
	assert_int_equal(errno, ENOENT);
	/* A NULL path must give EFAULT, the same as without the hooks, and must not crash. */
	assert_int_equal(CALL(int (*)(const char *, struct stat *), "stat", NULL, &st), -1);
	assert_int_equal(errno, EFAULT);
	assert_int_equal(access("/dev/infiniband/uverbs99", F_OK), -1);
	assert_int_equal(access("/sys/class/infiniband_verbs/uverbs99", F_OK), -1);
}

static int is_visible(const struct dirent *d)
{
	return d->d_name[0] != '.';
}

static void functions__directory_functions_list_our_devices(void **state)
{
	static const char *const scans[] = {"scandir", "scandir64"};
	char before[PATH_MAX];
	struct dirent **list, *d;
	unsigned found = 0;
	glob_t g;
	DIR *dir = opendir("/sys/class/infiniband");

	(void)state;
	assert_non_null(dir);
	while ((d = readdir(dir)))
		found += !strcmp(d->d_name, "uroce0") || !strcmp(d->d_name, "uroce1");
	assert_int_equal(found, 2);
	closedir(dir);
	for (unsigned i = 0; i < 2; i++) {
		int n = CALL(int (*)(const char *, struct dirent ***, int (*)(const struct dirent *), void *), scans[i],
			     PORT "/pkeys", &list, is_visible, NULL);

		assert_int_equal(n, 1);
		assert_string_equal(list[0]->d_name, "0");
		free(list[0]);
		free(list);
	}
	assert_int_equal(scandirat(77, DEV "/ports", &list, is_visible, alphasort), 1);
	free(list[0]);
	free(list);
	assert_int_equal(glob("/sys/class/infiniband/uroce*/ports/*/state", 0, NULL, &g), 0);
	assert_int_equal(g.gl_pathc, 2);
	assert_string_equal(g.gl_pathv[0], STATE);
	globfree(&g);
	assert_non_null(getcwd(before, sizeof(before)));
	assert_int_equal(chdir(PORT), 0);
	assert_int_equal(access("gids/0", R_OK), 0);
	assert_int_equal(chdir(before), 0);
}

static void functions__realpath_and_readlink_resolve_our_paths(void **state)
{
	char out[PATH_MAX], link[160], real[160], real_state[200], real_ports[200], *s;
	const char *const want[][2] = {
		{STATE, real_state},
		{DEV "/device/infiniband/uroce0/ports", real_ports},
		{DEV "/device/net/lo", "/sys/devices/virtual/net/lo"},
		{node, node},
	};
	int fd;

	(void)state;
	assert_non_null(realpath(DEV, out));
	assert_int_equal(strncmp(out, "/sys/devices/pci", 16), 0);
	snprintf(real, sizeof(real), "%.150s", out);
	snprintf(real_state, sizeof(real_state), "%s/ports/1/state", real);
	snprintf(real_ports, sizeof(real_ports), "%s/ports", real);
	for (unsigned i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		assert_non_null(realpath(want[i][0], out));
		assert_string_equal(out, want[i][1]);
		s = CALL(char *(*)(const char *, char *, size_t), "__realpath_chk", want[i][0], out, sizeof(out));
		assert_ptr_equal(s, out);
		assert_string_equal(out, want[i][1]);
		s = canonicalize_file_name(want[i][0]);
		assert_string_equal(s, want[i][1]);
		free(s);
	}
	assert_null(realpath(GONE, out));
	assert_int_equal(errno, ENOENT);
	memset(out, 0, sizeof(out));
	assert_true(readlink(DEV, out, sizeof(out)) > 0);
	snprintf(link, sizeof(link), "../../%.150s", real + strlen("/sys/"));
	assert_string_equal(out, link);
	memset(out, 0, sizeof(out));
	assert_true(CALL(ssize_t(*)(const char *, char *, size_t, size_t), "__readlink_chk", DEV "/device/net/lo", out,
			 sizeof(out), sizeof(out)) > 0);
	assert_string_equal(out, "/sys/class/net/lo");
	assert_true(readlinkat(77, DEV "/device/net/lo", out, sizeof(out)) > 0);
	assert_true(CALL(ssize_t(*)(int, const char *, char *, size_t, size_t), "__readlinkat_chk", 77,
			 DEV "/device/net/lo", out, sizeof(out), sizeof(out)) > 0);
	assert_int_equal(readlink(node, out, sizeof(out)), -1);
	assert_int_equal(errno, EINVAL);
	/* Paths relative to a folder's descriptor are resolved by the kernel. */
	fd = open(PORT, O_RDONLY | O_DIRECTORY);
	assert_true(fd >= 0);
	assert_int_equal(faccessat(fd, "gids/0", R_OK, 0), 0);
	close(fd);
}

/* ---- processes and threads --------------------------------------------------------------------------- */

/* A forked child still sees the files, but they show an idle device whose counters are 0, because the engine belongs
 * to the parent. */
static void process__a_forked_child_reads_zero_counters(void **state)
{
	struct rig *rig = *state;
	int status;

	rig_connect(rig, IBV_QPT_RC);
	send_some(rig, 4000);
	rig_disconnect(rig);
	assert_true(number_of(PORT "/counters/port_xmit_data") > 0);

	pid_t pid = fork();

	if (pid == 0)
		_exit(strcmp(text_of(STATE), "4: ACTIVE") != 0 || number_of(PORT "/counters/port_xmit_data") != 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static atomic_bool reader_end;

/* @return NULL: all could be read */
static void *read_until_the_end(void *arg)
{
	char text[64];

	while (!atomic_load(&reader_end)) {
		int fd = open(PORT "/counters/port_xmit_data", O_RDONLY);

		if (fd < 0 || read(fd, text, sizeof(text)) <= 0 || close(fd) != 0)
			return arg;
	}
	return NULL;
}

/* What a forked child opens itself has its own counters. A thread that reads the parent's during the fork leaves no
 * lock behind in the child. */
static void process__a_forked_child_reads_the_counters_of_what_it_opens(void **state)
{
	pthread_t reader;
	void *failed;
	int status = 0;

	atomic_store(&reader_end, false);
	assert_int_equal(pthread_create(&reader, NULL, read_until_the_end, state), 0);
	for (unsigned i = 0; i < 20 && status == 0; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			void *rig = NULL;

			alarm(30);
			rig_setup_again(&rig);
			rig_connect(rig, IBV_QPT_RC);
			send_some(rig, 4000);
			_exit(number_of(PORT "/counters/port_xmit_data") == 0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
	}
	atomic_store(&reader_end, true);
	pthread_join(reader, &failed);
	assert_null(failed);
	assert_int_equal(status, 0);
}

static void *read_a_lot(void *arg)
{
	for (unsigned i = 0; i < 300; i++) {
		char text[64] = "";
		int fd = open(i % 2 ? STATE : PORT "/counters/port_rcv_data", O_RDONLY);
		ssize_t n = fd >= 0 ? read(fd, text, sizeof(text)) : -1;

		if (n <= 0 || text[n - 1] != '\n')
			return arg;
		close(fd);
	}
	return NULL;
}

static void process__four_threads_read_files_during_traffic(void **state)
{
	struct rig *rig = *state;
	pthread_t threads[4];
	void *failed;

	rig_connect(rig, IBV_QPT_RC);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, read_a_lot, rig), 0);
	for (unsigned i = 0; i < 100; i++)
		send_some(rig, 1000);
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(threads[i], &failed);
		assert_null(failed);
	}
	rig_disconnect(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values__equal_those_from_the_verbs),
		cmocka_unit_test(values__of_the_gid_table),
		cmocka_unit_test(counters__count_words_and_packets_of_each_device),
		cmocka_unit_test(counters__a_reused_descriptor_is_not_refreshed),
		cmocka_unit_test(counters__more_open_files_than_are_remembered),
		cmocka_unit_test(functions__open_variants_find_our_files),
		cmocka_unit_test(functions__stat_and_access_variants_find_our_files),
		cmocka_unit_test(functions__directory_functions_list_our_devices),
		cmocka_unit_test(functions__realpath_and_readlink_resolve_our_paths),
		cmocka_unit_test(process__a_forked_child_reads_zero_counters),
		cmocka_unit_test(process__a_forked_child_reads_the_counters_of_what_it_opens),
		cmocka_unit_test(process__four_threads_read_files_during_traffic),
	};

	return cmocka_run_group_tests(tests, setup, rig_teardown);
}
