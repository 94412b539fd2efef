/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * regions.c - regions of dma-bufs (ibv_reg_dmabuf_mr, ibv_reg_mr_ex).
 *
 * Few machines have a driver that makes dma-bufs of host memory (tests/interop/dmabuf.py boots one). So most tests use
 * a file in memory, which the library takes for a dma-buf: it asks for the file system of the descriptor, and this
 * program's fstatfs answers. Everything else, the mapping above all, is as with a dma-buf.
 */
#include "region_rig.h"
#include <limits.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/dma-heap.h>
#include <linux/magic.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE   4096u
#define PAGES  8u
#define READS  10
#define NAME   "uroce-test-buffer"
#define ACCESS (RIG_ACCESS | IBV_ACCESS_RELAXED_ORDERING)

/** Descriptor of the file that passes for a dma-buf. */
static int pretended = -1;

__attribute__((visibility("default"))) int fstatfs(int fd, struct statfs *fs)
{
	int rc = (int)syscall(SYS_fstatfs, fd, fs);

	if (!rc && fd == pretended)
		fs->f_type = DMA_BUF_MAGIC;
	return rc;
}

struct buffer {
	int fd;
	uint8_t *view; /* another mapping of its memory */
};

static int file_make(void)
{
	int fd = memfd_create(NAME, MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, PAGES * PAGE), 0);
	return fd;
}

static uint8_t *view_of(int fd)
{
	uint8_t *view = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	assert_true(view != MAP_FAILED);
	return view;
}

static struct buffer buffer_pretend(void)
{
	int fd = file_make();

	pretended = fd;
	return (struct buffer){fd, view_of(fd)};
}

/** Make a dma-buf of a file in memory. @return false: there is no such driver here. */
static bool buffer_of_udmabuf(struct buffer *b)
{
	int driver = open("/dev/udmabuf", O_RDWR | O_CLOEXEC), memory = file_make();
	struct udmabuf_create ask = {.memfd = (uint32_t)memory, .size = PAGES * PAGE};

	pretended = b->fd = -1;
	b->view = view_of(memory);
	if (driver >= 0) {
		assert_int_equal(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK), 0);
		b->fd = ioctl(driver, UDMABUF_CREATE, &ask);
		assert_true(b->fd >= 0);
	}
	close(driver);
	close(memory);
	return driver >= 0;
}

/** Allocate a dma-buf. @return false: there is no such driver here. */
static bool buffer_of_heap(struct buffer *b)
{
	struct dma_heap_allocation_data ask = {.len = PAGES * PAGE, .fd_flags = O_RDWR | O_CLOEXEC};
	int driver = open("/dev/dma_heap/system", O_RDWR | O_CLOEXEC);

	*b = (struct buffer){-1, MAP_FAILED};
	pretended = -1;
	if (driver >= 0) {
		assert_int_equal(ioctl(driver, DMA_HEAP_IOCTL_ALLOC, &ask), 0);
		b->fd = (int)ask.fd;
		b->view = view_of(b->fd);
	}
	close(driver);
	return driver >= 0;
}

static void buffer_free(struct buffer *b)
{
	munmap(b->view, PAGES * PAGE);
	if (b->fd >= 0)
		close(b->fd);
	pretended = -1;
}

/** How many mappings of test buffers this process has. */
static unsigned mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned n = 0;
	char line[4096];

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps))
		n += strstr(line, NAME) != NULL;
	fclose(maps);
	return n;
}

/** Use a part of the buffer that begins and ends within pages. The region needs the descriptor only at its start. The
 * part is long enough for payload by reference, although the kernel may let no other process read such memory. */
static void use(struct rig *rig, struct buffer *b)
{
	const uint64_t offset = PAGE + 24, iova = 0x700000000018, length = 6 * PAGE + 8;
	struct rig_end *from = &rig->end[0], *to = &rig->end[1];
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(to->pd, offset, length, iova, b->fd, ACCESS);
	struct ibv_recv_wr recv, *bad;
	struct ibv_sge in;
	uint32_t rkey;

	assert_non_null(mr);
	assert_ptr_equal(mr->addr, (void *)(uintptr_t)offset);
	assert_int_equal(mr->length, length);
	assert_ptr_equal(mr->context, to->ctx);
	assert_ptr_equal(mr->pd, to->pd);
	close(b->fd);
	b->fd = -1;
	for (unsigned i = 0; i < length; i++)
		from->buf[i] = (uint8_t)(i % 251 + 1);
	rig_connect(rig, IBV_QPT_RC);
	assert_int_equal(write_to(rig, 0, (uint32_t)length, iova, mr->rkey), IBV_WC_SUCCESS);
	assert_memory_equal(b->view + offset, from->buf, length);
	assert_int_equal(b->view[offset - 1] | b->view[offset + length], 0);
	for (unsigned i = 0; i < READS; i++) {
		b->view[offset + 17]++;
		assert_int_equal(read_from(rig, 32768, (uint32_t)length, iova, mr->rkey), IBV_WC_SUCCESS);
		assert_memory_equal(b->view + offset, from->buf + 32768, length);
	}
	in = (struct ibv_sge){iova + 16, 8, mr->lkey};
	recv = (struct ibv_recv_wr){.sg_list = &in, .num_sge = 1};
	memcpy(from->buf, "message", 8);
	assert_int_equal(ibv_post_recv(to->qp, &recv, &bad), 0);
	assert_int_equal(request(rig, IBV_WR_SEND, rig_sge(from, 0, 8), 0, 0), IBV_WC_SUCCESS);
	assert_int_equal(rig_wait(to->cq).status, IBV_WC_SUCCESS);
	assert_memory_equal(b->view + offset + 16, "message", 8);
	refused(rig, iova - 1, 1, mr->rkey);
	refused(rig, iova + length, 1, mr->rkey);
	rkey = mr->rkey;
	assert_int_equal(ibv_dereg_mr(mr), 0);
	refused(rig, iova, 1, rkey);
}

