/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_keys.c - which memory a remote key of UCX's UCP opens. One worker accesses memory of another with the key of its
 * region, of another region, and of a region of its own. Prints how each access ended, and fails if the data do not
 * agree with that. UROCE_UCX_ONE_KEY is the target's setting.
 *
 * usage: ucx_keys SETTING    (the origin's)
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucp/api/ucp.h>

#define BYTES 4096u
#define WORDS (BYTES / 8)

struct side {
	ucp_context_h context;
	ucp_worker_h worker;
};

/** A registered region. */
struct region {
	struct side *owner;
	uint64_t *words;
	ucp_mem_h memh;
};

static struct side target, origin;

static void check(ucs_status_t status, const char *what)
{
	if (status == UCS_OK)
		return;
	printf("FAILED: %s: %s\n", what, ucs_status_string(status));
	exit(1);
}

static void side_open(struct side *side)
{
	ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_RMA | UCP_FEATURE_AMO64};
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

static struct region map(struct side *owner)
{
	struct region region = {.owner = owner};
	ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
				       .length = BYTES};

	region.words = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	params.address = region.words;
	check(region.words == MAP_FAILED ? UCS_ERR_NO_MEMORY : UCS_OK, "mmap");
	check(ucp_mem_map(owner->context, &params, &region.memh), "ucp_mem_map");
	return region;
}

static ucs_status_t finish(ucs_status_ptr_t request)
{
	ucs_status_t status;

	if (!UCS_PTR_IS_PTR(request))
		return UCS_PTR_STATUS(request);
	while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
		ucp_worker_progress(origin.worker);
		ucp_worker_progress(target.worker);
	}
	ucp_request_free(request);
	return status;
}

static void on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
	*(ucs_status_t *)arg = status;
}

enum access { PUT, GET, ADD };

static ucs_status_ptr_t start(enum access access, ucp_ep_h ep, uint64_t *local, uint64_t remote, ucp_rkey_h rkey)
{
	ucp_request_param_t param = {0},
			    word = {.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE, .datatype = ucp_dt_make_contig(8)};

	switch (access) {
	case PUT:
		return ucp_put_nbx(ep, local, BYTES, remote, rkey, &param);
	case GET:
		return ucp_get_nbx(ep, local, BYTES, remote, rkey, &param);
	default:
		return ucp_atomic_op_nbx(ep, UCP_ATOMIC_OP_ADD, local, 1, remote, rkey, &word);
	}
}

/** Access a region of the target with the key of `key`, on an endpoint of its own. @return how that ended. The endpoint
 *  has a handler of errors, but not the mode of handling them in which UCX 1.18 accesses memory in software. */
static ucs_status_t try(enum access access, const struct region *to, const struct region *key, uint64_t *local)
{
	ucs_status_t failure = UCS_OK, status;
	ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
						UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER,
				  .err_mode = UCP_ERR_HANDLING_MODE_NONE,
				  .err_handler = {.cb = on_error, .arg = &failure}};
	ucp_request_param_t none = {0},
			    force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
	ucp_address_t *address;
	ucp_rkey_h rkey;
	size_t length;
	void *packed;
	ucp_ep_h ep;

	check(ucp_worker_get_address(target.worker, &address, &length), "ucp_worker_get_address");
	params.address = address;
	check(ucp_ep_create(origin.worker, &params, &ep), "ucp_ep_create");
	check(ucp_rkey_pack(key->owner->context, key->memh, &packed, &length), "ucp_rkey_pack");
	check(ucp_ep_rkey_unpack(ep, packed, &rkey), "ucp_ep_rkey_unpack");
	status = finish(start(access, ep, local, (uintptr_t)to->words, rkey));
	if (!status)
		status = finish(ucp_ep_flush_nbx(ep, &none));
	ucp_rkey_destroy(rkey);
	ucp_rkey_buffer_release(packed);
	finish(ucp_ep_close_nbx(ep, failure || status ? &force : &none));
	ucp_worker_release_address(target.worker, address);
	return failure ? failure : status;
}

/** As try(), and print how it ended. @return whether the data agree with that. */
static int agrees(enum access access, const struct region *to, const char *whose, const struct region *key)
{
	static const char *const names[] = {"PUT", "GET", "ADD"};
	uint64_t local[WORDS], remote_before[WORDS], local_before[WORDS];
	ucs_status_t status;
	int moved, kept;

	for (unsigned i = 0; i < WORDS; i++) {
		remote_before[i] = to->words[i] = i + 1;
		local_before[i] = local[i] = 1000 * (i + 1);
	}
	status = try(access, to, key, local);
	printf("%s, %s key: %s\n", names[access], whose, ucs_status_string(status));
	if (access == GET)
		moved = !memcmp(local, remote_before, BYTES);
	else if (access == PUT)
		moved = !memcmp(to->words, local_before, BYTES);
	else
		moved = to->words[0] == remote_before[0] + local_before[0];
	kept = !memcmp(to->words, remote_before, BYTES) && !memcmp(local, local_before, BYTES);
	if (status ? kept : moved)
		return 1;
	printf("FAILED: the data do not agree with that\n");
	return 0;
}

int main(int argc, char *argv[])
{
	struct region region, other, foreign, closed;
	uint64_t local[WORDS] = {0};
	int good = 1;

	if (argc != 2) {
		fprintf(stderr, "usage: ucx_keys SETTING\n");
		return 2;
	}
	side_open(&target);
	setenv("UROCE_UCX_ONE_KEY", argv[1], 1);
	side_open(&origin);
	region = map(&target);
	other = map(&target);
	closed = map(&target);
	foreign = map(&origin);
	for (enum access access = PUT; access <= ADD; access++) {
		good &= agrees(access, &region, "its own", &region);
		good &= agrees(access, &region, "another region's", &other);
		good &= agrees(access, &region, "the origin's", &foreign);
	}
	mprotect(closed.words, BYTES, PROT_READ);
	printf("PUT, read-only memory: %s\n", ucs_status_string(try(PUT, &closed, &closed, local)));
	munmap(closed.words, BYTES);
	printf("PUT, unmapped memory: %s\n", ucs_status_string(try(PUT, &closed, &closed, local)));
	check(ucp_mem_unmap(target.context, region.memh), "ucp_mem_unmap");
	check(ucp_mem_unmap(target.context, other.memh), "ucp_mem_unmap");
	check(ucp_mem_unmap(target.context, closed.memh), "ucp_mem_unmap");
	check(ucp_mem_unmap(origin.context, foreign.memh), "ucp_mem_unmap");
	side_close(&origin);
	side_close(&target);
	return good ? 0 : 1;
}
