/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_told.c - libFuzzer target: messages to a function from a hostile or broken daemon, and from other connections:
 * other daemons, link producers, tools. The function trusts the user that the daemon runs as, but not the daemon's
 * messages. Everything runs in the virtual kernel. The function is real, and so is the daemon that replaces the enemy
 * when the enemy has ended.
 *
 * Checked in addition to what the sanitizers find: the function joins or gets an error message; it accounts for all its
 * descriptors; it does not spin; it closes in bounded time, and leaves nothing behind.
 */
#include "control_enemy.h"

#include <stdlib.h>
#include <string.h>

#include "nic_rdm.h"

#define COMMANDS  200
#define JOIN_MOST (200 * VK_S)

static struct {
	struct enemy e;
	struct ctl_function *f;
} w;

static const struct vk_identity user = {.uid = 1000};

/** Accept a connection and answer each pending JOIN, roughly like a daemon. */
static void welcomes(struct enemy *e, uint8_t how)
{
	enemy_accepts(e);
	for (unsigned i = 0; i < e->n; i++)
		if (enemy_hears(e, i) == PROTO_JOIN && i < e->n)
			enemy_says(e, e->fds[i], how & 1 ? PROTO_REFUSED : PROTO_WELCOME);
}

/** Have the function execute a command, chosen by the input, as if its program had called it. */
static void order(struct enemy *e)
{
	static const enum ctl_command what[] = {CTL_SERVE, CTL_UNSERVE, CTL_ROUTE, CTL_ROUTE, CTL_FORK};
	uint8_t c = enemy_byte(e);
	unsigned i = c % 5;
	uint32_t arg = i < 2 ? 1000 + c / 8u % 3 : i == 2 ? (uint32_t)(1 + c / 8 % 4) << 16 : NIC_SERVICE_QPN + 1000;

	if (w.f->state == CTL_LIVE)
		ctl_function_order(w.f, what[i], &e->gids[c / 128], arg);
}

static void visits(struct enemy *e)
{
	struct proto_name name;
	uint8_t c = enemy_byte(e);

	if (c & 1)
		pmd_name_service(&e->gids[0], 1000 + c / 2 % 3, &name);
	else
		pmd_name_function(&e->gids[0], w.f->state == CTL_LIVE ? w.f->number : e->function, &name);
	enemy_keep(e, proto_connect(&name));
}

static void command(struct enemy *e, uint8_t c)
{
	struct proto_name name;

	switch (c % 16) {
	case 0:
		welcomes(e, c >> 4);
		break;
	case 1:
	case 2:
		enemy_says(e, enemy_any(e), PROTO_DEVICE);
		break;
	case 3:
		enemy_says(e, enemy_any(e), PROTO_FAULT);
		break;
	case 4:
	case 5:
		enemy_says(e, enemy_any(e), 0);
		break;
	case 6:
		enemy_hears(e, c / 16u);
		break;
	case 7:
		enemy_ends(e, c / 16u);
		break;
	case 8:
		visits(e);
		break;
	case 9:
		enemy_says(e, enemy_any(e), PROTO_ADOPT);
		break;
	case 10:
		enemy_babbles(e, enemy_any(e));
		break;
	case 11:
		order(e);
		break;
	case 12:
		vk_sleep((uint64_t)enemy_byte(e) * 20 * VK_MS);
		break;
	case 13:
		enemy_says(e, enemy_any(e), PROTO_LINK);
		break;
	case 14:
		if (c & 0x80)
			vk_limit(w.f->proc, c & 0x40 ? 512 : vk_descriptors(w.f->proc) + c / 16u % 4);
		else
			enemy_says(e, enemy_any(e), PROTO_TOOL);
		break;
	default:
		pmd_name_function(&e->gids[0], 1 + c / 16u, &name); /* the function under test can get the number too */
		if (e->n_listeners < 2)
			enemy_listens(e, &name);
		enemy_accepts(e);
	}
}

static void enemy_main(void *arg)
{
	static const struct ctl_open open = {"127.0.0.1", PROTO_FOLLOW_NONE, 0};
	struct enemy *e = arg;
	struct proto_name name;

	enemy_toys(e);
	pmd_name_daemon(&e->gids[0], &name);
	enemy_listens(e, &name);
	pmd_name_function(&e->gids[0], e->function, &name);
	e->toys[10] = proto_listen(&name); /* a socket to send to the function */
	w.f = ctl_function_start(&user, &open);
	for (unsigned i = 0; i < COMMANDS && e->left > 0; i++) {
		command(e, enemy_byte(e));
		vk_sleep(50000);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct vk_proc *enemy;
	uint64_t end_ns;

	memset(&w, 0, sizeof(w));
	fuzz_control_begin();
	w.e = (struct enemy){
		.in = data, .left = size, .gids = {ctl_gid("127.0.0.1"), ctl_gid("127.0.0.2")}, .function = 3};
	enemy = vk_spawn(&user, "enemy", enemy_main, &w.e);
	fuzz_control_wait(enemy, 2000 * VK_S);
	fuzz_expect(vk_is_gone(enemy) && w.f);
	vk_limit(w.f->proc, 512);
	end_ns = vk_now_ns() + JOIN_MOST;
	while (w.f->state == CTL_JOINING && vk_now_ns() < end_ns)
		vk_run(vk_now_ns() + VK_S, UINT64_MAX);
	fuzz_expect(w.f->state == CTL_LIVE || (w.f->state == CTL_REFUSED && w.f->err[0]));
	vk_run(vk_now_ns() + 8 * VK_S, UINT64_MAX);
	if (w.f->state == CTL_LIVE) {
		ctl_check_descriptors(w.f);
		ctl_function_order(w.f, CTL_CLOSE, NULL, 0);
	}
	vk_run(vk_now_ns() + 15 * VK_S, UINT64_MAX);
	fuzz_expect(!ctl_failed && vk_is_gone(w.f->proc));
	fuzz_expect(!vk_next(NULL) && vk_files() == 0);
	vk_stop();
	ctl_functions_free();
	return 0;
}
