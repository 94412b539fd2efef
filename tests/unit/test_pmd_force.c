/* SPDX-License-Identifier: BSD-3-Clause */
/* test_pmd_force.c - pmd/base/force.c: copies to and from memory that is protected, or mapped in part; pmd/base/maps.c.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "guard.h"
#include "maps.h"

#define PAGES 4u

static size_t page;
static uint8_t data[PAGES * 65536];

static uint8_t *map(int sharing, int fd)
{
	/* Far from where the kernel puts mappings on its own, so that nothing takes the place of what is unmapped. */
	void *wish = (void *)(sizeof(void *) == 8 ? (uintptr_t)1 << 45 : 0);
	uint8_t *p = mmap(wish, PAGES * page, PROT_READ | PROT_WRITE, sharing | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);

	assert_true(p != MAP_FAILED);
	return p;
}

static void protect(uint8_t *p, int rights)
{
	assert_int_equal(mprotect(p, PAGES * page, rights), 0);
}

/** An open file without a name, of PAGES pages of this byte. */
static int file(uint8_t byte)
{
	int fd = memfd_create("force", MFD_CLOEXEC);
	uint8_t *pages = malloc(PAGES * page);

	memset(pages, byte, PAGES * page);
	assert_int_equal(write(fd, pages, PAGES * page), PAGES * page);
	free(pages);
	return fd;
}

static enum nic_force put(uint8_t *app, size_t len)
{
	return pmd_guard_force(NULL, app, data, len, true);
}

static void force__writes_what_is_protected(void **state)
{
	static const int rights[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE};

	(void)state;
	for (unsigned i = 0; i < 9; i++) {
		int fd = i % 3 == 2 ? file(0) : -1;
		uint8_t *p = map(i % 3 ? MAP_SHARED : MAP_PRIVATE, fd);

		protect(p, rights[i / 3]);
		assert_int_equal(put(p + 10, PAGES * page - 20), NIC_FORCE_DONE);
		protect(p, PROT_READ);
		assert_memory_equal(p + 10, data, PAGES * page - 20);
		assert_int_equal(p[9] | p[PAGES * page - 10], 0);
		munmap(p, PAGES * page);
		if (fd >= 0)
			close(fd);
	}
}

static void force__writes_around_what_is_not_mapped(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 8; i++) {
		uint8_t *p = map(i & 1 ? MAP_SHARED : MAP_PRIVATE, -1);
		size_t gap = i / 2 * page; /* the first page, one in the middle, the last */

		protect(p, i & 1 ? PROT_NONE : PROT_READ | PROT_WRITE);
		munmap(p + gap, page);
		assert_int_equal(put(p, PAGES * page), NIC_FORCE_GONE);
		for (unsigned n = 0; n < PAGES; n++) {
			if (n * page == gap)
				continue;
			assert_int_equal(mprotect(p + n * page, page, PROT_READ), 0);
			assert_memory_equal(p + n * page, data + n * page, page);
		}
		assert_int_equal(put(p + gap, page), NIC_FORCE_GONE);
		munmap(p, PAGES * page);
		assert_int_equal(put(p, PAGES * page), NIC_FORCE_GONE);
	}
}

/** Code, constants of programs and libraries, and memory that there is no page for. */
static void force__some_memory_is_not_written(void **state)
{
	static const int rights[] = {PROT_READ | PROT_EXEC, PROT_NONE, PROT_READ};

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		int fd = i ? file(0x33) : -1;
		uint8_t *p = map(i == 3 ? MAP_SHARED : MAP_PRIVATE, fd);

		memset(p, 0x33, PAGES * page);
		if (i < 3)
			protect(p, rights[i]);
		else
			assert_int_equal(ftruncate(fd, (off_t)page), 0);
		assert_int_equal(put(p + page, 100), NIC_FORCE_FAILED);
		if (i < 3)
			protect(p, PROT_READ);
		for (unsigned at = 0; at < page + (i < 3 ? 100 : 0); at++)
			assert_int_equal(p[at], 0x33);
		munmap(p, PAGES * page);
		if (fd >= 0)
			close(fd);
	}
}

