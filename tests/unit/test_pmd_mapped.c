/* SPDX-License-Identifier: BSD-3-Clause */
/* test_pmd_mapped.c - writes to memory that is mapped in part (nic/mem/pinned.c, pmd/base/mapped.c); pmd/base/maps.c.
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

#include "engine.h"
#include "guard.h"
#include "mapped.h"
#include "maps.h"
#include "pinned.h"

#define PAGES 4u

static size_t page;
static uint8_t data[PAGES * 65536];

static uint8_t *map(int sharing, int fd)
{
	/* Far from where the kernel puts mappings on its own, so that nothing takes the place of what is unmapped. */
	void *wish = (void *)(sizeof(void *) == 8 ? (uintptr_t)1 << 45 : 0);
	uint8_t *p = mmap(wish, PAGES * page, PROT_READ | PROT_WRITE, sharing | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);

	assert_true(p != MAP_FAILED);
	if (wish && p != wish)
		skip(); /* something else could take the place */
	return p;
}

static void protect(uint8_t *p, int rights)
{
	assert_int_equal(mprotect(p, PAGES * page, rights), 0);
}

/** An open file without a name, of PAGES pages of this byte. */
static int file(uint8_t byte)
{
	int fd = memfd_create("mapped", MFD_CLOEXEC);
	uint8_t *pages = malloc(PAGES * page);

	memset(pages, byte, PAGES * page);
	assert_int_equal(write(fd, pages, PAGES * page), PAGES * page);
	free(pages);
	return fd;
}

static bool dropped; /* by the last put() */

static bool put(uint8_t *app, size_t len)
{
	const struct nic_config cfg = {.guard = pmd_guard_run, .is_mapped = pmd_is_mapped};

	pmd_guard_reinstall(); /* cmocka installs its own signal handlers */
	return mem_write_mapped(&cfg, &(struct copy_job){app, data, len, NULL}, &dropped);
}

static void mapped__writes_around_what_is_not_mapped(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		uint8_t *p = map(i ? MAP_SHARED : MAP_PRIVATE, -1);
		size_t gap = page + 10;

		assert_int_equal(munmap(p + page, page), 0);
		assert_false(pmd_is_mapped(NULL, p, PAGES * page));
		assert_true(pmd_is_mapped(NULL, p, page) && pmd_is_mapped(NULL, p + 2 * page, 2 * page));
		assert_true(put(p + 3, PAGES * page - 3) && dropped);
		assert_memory_equal(p + 3, data, page - 3);
		assert_memory_equal(p + 2 * page, data + 2 * page - 3, 2 * page);
		assert_true(put(p, page) && !dropped);
		assert_true(put(p + gap, page) && dropped); /* it begins in the gap, and ends behind it */
		assert_memory_equal(p + 2 * page, data + page - 10, 10);
		assert_int_equal(p[2 * page + 10], data[2 * page + 10 - 3]);
		assert_int_equal(munmap(p, PAGES * page), 0);
		assert_true(put(p, PAGES * page)); /* nothing is mapped */
		assert_false(pmd_is_mapped(NULL, p, 1));
	}
}

/** Memory that is protected is not written, nor are the pages behind the end of a file: the program may see those. */
static void mapped__what_cannot_be_written_is_an_error(void **state)
{
	int fd = file(7);
	uint8_t *p = map(MAP_PRIVATE, -1), *of_file;

	(void)state;
	protect(p, PROT_READ);
	assert_false(put(p + page, 100));
	assert_int_equal(munmap(p, page), 0);
	assert_false(put(p, 2 * page));
	assert_true(put(p, page));
	for (size_t i = page; i < PAGES * page; i++)
		assert_int_equal(p[i], 0);
	assert_int_equal(mprotect(p + page, page, PROT_NONE), 0);
	assert_false(put(p, 2 * page));
	munmap(p, PAGES * page);
	of_file = map(MAP_SHARED, fd);
	assert_int_equal(ftruncate(fd, (off_t)page), 0);
	assert_true(put(of_file, page));
	assert_false(put(of_file, 2 * page));
	munmap(of_file, PAGES * page);
	close(fd);
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
		cmocka_unit_test(mapped__writes_around_what_is_not_mapped),
		cmocka_unit_test(mapped__what_cannot_be_written_is_an_error),
		cmocka_unit_test(maps__all_mappings_are_found),
		cmocka_unit_test(maps__a_long_name_is_skipped),
	};

	page = (size_t)sysconf(_SC_PAGESIZE);
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(1 + i % 251);
	return cmocka_run_group_tests_name("pmd_mapped", tests, NULL, NULL);
}
