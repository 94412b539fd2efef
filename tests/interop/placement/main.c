/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * main.c - FLUSH and ATOMIC WRITE (IBTA A19) between two ends, over any libibverbs that knows them.
 *
 *   placement -s [-g GID_INDEX] [-p PORT] [-m FILE]
 *   placement -c ADDRESS [-g GID_INDEX] [-p PORT] [-T TIMEOUT_CODE] [-n BATCHES]
 *
 * The client requests, the server is the memory: first the cases of cases.c, then the batches of batches.c; with -n
 * that many batches only. FILE is the server's memory to be flushed for persistence. The client prints "ok" or "FAIL"
 * for each case, preceded by the reasons; the server says why its memory is not as it must be. Exit code 0: all is
 * well; 77: the device does not know these operations.
 */
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "placement.h"

void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "placement: ");
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\n");
	va_end(ap);
	exit(1);
}

uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000ull + t.tv_nsec / 1000000;
}

int main(int argc, char **argv)
{
	struct side me = {.wish = {.timeout_code = 19, .batches = 25}};
	const char *host = NULL;
	int port = 18600, option;
	bool ok = true;

	setvbuf(stdout, NULL, _IOLBF, 0);
	while ((option = getopt(argc, argv, "sc:g:p:m:T:n:")) >= 0)
		switch (option) {
		case 's':
			break;
		case 'c':
			host = optarg;
			break;
		case 'g':
			me.gid_index = atoi(optarg);
			break;
		case 'p':
			port = atoi(optarg);
			break;
		case 'm':
			me.file_name = optarg;
			break;
		case 'T':
			me.wish.timeout_code = atoi(optarg);
			break;
		case 'n':
			me.wish.batches = atoi(optarg);
			me.wish.only_batches = 1;
			break;
		default:
			die("unknown option; see the head of main.c");
		}
	side_open(&me);
	me.client = host;
	me.oob = host ? oob_connect(host, port) : oob_accept(port);
	if (host)
		oob_send(me.oob, &me.wish, sizeof(me.wish));
	else
		oob_recv(me.oob, &me.wish, sizeof(me.wish));
	oob_swap(me.oob, &me.mine, &me.peer, sizeof(me.mine));
	if (!me.wish.only_batches)
		ok = cases_run(&me);
	ok = batches_run(&me) && ok;
	side_close(&me);
	return !ok;
}