static void dmabuf__of_udmabuf(void **state)
{
	struct buffer b;
	bool made = buffer_of_udmabuf(&b);

	if (made)
		use(*state, &b);
	buffer_free(&b);
	if (!made) {
		print_message("skipped: there is no /dev/udmabuf\n");
		skip();
	}
}

static void dmabuf__of_a_dma_heap(void **state)
{
	struct buffer b;

	if (!buffer_of_heap(&b)) {
		print_message("skipped: there is no /dev/dma_heap/system\n");
		skip();
	}
	use(*state, &b);
	buffer_free(&b);
}

static void dmabuf__a_part_is_used_by_its_own_addresses(void **state)
{
	struct buffer b = buffer_pretend();
	unsigned before = mappings();

	use(*state, &b);
	assert_int_equal(mappings(), before); /* the region's own one has ended with it */
	buffer_free(&b);
}

static void dmabuf__bad_arguments(void **state)
{
	static const struct {
		uint64_t offset, length, iova;
		int access;
	} bad[] = {
		{0, 0, 0, 0},
		{0, PAGES * PAGE + 1, 0, 0},
		{PAGES * PAGE, 1, 0, 0},
		{UINT64_MAX - PAGE + 1, PAGE, 0, 0}, /* wraps */
		{0, PAGE, 8, 0},		     /* another offset in its page */
		{0, PAGE, 0, IBV_ACCESS_REMOTE_WRITE},
		{0, PAGE, 0, IBV_ACCESS_ZERO_BASED},
		{0, PAGE, 0, IBV_ACCESS_MW_BIND},
		{0, PAGE, 0, IBV_ACCESS_ON_DEMAND},
		{0, PAGE, 0, 1 << 25},
	};
	struct rig_end *end = &((struct rig *)*state)->end[0];
	struct buffer b = buffer_pretend();
	int plain = file_make(), readable;
	uint32_t handle = end->pd->handle;
	char path[64];
	struct ibv_mr *mr;

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		errno = 0;
		assert_null(ibv_reg_dmabuf_mr(end->pd, bad[i].offset, bad[i].length, bad[i].iova, b.fd, bad[i].access));
		assert_int_equal(errno, EINVAL);
	}
	assert_null(ibv_reg_dmabuf_mr(end->pd, 0, PAGE, 0, plain, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_reg_dmabuf_mr(end->pd, 0, PAGE, 0, -1, 0));
	assert_int_equal(errno, EBADF);
	close(plain);
	assert_null(ibv_reg_dmabuf_mr(end->pd, 0, PAGE, 0, INT_MAX, 0));
	assert_int_equal(errno, EBADF);
	end->pd->handle = ~handle;
	assert_null(ibv_reg_dmabuf_mr(end->pd, 0, PAGE, 0, b.fd, 0));
	assert_int_equal(errno, ENOENT);
	end->pd->handle = handle;
	/* a descriptor for reading is enough for a region that is only read */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", b.fd);
	pretended = readable = open(path, O_RDONLY);
	assert_null(ibv_reg_dmabuf_mr(end->pd, 0, PAGE, 0, readable, IBV_ACCESS_LOCAL_WRITE));
	assert_int_equal(errno, EACCES);
	mr = ibv_reg_dmabuf_mr(end->pd, 0, PAGE, 0, readable, IBV_ACCESS_REMOTE_READ);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	close(readable);
	buffer_free(&b);
}

/* The kernel lets nobody map a sealed file for writing, as some drivers let nobody map their dma-bufs. */
static void dmabuf__that_cannot_be_mapped(void **state)
{
	struct rig_end *end = &((struct rig *)*state)->end[0];

	pretended = file_make();
	assert_int_equal(fcntl(pretended, F_ADD_SEALS, F_SEAL_WRITE), 0);
	assert_null(ibv_reg_dmabuf_mr(end->pd, 0, PAGE, 0, pretended, IBV_ACCESS_LOCAL_WRITE));
	assert_int_equal(errno, EOPNOTSUPP);
	close(pretended);
	pretended = -1;
}

