/* SPDX-License-Identifier: BSD-3-Clause */
/* said.c - what the library writes to stderr when a program fails that does not say why. */
#include "rig.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

/** Make stderr a file in memory. @return the old stderr. */
static int stderr_divert(void)
{
	int old = dup(STDERR_FILENO), fd = memfd_create("stderr", MFD_CLOEXEC);

	assert_true(old >= 0 && fd >= 0 && dup2(fd, STDERR_FILENO) == STDERR_FILENO);
	close(fd);
	return old;
}

/** End that, and copy what was written. */
static void stderr_restore(int old, char *said, size_t room)
{
	ssize_t n = pread(STDERR_FILENO, said, room - 1, 0);

	assert_int_equal(dup2(old, STDERR_FILENO), STDERR_FILENO);
	close(old);
	assert_true(n >= 0);
	said[n] = 0;
}

/* Without a GRH, there is no address. The user is told once, however many calls fail. */
static void said__an_address_without_a_grh(void **state)
{
	struct rig *rig = *state;
	struct rig_end *end = &rig->end[0];
	struct ibv_ah_attr by_lid = {.dlid = 7, .port_num = 1};
	struct ibv_qp_attr attr = {.ah_attr = by_lid};
	struct ibv_qp_init_attr init = rig_qp_init(end, IBV_QPT_RC);
	struct ibv_qp *qp = ibv_create_qp(end->pd, &init);
	char said[1000];
	int old;

	assert_non_null(qp);
	old = stderr_divert();
	for (unsigned i = 0; i < 2; i++) {
		assert_null(ibv_create_ah(end->pd, &by_lid));
		assert_int_equal(errno, EINVAL);
		assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_AV), EINVAL);
	}
	stderr_restore(old, said, sizeof(said));
	assert_true(!strncmp(said, "uroce: ", 7));
	assert_non_null(strstr(said, "GRH"));
	assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1); /* one line */
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(said__an_address_without_a_grh, rig_setup, rig_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
