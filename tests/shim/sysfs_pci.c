/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sysfs_pci.c - the devices' PCI functions in /sys/devices, read as programs do that derive a topology from them: NCCL,
 * UCX, hwloc, Open MPI. Each test does the steps of such a program.
 */
#include "rig.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#define CLASS "/sys/class/infiniband"

/** Read a file, without the newline at its end. */
static void text_at(const char *folder, const char *name, char *out, size_t len)
{
	char path[PATH_MAX];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		fail_msg("%s: %s", path, strerror(errno));
	n = read(fd, out, len - 1);
	assert_true(n > 0);
	out[n - 1] = '\0';
	close(fd);
}

static unsigned long number_at(const char *folder, const char *name)
{
	char text[64], *end;
	unsigned long value;

	text_at(folder, name, text, sizeof(text));
	value = strtoul(text, &end, 0);
	assert_string_equal(end, "");
	return value;
}

/** The folder of the PCI function of an end's device. */
static void place_of(struct rig *rig, unsigned end, char out[PATH_MAX])
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/device", rig->end[end].ctx->device->ibdev_path);
	assert_non_null(realpath(path, out));
}

static const char *last_of(const char *path)
{
	return strrchr(path, '/') + 1;
}

/** Whether this is domain:bus:slot.function with four, two, two and one hex digits. */
static bool is_address(const char *text)
{
	unsigned domain, bus, slot, function;
	char again[16];

	if (strlen(text) != 12 || sscanf(text, "%4x:%2x:%2x.%1x", &domain, &bus, &slot, &function) != 4)
		return false;
	snprintf(again, sizeof(again), "%04x:%02x:%02x.%x", domain, bus, slot, function);
	return !strcmp(text, again);
}

/* ---- values ------------------------------------------------------------------------------------------ */

static void values__agree_with_the_verbs(void **state)
{
	struct rig *rig = *state;
	char place[PATH_MAX], text[256], want[64];
	struct ibv_device_attr attr;

	for (unsigned end = 0; end < 2; end++) {
		place_of(rig, end, place);
		assert_true(is_address(last_of(place)));
		assert_int_equal(ibv_query_device(rig->end[end].ctx, &attr), 0);
		text_at(place, "vendor", text, sizeof(text));
		assert_int_equal(strlen(text), strlen("0x1234")); /* PCI's IDs have 16 bits */
		assert_int_equal(number_at(place, "vendor"), attr.vendor_id);
		assert_int_equal(number_at(place, "device"), attr.vendor_part_id);
		assert_int_equal(number_at(place, "subsystem_vendor"), attr.vendor_id);
		assert_int_equal(number_at(place, "subsystem_device"), attr.vendor_part_id);
		assert_int_equal(number_at(place, "revision"), attr.hw_ver);
		assert_int_equal(number_at(place, "class"), 0x020000); /* an Ethernet controller */
		text_at(place, "numa_node", text, sizeof(text));
		assert_string_equal(text, "-1");
		text_at(place, "local_cpulist", text, sizeof(text));
		assert_int_equal(strncmp(text, "0", 1), 0);
		assert_true(number_at(place, "max_link_width") == 16 && number_at(place, "current_link_width") == 16);
		text_at(place, "current_link_speed", text, sizeof(text));
		assert_string_equal(text, "16.0 GT/s PCIe");
		text_at(place, "uevent", text, sizeof(text));
		snprintf(want, sizeof(want), "\nPCI_SLOT_NAME=%.12s\n", last_of(place));
		assert_non_null(strstr(text, want));
		snprintf(want, sizeof(want), "PCI_ID=%04X:%04X\n", attr.vendor_id, attr.vendor_part_id);
		assert_non_null(strstr(text, want));
	}
}

