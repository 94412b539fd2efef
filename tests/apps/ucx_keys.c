/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_keys.c - which memory a remote key of UCX's UCP opens: PUTs of one worker to memory of another, with the key of
 * a region. Prints how each ended. Fails if memory does not agree with that.
 *
 * usage: ucx_keys
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucp/api/ucp.h>

#define BYTES 4096u

struct side {
	ucp_context_h context;
	ucp_worker_h worker;
};

static void check(ucs_status_t status, const char *what)
{
	if (status == UCS_OK)
		return;
	printf("FAILED: %s: %s\n", what, ucs_status_string(status));
	exit(1);
}

static void side_open(struct side *side)
{
	ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_RMA};
	ucp_worker_params_t worker_params = {0};
	ucp_config_t *config;

	check(ucp_config_read(NULL, NULL, &config), "ucp_config_read");
	check(ucp_init(&params, config, &side->context), "ucp_init");
	ucp_config_release(config);
	check(ucp_worker_create(side->context, &worker_params, &side->worker), "ucp_worker_create");
}

static void side_close(struct side *side)
{
	ucp_worker_destroy(side->worker);
	ucp_cleanup(side->context);
}

static ucp_mem_h map(struct side *side, void *memory)
{
	ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
				       .address = memory,
				       .length = BYTES};
	ucp_mem_h memh;

	check(ucp_mem_map(side->context, &params, &memh), "ucp_mem_map");
	return memh;
}

static ucs_status_t finish(struct side *origin, struct side *target, ucs_status_ptr_t request)
{
	ucs_status_t status;

	if (!UCS_PTR_IS_PTR(request))
		return UCS_PTR_STATUS(request);
	while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
		ucp_worker_progress(origin->worker);
		ucp_worker_progress(target->worker);
	}
	ucp_request_free(request);
	return status;
}

static void on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
	*(ucs_status_t *)arg = status;
}

/** PUT to the target's memory, with the key of `memh`, on an endpoint of its own. @return how that ended. */
static ucs_status_t put(struct side *origin, struct side *target, void *to, ucp_mem_h memh, const void *data)
{
	ucs_status_t failure = UCS_OK, status;
	ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
						UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER,
				  .err_mode = UCP_ERR_HANDLING_MODE_PEER,
				  .err_handler = {.cb = on_error, .arg = &failure}};
	ucp_request_param_t param = {0},
			    force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
	ucp_address_t *address;
	ucp_rkey_h rkey;
	size_t length;
	void *packed;
	ucp_ep_h ep;

	check(ucp_worker_get_address(target->worker, &address, &length), "ucp_worker_get_address");
	params.address = address;
	check(ucp_ep_create(origin->worker, &params, &ep), "ucp_ep_create");
	check(ucp_rkey_pack(target->context, memh, &packed, &length), "ucp_rkey_pack");
	check(ucp_ep_rkey_unpack(ep, packed, &rkey), "ucp_ep_rkey_unpack");
	status = finish(origin, target, ucp_put_nbx(ep, data, BYTES, (uintptr_t)to, rkey, &param));
	if (!status)
		status = finish(origin, target, ucp_ep_flush_nbx(ep, &param));
	ucp_rkey_destroy(rkey);
	ucp_rkey_buffer_release(packed);
	finish(origin, target, ucp_ep_close_nbx(ep, failure || status ? &force : &param));
	ucp_worker_release_address(target->worker, address);
	return failure ? failure : status;
}

/** The same, told; the memory must have the data exactly if the PUT succeeded. @return whether it is so. */
static int agrees(const char *what, struct side *origin, struct side *target, uint8_t *to, ucp_mem_h memh)
{
	static const uint8_t zeros[BYTES];
	uint8_t data[BYTES];
	ucs_status_t status;

	memset(data, 0x5a, BYTES);
	memset(to, 0, BYTES);
	status = put(origin, target, to, memh, data);
	printf("%s: %s\n", what, ucs_status_string(status));
	if (!memcmp(to, status ? zeros : data, BYTES))
		return 1;
	printf("FAILED: its memory says something else\n");
	return 0;
}

int main(void)
{
	uint8_t *memory = mmap(NULL, 2 * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *none = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct side origin, target;
	ucp_mem_h first, second;
	int good;

	if (memory == MAP_FAILED || none == MAP_FAILED)
		return 1;
	side_open(&origin);
	side_open(&target);
	first = map(&target, memory);
	second = map(&target, memory + BYTES);
	good = agrees("its own key", &origin, &target, memory + BYTES, second) &
	       agrees("the key of another region", &origin, &target, memory + BYTES, first);
	printf("memory that cannot be written: %s\n", ucs_status_string(put(&origin, &target, none, first, memory)));
	check(ucp_mem_unmap(target.context, first), "ucp_mem_unmap");
	check(ucp_mem_unmap(target.context, second), "ucp_mem_unmap");
	side_close(&origin);
	side_close(&target);
	return good ? 0 : 1;
}