static void force__reads_what_is_protected(void **state)
{
	uint8_t *out = malloc(PAGES * page);

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		uint8_t *p = map(i ? MAP_SHARED : MAP_PRIVATE, -1);

		memcpy(p, data, PAGES * page);
		protect(p, PROT_NONE);
		memset(out, 0, PAGES * page);
		assert_int_equal(pmd_guard_force(NULL, p + 5, out, PAGES * page - 5, false), NIC_FORCE_DONE);
		assert_memory_equal(out, data + 5, PAGES * page - 5);
		munmap(p + page, page);
		assert_int_equal(pmd_guard_force(NULL, p, out, PAGES * page, false), NIC_FORCE_GONE);
		assert_int_equal(pmd_guard_force(NULL, p, out, page, false), NIC_FORCE_DONE);
		munmap(p, PAGES * page);
	}
	free(out);
}

/** The text is longer than the buffer that it is read into. */
static void maps__all_mappings_are_found(void **state)
{
	struct mapping m;
	struct maps maps;
	unsigned found = 0, n = 400;
	uint8_t *p = mmap(NULL, n * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_true(p != MAP_FAILED);
	for (unsigned i = 0; i < n; i += 2)
		assert_int_equal(mprotect(p + i * page, page, PROT_READ | PROT_WRITE), 0);
	assert_true(maps_open(&maps));
	while (maps_next(&maps, &m)) {
		if (m.start < (uintptr_t)p || m.end > (uintptr_t)p + n * page)
			continue;
		assert_int_equal(m.end - m.start, page);
		assert_int_equal(m.writable, (m.start - (uintptr_t)p) / page % 2 == 0);
		assert_true(m.readable && !m.shared && !m.inode);
		found++;
	}
	maps_close(&maps);
	assert_int_equal(found, n);
	munmap(p, n * page);
}

/** Go into a new folder. */
static void descend(const char *name)
{
	assert_true(mkdir(name, 0700) == 0 && chdir(name) == 0);
}

/** A mapping of a file whose name is longer than the buffer. What is left of its line looks like a line, too, for some
 *  lengths of the name. */
static void long_name(unsigned longer)
{
	char name[253], first[8] = "aaaaaaa", folder[] = "/tmp/uroce-maps-XXXXXX";
	int depth = 0, fd;
	unsigned found = 0;
	struct mapping m;
	struct maps maps;
	uint8_t *p;

	for (size_t i = 0; i < sizeof(name); i++)
		name[i] = "1-2 "[i % 4];
	name[sizeof(name) - 1] = '\0';
	first[1 + longer] = '\0';
	assert_true(mkdtemp(folder) && chdir(folder) == 0);
	descend(first);
	for (; depth < 40; depth++)
		descend(name);
	fd = open("file", O_RDWR | O_CREAT, 0600);
	p = mmap(NULL, page, PROT_READ, MAP_SHARED, fd, 0);
	assert_true(p != MAP_FAILED);
	assert_true(maps_open(&maps));
	while (maps_next(&maps, &m)) {
		assert_true(m.start > 2);
		found += m.start == (uintptr_t)p && m.end == m.start + page && m.shared && m.inode && !m.writable;
	}
	maps_close(&maps);
	assert_int_equal(found, 1);
	munmap(p, page);
	close(fd);
	unlink("file");
	while (depth-- > 0)
		assert_true(chdir("..") == 0 && rmdir(name) == 0);
	assert_true(chdir("..") == 0 && rmdir(first) == 0 && chdir("/") == 0 && rmdir(folder) == 0);
}

static void maps__a_long_name_is_skipped(void **state)
{
	int here = open(".", O_RDONLY | O_DIRECTORY);

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		long_name(i);
	assert_int_equal(fchdir(here), 0);
	close(here);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(force__writes_what_is_protected),
		cmocka_unit_test(force__writes_around_what_is_not_mapped),
		cmocka_unit_test(force__some_memory_is_not_written),
		cmocka_unit_test(force__reads_what_is_protected),
		cmocka_unit_test(maps__all_mappings_are_found),
		cmocka_unit_test(maps__a_long_name_is_skipped),
	};

	page = (size_t)sysconf(_SC_PAGESIZE);
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(1 + i % 251);
	return cmocka_run_group_tests_name("pmd_force", tests, NULL, NULL);
}