/* The device is found from each of its folders, and they from it. */
static void values__all_folders_lead_to_the_function(void **state)
{
	struct rig *rig = *state;
	char place[PATH_MAX], path[2 * PATH_MAX], out[PATH_MAX];

	for (unsigned end = 0; end < 2; end++) {
		const struct ibv_device *device = rig->end[end].ctx->device;
		struct stat st;

		place_of(rig, end, place);
		snprintf(path, sizeof(path), "%s/device", device->dev_path);
		assert_non_null(realpath(path, out));
		assert_string_equal(out, place);
		snprintf(path, sizeof(path), "%s/infiniband/%s", place, device->name);
		assert_non_null(realpath(device->ibdev_path, out));
		assert_string_equal(out, path);
		snprintf(path, sizeof(path), "%s/infiniband_verbs/%s", place, device->dev_name);
		assert_non_null(realpath(device->dev_path, out));
		assert_string_equal(out, path);
		snprintf(path, sizeof(path), "%s/net/lo/mtu", place);
		assert_int_equal(access(path, R_OK), 0);
		/* As in the kernel, entries of class folders are links. */
		assert_int_equal(lstat(device->ibdev_path, &st), 0);
		assert_true(S_ISLNK(st.st_mode));
		assert_int_equal(lstat(device->dev_path, &st), 0);
		assert_true(S_ISLNK(st.st_mode));
		assert_int_equal(lstat(place, &st), 0);
		assert_true(S_ISDIR(st.st_mode));
	}
}

/* By the path in /sys/devices as well, the counters are those of the open device. */
static void values__counters_are_live_by_every_path(void **state)
{
	static const char *const ways[] = {"", "/device/infiniband/uroce0"};
	struct rig *rig = *state;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	char path[PATH_MAX], real[PATH_MAX];

	rig_connect(rig, IBV_QPT_RC);
	rig_post_recv(&rig->end[1], 1, 0, 0);
	assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
	assert_int_equal(rig_wait(rig->end[0].cq).status, IBV_WC_SUCCESS);
	rig_disconnect(rig);
	for (unsigned i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), CLASS "/uroce0%s/ports/1", ways[i]);
		assert_true(number_at(path, "hw_counters/tx_packets") > 0);
		assert_non_null(realpath(path, real));
		assert_true(number_at(real, "hw_counters/tx_packets") > 0);
	}
}

/* ---- the steps of programs --------------------------------------------------------------------------- */

/* NCCL takes devices whose addresses differ only in slot and function for one card, and reads the port above a device
 * by "..". It finds a device by its address through the link of its bus. */
static void programs__nccl(void **state)
{
	struct rig *rig = *state;
	char places[2][PATH_MAX], path[2 * PATH_MAX + 32], out[PATH_MAX], text[64];

	for (unsigned end = 0; end < 2; end++) {
		char *place = places[end];
		const char *address;

		place_of(rig, end, place);
		/* Slot and function are 0 already. */
		address = last_of(place);
		assert_string_equal(address + 8, "00.0");
		snprintf(path, sizeof(path), "%s/subsystem", place);
		assert_non_null(realpath(path, out));
		assert_string_equal(last_of(out), "pci");
		snprintf(path, sizeof(path), "/sys/class/pci_bus/%.7s/../../%s", address, address);
		assert_non_null(realpath(path, out));
		assert_string_equal(out, place);
		text_at(place, "max_link_speed", text, sizeof(text));
		assert_string_equal(text, "16.0 GT/s PCIe");
		text_at(place, "../max_link_speed", text, sizeof(text));
		assert_string_equal(text, "16.0 GT/s PCIe");
		assert_int_equal(number_at(place, "../max_link_width"), 16);
		assert_int_equal(number_at(place, "../class"), 0x060400); /* a bridge */
		/* One port above the device, and above the port a host bridge. */
		snprintf(path, sizeof(path), "%s", place);
		*strrchr(path, '/') = '\0';
		assert_true(is_address(last_of(path)));
		*strrchr(path, '/') = '\0';
		assert_int_equal(strncmp(path, "/sys/devices/pci", 16), 0);
		assert_false(is_address(last_of(path)));
	}
	assert_string_not_equal(last_of(places[0]), last_of(places[1]));
}

/* UCX goes up two folders from the real path of the class's entry, and finds the path of an address again in
 * /sys/bus/pci/devices. */
