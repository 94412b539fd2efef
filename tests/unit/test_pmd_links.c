/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of pmd/links*.c: what becomes of links whose other end does not do as it should. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "devices.h"
#include "engine_priv.h"
#include "fake_peer.h"
#include "links_priv.h"

static struct pmd_device device[3];

static unsigned open_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static struct nic_qp *qp_to_fake(struct end *e, enum nic_qp_type type)
{
	return fake_qp(e, type, e->scq, &e->gid, FAKE_QPN, 14);
}

static void destroy_qp(struct end *e, struct nic_qp *qp)
{
	pmd_lock(e->engine);
	assert_int_equal(nic_qp_destroy(qp), 0);
	pmd_unlock(e->engine);
}

/* ---- what a consumer answers ------------------------------------------------------------------------------------ */

/** Descriptors that nobody asked for are closed. */
static void links__an_answer_too_many_leaves_no_descriptors(void **state)
{
	struct fake_consumer f;
	struct end a;
	int many[PROTO_FDS_MAX], bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	unsigned before = 0;

	(void)state;
	for (unsigned i = 0; i < PROTO_FDS_MAX; i++)
		many[i] = 1;
	end_open(&a, &device[0]);
	fake_listen(&f, &device[0], FAKE_FUNCTION);
	for (unsigned round = 0; round < 3; round++) {
		struct nic_qp *qp = qp_to_fake(&a, NIC_QPT_UC);
		uint32_t path = nic_qp_path(qp);

		assert_true(path > 0);
		destroy_qp(&a, qp);
		fake_take(&f);
		fake_answer(&f, bell);
		assert_int_equal(proto_send(f.fd, PROTO_LINK_TAKEN, NULL, 0, many, PROTO_FDS_MAX), 0);
		fake_look_after(&a);
		assert_null(a.engine->links->out[path]);
		fake_end(&f);
		if (round == 0)
			before = open_descriptors();
	}
	assert_int_equal(open_descriptors(), before);
	close(bell);
	fake_close(&f);
	end_close(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(links__an_answer_too_many_leaves_no_descriptors),
	};

	if (ends_devices(device, 3, NULL) != 3)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
