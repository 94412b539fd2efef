/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_daemon.c - libFuzzer target: messages with descriptors that a hostile client or function sends to the daemon of
 * a device. Everything runs in the virtual kernel: the daemon, two honest functions, and the enemy, a process of
 * another user that UROCE_ALLOW admits. During the run daemons are killed and restarted.
 *
 * Checked in addition to what the sanitizers find: the two functions keep their numbers, sockets and services; no
 * process leaks descriptors; the daemon does not spin, and exits when it should; no file is left over.
 */
#include "control_enemy.h"

#include <stdlib.h>
#include <string.h>

#define COMMANDS  200
#define DAEMONS	  4 /* daemons started per input */
#define SETTLE_NS (12 * VK_S)

static struct {
	struct enemy e;
	struct ctl_daemon *daemon;
	struct ctl_function *f[2];
	unsigned number[2];
	unsigned daemons;
} w;

static const struct vk_identity owner = {.uid = 1000, .allow = "all"}, member = {.uid = 1001, .allow = "all"};

static void daemon_start(void)
{
	w.daemon = ctl_daemon_start(&owner, "127.0.0.1,127.0.0.2", "", true);
	w.daemons++;
}

static void squats(struct enemy *e)
{
	struct proto_name name;
	uint8_t what = enemy_byte(e);

	if (what & 1)
		pmd_name_function(&e->gids[0], 1 + what / 2 % 8, &name);
	else
		pmd_name_service(&e->gids[0], 1001 + what / 2 % 3, &name); /* port 1000 belongs to an honest function */
	enemy_listens(e, &name);
}

static void command(struct enemy *e, uint8_t c)
{
	switch (c % 16) {
	case 0:
		enemy_connects(e);
		break;
	case 1:
		enemy_says(e, enemy_any(e), PROTO_JOIN);
		break;
	case 2:
	case 3:
	case 4:
		enemy_says(e, enemy_any(e), 0);
		break;
	case 5:
	case 6:
		enemy_hears(e, c / 16u);
		break;
	case 7:
		enemy_ends(e, c / 16u);
		break;
	case 8:
		enemy_accepts(e);
		break;
	case 9:
		enemy_says(e, enemy_any(e), PROTO_ADOPTED);
		break;
	case 10:
		enemy_babbles(e, enemy_any(e));
		break;
	case 11:
		squats(e);
		break;
	case 12:
		vk_sleep((uint64_t)enemy_byte(e) * 20 * VK_MS);
		break;
	case 13:
		if (w.daemons < DAEMONS) {
			vk_kill(w.daemon->proc);
			vk_sleep(VK_MS);
			daemon_start();
		}
		break;
	case 14:
		vk_limit(w.daemon->proc, c & 0x80 ? 512 : vk_descriptors(w.daemon->proc) + 3 + c / 16u);
		break;
	default:
		enemy_says(e, enemy_any(e), PROTO_SERVICES);
	}
}

static void enemy_main(void *arg)
{
	struct enemy *e = arg;

	enemy_toys(e);
	for (unsigned i = 0; i < COMMANDS && e->left > 0; i++) {
		command(e, enemy_byte(e));
		vk_sleep(50000); /* let the other processes run */
	}
}

static void functions_start(void)
{
	static const struct ctl_open open = {"127.0.0.1", PROTO_FOLLOW_NONE, 0};

	for (unsigned i = 0; i < 2; i++) {
		w.f[i] = ctl_function_start(&owner, &open);
		vk_run(vk_now_ns() + 100 * VK_MS, UINT64_MAX);
		fuzz_expect(w.f[i]->state == CTL_LIVE);
		w.number[i] = w.f[i]->number;
	}
	ctl_function_order(w.f[0], CTL_SERVE, NULL, 1000);
	vk_run(vk_now_ns() + 100 * VK_MS, UINT64_MAX);
	fuzz_expect(w.f[0]->n_services == 1);
}

static void settle(void)
{
	vk_limit(w.daemon->proc, 512);
	if (vk_is_ending(w.daemon->proc)) { /* the daemon has run out of descriptors and exits */
		daemon_start();
		vk_run(vk_now_ns() + VK_S, UINT64_MAX);
	}
	vk_run(vk_now_ns() + SETTLE_NS, UINT64_MAX);
	fuzz_expect(w.daemon->ready && !vk_is_ending(w.daemon->proc));
	for (unsigned i = 0; i < 2; i++)
		fuzz_expect(ctl_is_live(w.f[i]) && w.f[i]->number == w.number[i]);
	ctl_check();
	ctl_check_calm();
	fuzz_expect(!ctl_failed);
}

static void end(void)
{
	for (unsigned i = 0; i < 2; i++)
		ctl_function_order(w.f[i], CTL_CLOSE, NULL, 0);
	vk_run(vk_now_ns() + VK_S, UINT64_MAX);
	vk_terminate(w.daemon->proc);
	vk_run(vk_now_ns() + VK_S, UINT64_MAX);
	fuzz_expect(!vk_next(NULL) && vk_files() == 0 && !ctl_failed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct vk_proc *enemy;

	memset(&w, 0, sizeof(w));
	fuzz_control_begin();
	daemon_start();
	vk_run(vk_now_ns() + 100 * VK_MS, UINT64_MAX);
	functions_start();
	w.e = (struct enemy){
		.in = data, .left = size, .gids = {ctl_gid("127.0.0.1"), ctl_gid("127.0.0.2")}, .function = 3};
	enemy = vk_spawn(&member, "enemy", enemy_main, &w.e);
	fuzz_control_wait(enemy, 2000 * VK_S);
	fuzz_expect(vk_is_gone(enemy));
	settle();
	end();
	vk_stop();
	ctl_functions_free();
	return 0;
}