static void programs__ucx(void **state)
{
	struct rig *rig = *state;
	char place[PATH_MAX], path[PATH_MAX], out[PATH_MAX];
	unsigned short domain;
	unsigned char bus, slot, function;

	for (unsigned end = 0; end < 2; end++) {
		place_of(rig, end, place);
		assert_non_null(realpath(rig->end[end].ctx->device->ibdev_path, path));
		*strrchr(path, '/') = '\0';
		*strrchr(path, '/') = '\0';
		assert_string_equal(path, place);
		assert_int_equal(sscanf(last_of(path), "%hx:%hhx:%hhx.%hhx", &domain, &bus, &slot, &function), 4);
		snprintf(path, sizeof(path), "/sys/bus/pci/devices/%04x:%02x:%02x.%d", domain, bus, slot, function);
		assert_non_null(realpath(path, out));
		assert_string_equal(out, place);
	}
}

static bool lists(int folder, const char *name)
{
	DIR *dir = fdopendir(folder);
	const struct dirent *d;
	bool found = false;

	assert_non_null(dir);
	while ((d = readdir(dir)))
		found |= !strcmp(d->d_name, name);
	closedir(dir);
	return found;
}

/* hwloc opens "/", and names all files relative to that. */
static void programs__hwloc(void **state)
{
	int root = open("/", O_RDONLY | O_DIRECTORY), other = open("/dev", O_RDONLY | O_DIRECTORY), fd;
	char path[PATH_MAX], out[PATH_MAX], again[PATH_MAX], place[PATH_MAX], text[16] = "";
	struct stat st;
	struct statx stx;
	ssize_t n;

	place_of(*state, 1, place);
	assert_true(root >= 0 && other >= 0);
	assert_true(lists(openat(root, "sys/class/infiniband", O_RDONLY | O_DIRECTORY), "uroce1"));
	n = readlinkat(root, "sys/class/infiniband/uroce1", out, sizeof(out) - 1);
	assert_true(n > 0);
	out[n] = '\0';
	assert_int_equal(readlink(CLASS "/uroce1", again, sizeof(again)), n);
	assert_int_equal(strncmp(out, again, (size_t)n), 0);
	assert_non_null(strstr(out, last_of(place)));
	snprintf(path, sizeof(path), "sys/bus/pci/devices/%.12s/local_cpus", last_of(place));
	assert_int_equal(faccessat(root, path, R_OK, 0), 0);
	assert_int_equal(fstatat(root, path, &st, 0), 0);
	assert_int_equal(statx(root, path, 0, STATX_TYPE, &stx), 0);
	fd = openat(root, path, O_RDONLY);
	assert_true(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	assert_int_equal(fstatat(root, "sys/class/infiniband/uroce1", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_true(S_ISLNK(st.st_mode));
	/* Another folder's descriptor, and paths below the root that are not ours, are the kernel's. */
	errno = 0;
	assert_int_equal(openat(other, path, O_RDONLY), -1);
	assert_int_equal(errno, ENOENT);
	fd = openat(root, "dev/null", O_RDONLY);
	assert_true(fd >= 0);
	close(fd);
	close(root);
	close(other);
}

/* Programs that list the PCI devices look for hardware: our devices are not in these lists. */
static void programs__that_list_pci_devices_see_only_hardware(void **state)
{
	static const char *const folders[] = {"/sys/bus/pci/devices", "/sys/class/pci_bus", "/sys/devices"};
	char place[PATH_MAX];

	for (unsigned end = 0; end < 2; end++) {
		place_of(*state, end, place);
		for (unsigned i = 0; i < 3; i++) {
			DIR *dir = opendir(folders[i]);
			const struct dirent *d;

			while (dir && (d = readdir(dir)))
				assert_null(strstr(place, d->d_name[0] == '.' ? "//" : d->d_name));
			if (dir)
				closedir(dir);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values__agree_with_the_verbs),
		cmocka_unit_test(values__all_folders_lead_to_the_function),
		cmocka_unit_test(values__counters_are_live_by_every_path),
		cmocka_unit_test(programs__nccl),
		cmocka_unit_test(programs__ucx),
		cmocka_unit_test(programs__hwloc),
		cmocka_unit_test(programs__that_list_pci_devices_see_only_hardware),
	};

	return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