static void dmabuf__regions_stay_as_they_are(void **state)
{
	struct rig_end *end = &((struct rig *)*state)->end[0];
	struct buffer b = buffer_pretend();
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(end->pd, 0, PAGE, 0, b.fd, ACCESS);

	assert_non_null(mr);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, end->buf, 64, 0),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	assert_ptr_equal(mr->addr, NULL);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	buffer_free(&b);
}

/* The mapping ends with the region, whoever else knows the region. A forked child has the other mapping only. */
static void dmabuf__the_mapping_is_the_regions(void **state)
{
	static struct ibv_mr *volatile left; /* keeps leak checkers quiet */
	struct rig_end *end = &((struct rig *)*state)->end[0];
	struct ibv_context *ctx = ibv_import_device(dup(end->ctx->cmd_fd));
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct buffer b = buffer_pretend();
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(end->pd, 0, PAGE, 0, b.fd, ACCESS), *alias;
	int status;
	pid_t child;

	assert_non_null(mr);
	assert_int_equal(mappings(), 2);
	alias = ibv_import_mr(pd, mr->handle);
	assert_non_null(alias);
	ibv_unimport_mr(alias);
	assert_int_equal(mappings(), 2);
	alias = ibv_import_mr(pd, mr->handle);
	child = fork();
	if (!child)
		_exit(mappings() != 1 || ibv_dereg_mr(mr) != EIO);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(mappings(), 1);
	assert_int_equal(ibv_dereg_mr(alias), 0);
	left = ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, b.fd, ACCESS);
	assert_non_null(left);
	assert_int_equal(mappings(), 2);
	assert_int_equal(ibv_close_device(ctx), 0); /* ends the region that the program has left */
	assert_int_equal(mappings(), 1);
	buffer_free(&b);
}

/* ---- ibv_reg_mr_ex ----------------------------------------------------------------------------------------------- */

/* As in rdma-core 64, whose headers may not be installed. */
enum { EX_IOVA = 1, EX_ADDR = 2, EX_FD = 4, EX_OFFSET = 8, EX_DMAH = 16 };

struct init_attr {
	size_t length;
	int access;
	uint64_t comp_mask, iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah, *buf;
};

static void dmabuf__by_ibv_reg_mr_ex(void **state)
{
	static const struct {
		uint64_t mask;
		int error;
	} cases[] = {
		{EX_FD | EX_OFFSET, EINVAL},
		{EX_FD | EX_IOVA, EINVAL},
		{EX_FD | EX_OFFSET | EX_IOVA | EX_ADDR, EINVAL},
		{EX_ADDR | EX_OFFSET, EINVAL},
		{EX_IOVA, EINVAL},
		{EX_FD | EX_OFFSET | EX_IOVA | EX_DMAH, EOPNOTSUPP},
		{EX_ADDR | EX_DMAH, EOPNOTSUPP},
	};
	struct ibv_mr *(*reg)(struct ibv_pd *, struct init_attr *) =
		(struct ibv_mr * (*)(struct ibv_pd *, struct init_attr *)) dlsym(RTLD_DEFAULT, "ibv_reg_mr_ex");
	struct rig *rig = *state;
	struct rig_end *to = &rig->end[1];
	struct buffer b = buffer_pretend();
	struct init_attr attr = {
		.length = 64, .access = RIG_ACCESS, .iova = 0x5008, .addr = to->buf, .fd = b.fd, .fd_offset = PAGE + 8};
	struct ibv_mr *mr;

	assert_non_null(reg);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		attr.comp_mask = cases[i].mask;
		assert_null(reg(to->pd, &attr));
		assert_int_equal(errno, cases[i].error);
	}
	attr.comp_mask = EX_FD | EX_OFFSET | EX_IOVA;
	mr = reg(to->pd, &attr);
	assert_non_null(mr);
	assert_ptr_equal(mr->addr, (void *)(PAGE + 8));
	rig_connect(rig, IBV_QPT_RC);
	memset(rig->end[0].buf, 0x77, 64);
	assert_int_equal(write_to(rig, 0, 64, 0x5008, mr->rkey), IBV_WC_SUCCESS);
	assert_memory_equal(b.view + PAGE + 8, rig->end[0].buf, 64);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	buffer_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
		T(dmabuf__of_udmabuf),
		T(dmabuf__of_a_dma_heap),
		T(dmabuf__a_part_is_used_by_its_own_addresses),
		T(dmabuf__bad_arguments),
		T(dmabuf__that_cannot_be_mapped),
		T(dmabuf__regions_stay_as_they_are),
		T(dmabuf__the_mapping_is_the_regions),
		T(dmabuf__by_ibv_reg_mr_ex),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
