/* SPDX-License-Identifier: BSD-3-Clause */
/* cm_fork.c - a process forks while another of its threads opens its first device through the connection manager. The
 * child finds no lock taken. A program of its own: the first device is opened once in a process. */
#include "rig.h"
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rdma_user_cm.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_S 60
#define STAY_US	   50000
#define LOOKS	   16

static struct sockaddr_in address; /* of the first device */
static pthread_t opener;	   /* opens the device */
static atomic_bool has_opener;	   /* `opener` is valid */
static atomic_uint looks;	   /* how often it has begun to read the configuration, with locks held or not */
static atomic_bool bound;

static bool runs;		  /* the program runs: its libraries are loaded */
static atomic_uint late_handlers; /* how many fork handlers were registered since */

__attribute__((visibility("default"))) char *getenv(const char *name);
__attribute__((visibility("default"))) int __register_atfork(void (*prepare)(void), void (*parent)(void),
							     void (*child)(void), void *dso);

/** In place of the C library's, which pthread_atfork calls. */
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *dso)
{
	int (*real)(void (*)(void), void (*)(void), void (*)(void), void *);

	*(void **)&real = dlsym(RTLD_NEXT, "__register_atfork");
	atomic_fetch_add(&late_handlers, runs);
	return real(prepare, parent, child, dso);
}

/** In place of the C library's. The opener stays here each time when it reads the configuration. */
char *getenv(const char *name)
{
	size_t len = strlen(name);

	if (atomic_load(&has_opener) && pthread_equal(pthread_self(), opener) && strcmp(name, "UROCE_DEVICES") == 0) {
		atomic_fetch_add(&looks, 1);
		usleep(STAY_US);
	}
	for (char **at = environ; *at; at++)
		if (strncmp(*at, name, len) == 0 && (*at)[len] == '=')
			return *at + len + 1;
	return NULL;
}

/** Give a command to the connection manager, as librdmacm does. */
static bool command(int fd, uint32_t number, const void *in, uint16_t len, uint16_t out)
{
	struct rdma_ucm_cmd_hdr header = {.cmd = number, .in = len, .out = out};
	char buf[sizeof(header) + 1024];

	memcpy(buf, &header, sizeof(header));
	memcpy(buf + sizeof(header), in, len);
	return write(fd, buf, sizeof(header) + len) == (ssize_t)(sizeof(header) + len);
}

/** Bind an id to the device, which opens the device. librdmacm has locks of its own, so do without it. */
static bool bind_id(void)
{
	struct rdma_ucm_create_id_resp id = {0};
	struct rdma_ucm_create_id create = {.response = (uintptr_t)&id, .ps = RDMA_PS_TCP, .qp_type = IBV_QPT_RC};
	struct rdma_ucm_bind bind = {.addr_size = sizeof(address)};
	int fd = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC);
	bool done;

	memcpy(&bind.addr, &address, sizeof(address));
	if (fd < 0 || !command(fd, RDMA_USER_CM_CMD_CREATE_ID, &create, sizeof(create), sizeof(id)))
		return false;
	bind.id = id.id;
	done = command(fd, RDMA_USER_CM_CMD_BIND, &bind, sizeof(bind), 0);
	return close(fd) == 0 && done;
}

static void *bind_first(void *arg)
{
	bool done;

	while (!atomic_load(&has_opener))
		sched_yield();
	done = bind_id();
	atomic_store(&bound, true);
	return done ? NULL : arg;
}

static void fork__during_the_first_open_leaves_no_lock_in_the_child(void **state)
{
	struct ibv_device **list;
	pid_t pid[LOOKS];
	unsigned n = 0;
	char text[16];
	void *failed;

	runs = true;
	rig_devices();
	address = (struct sockaddr_in){.sin_family = AF_INET};
	assert_int_equal(sscanf(getenv("UROCE_DEVICES"), "%15[^,]", text), 1);
	assert_int_equal(inet_pton(AF_INET, text, &address.sin_addr), 1);
	list = ibv_get_device_list(NULL); /* the library gives the hooks its connection manager */
	assert_non_null(list);
	ibv_free_device_list(list);
	assert_int_equal(pthread_create(&opener, NULL, bind_first, state), 0);
	atomic_store(&has_opener, true);
	alarm(PATIENCE_S);
	while (!atomic_load(&bound)) {
		sched_yield();
		if (n == LOOKS || n == atomic_load(&looks))
			continue;
		pid[n] = fork();
		if (pid[n++] == 0) {
			atomic_store(&has_opener, false);
			alarm(PATIENCE_S / 2);
			_exit(!bind_id());
		}
	}
	assert_int_equal(pthread_join(opener, &failed), 0);
	assert_null(failed);
	assert_true(n > 0);
	assert_int_equal(atomic_load(&late_handlers), 0); /* a fork during a registration is too rare to be met here */
	while (n > 0) {
		int status;

		n--;
		assert_int_equal(waitpid(pid[n], &status, 0), pid[n]);
		assert_int_equal(status, 0);
	}
	alarm(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fork__during_the_first_open_leaves_no_lock_in_the_child),
	};

	return cmocka_run_group_tests_name("shim_cm_fork", tests, NULL, NULL);
}
