/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_connect.c - UCX connections by socket addresses: a client sends messages, the server sends each back.
 *
 * usage: ucx_connect PORT ADDRESS           serves one connection to ADDRESS
 *        ucx_connect PORT ADDRESS client    connects, and checks what comes back
 */
#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

#define TAG    4711u
#define ROUNDS 20u

static const size_t sizes[] = {0, 1, 100, 8192, 100000, 3000000};

static ucp_context_h context;
static ucp_worker_h worker;
static ucp_conn_request_h caller;
static bool peer_closed;
static uint8_t sent[3000000], received[3000000];

static void check(ucs_status_t status, const char *what)
{
	if (status == UCS_OK)
		return;
	printf("FAILED: %s: %s\n", what, ucs_status_string(status));
	exit(1);
}

static void open_ucx(void)
{
	ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
	ucp_worker_params_t worker_params = {0};
	ucp_config_t *config;

	check(ucp_config_read(NULL, NULL, &config), "ucp_config_read");
	check(ucp_init(&params, config, &context), "ucp_init");
	ucp_config_release(config);
	check(ucp_worker_create(context, &worker_params, &worker), "ucp_worker_create");
}

static void finish(ucs_status_ptr_t request, const char *what)
{
	ucs_status_t status;

	if (!UCS_PTR_IS_PTR(request)) {
		check(UCS_PTR_STATUS(request), what);
		return;
	}
	while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS)
		ucp_worker_progress(worker);
	ucp_request_free(request);
	check(status, what);
}

static void send_message(ucp_ep_h ep, const void *data, size_t size)
{
	ucp_request_param_t param = {0};

	finish(ucp_tag_send_nbx(ep, data, size, TAG, &param), "ucp_tag_send_nbx");
}

static void receive_message(size_t size)
{
	ucp_request_param_t param = {0};

	memset(received, 0, size);
	finish(ucp_tag_recv_nbx(worker, received, size, TAG, UINT64_MAX, &param), "ucp_tag_recv_nbx");
}

static void close_ep(ucp_ep_h ep, unsigned flags)
{
	ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = flags};

	finish(ucp_ep_close_nbx(ep, &param), "ucp_ep_close_nbx");
}

static void on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
	(void)arg, (void)ep;
	if (status != UCS_ERR_CONNECTION_RESET)
		check(status, "the connection");
	peer_closed = true;
}

static void on_call(ucp_conn_request_h request, void *arg)
{
	(void)arg;
	caller = request;
}

static ucp_ep_h create_ep(ucp_ep_params_t params)
{
	ucp_ep_h ep;

	params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
	params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
	params.err_handler.cb = on_error;
	check(ucp_ep_create(worker, &params, &ep), "ucp_ep_create");
	return ep;
}

static void serve(const ucs_sock_addr_t *at)
{
	ucp_listener_params_t params = {.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR |
						      UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
					.sockaddr = *at,
					.conn_handler.cb = on_call};
	ucp_listener_h listener;
	ucp_ep_h ep;

	check(ucp_listener_create(worker, &params, &listener), "ucp_listener_create");
	while (!caller)
		ucp_worker_progress(worker);
	ep = create_ep((ucp_ep_params_t){.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST, .conn_request = caller});
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]) * ROUNDS; i++) {
		receive_message(sizes[i / ROUNDS]);
		send_message(ep, received, sizes[i / ROUNDS]);
	}
	/* What the last message needs on the way to the client is lost if this side closes first. */
	while (!peer_closed)
		ucp_worker_progress(worker);
	close_ep(ep, UCP_EP_CLOSE_FLAG_FORCE);
	ucp_listener_destroy(listener);
}

static void call(const ucs_sock_addr_t *to)
{
	ucp_ep_h ep = create_ep((ucp_ep_params_t){.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR,
						  .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
						  .sockaddr = *to});

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]) * ROUNDS; i++) {
		size_t size = sizes[i / ROUNDS];

		for (size_t k = 0; k < size; k++)
			sent[k] = (uint8_t)(k * 7 + k / 251 + i);
		send_message(ep, sent, size);
		receive_message(size);
		if (memcmp(sent, received, size) != 0) {
			printf("FAILED: message %u of %zu bytes came back changed\n", i, size);
			exit(1);
		}
	}
	close_ep(ep, 0);
}

int main(int argc, char **argv)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	ucs_sock_addr_t address = {(struct sockaddr *)&in, sizeof(in)};

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc < 3 || inet_pton(AF_INET, argv[2], &in.sin_addr) != 1) {
		fprintf(stderr, "usage: ucx_connect PORT ADDRESS [client]\n");
		return 2;
	}
	in.sin_port = htons((uint16_t)atoi(argv[1]));
	open_ucx();
	if (argc > 3)
		call(&address);
	else
		serve(&address);
	ucp_worker_destroy(worker);
	ucp_cleanup(context);
	printf("all messages came back\n");
	return 0;
}
