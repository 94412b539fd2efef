/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cm.c - connections of FI_EP_MSG endpoints (fi_cm(3)). The NIC connects, accepts and disconnects (nic_rdm_cm_*). This
 * file checks which calls the application can make in each state, and reports events to the endpoint's event queue. The
 * passive side is in pep.c and request.c.
 *
 * An accepting endpoint uses a port of its own, which is hidden from the application: as with sockets, fi_getname
 * returns the address that the peer connected to.
 */
#include "provider.h"
#include "requests.h"

static bool is_connected_type(const struct ufi_core *core)
{
	return core->type->type == FI_EP_MSG;
}

static struct fid *fid_of(struct ufi_core *core)
{
	return &container_of(core, struct ufi_ep, own)->ep.fid;
}

/* ---- events of the NIC ----------------------------------------------------------------------------------- */

static void tell(struct ufi_core *core, uint32_t event, const void *data, size_t len)
{
	const struct fi_eq_cm_entry entry = {.fid = fid_of(core)};

	if (ufi_eq_put_cm(core->cm.eq, event, &entry, data, len))
		UFI_WARN(EP_CTRL, "no memory to report a connection event\n");
}

static void tell_failure(struct ufi_core *core, int err, const struct nic_rdm_cm_event *e)
{
	struct fi_eq_err_entry error = {
		.fid = fid_of(core),
		.context = fid_of(core)->context,
		.err = err,
		.prov_errno = err,
		.err_data = (void *)(uintptr_t)e->data,
		.err_data_size = e->len,
	};

	if (ufi_eq_put_error(core->cm.eq, &error))
		UFI_WARN(EP_CTRL, "no memory to report a connection event\n");
}

void ufi_cm_event(void *ctx, const struct nic_rdm_cm_event *e)
{
	struct ufi_core *core = ctx;

	if (core->closing)
		return;
	core->cm.state = e->kind == NIC_RDM_CM_CONNECTED ? UFI_CM_CONNECTED : UFI_CM_CLOSED;
	switch (e->kind) {
	case NIC_RDM_CM_CONNECTED:
		tell(core, FI_CONNECTED, e->data, e->len);
		break;
	case NIC_RDM_CM_SHUTDOWN:
		tell(core, FI_SHUTDOWN, NULL, 0);
		break;
	case NIC_RDM_CM_REFUSED:
		tell_failure(core, FI_ECONNREFUSED, e);
		break;
	case NIC_RDM_CM_UNREACHABLE:
		tell_failure(core, FI_ETIMEDOUT, e);
		break;
	case NIC_RDM_CM_NO_MEMORY:
		tell_failure(core, FI_ENOMEM, e);
		break;
	case NIC_RDM_CM_REQUEST: /* reported to passive endpoints only */
		break;
	}
}

/* ---- calls of the application ---------------------------------------------------------------------------- */

/* Check that an endpoint may start to connect or accept, which it may do only once. Engine lock held. @return 0, or the
 * error. */
static int may_begin(const struct ufi_core *core)
{
	switch (core->cm.state) {
	case UFI_CM_NEW:
		return 0;
	case UFI_CM_CONNECTING:
		return -FI_EALREADY;
	case UFI_CM_CONNECTED:
		return -FI_EISCONN;
	default:
		return -FI_EOPBADSTATE;
	}
}

/* Enable the endpoint if necessary, and take the engine lock to start a connection. */
static int begin(struct ufi_core *core, const struct nic_rdm_addr *peer)
{
	int rc = core->rdm ? 0 : ufi_ep_enable(core);

	if (rc)
		return rc;
	pmd_resolve(core->domain->engine, &peer->gid);
	return ufi_enter(core->domain) ? 0 : -FI_EIO;
}

/* Finish what begin() started. @param rc the NIC's result: if 0, the endpoint is now connecting. Releases the engine
 * lock. @return rc. */
static int begun(struct ufi_core *core, const struct nic_rdm_addr *peer, int rc)
{
	if (rc == 0) {
		core->cm.remote = *peer;
		core->cm.state = UFI_CM_CONNECTING;
	}
	return (int)ufi_call_end(core, rc);
}

int ufi_cm_connect(struct fid_ep *fid, const void *addr, const void *param, size_t paramlen)
{
	struct ufi_core *core = ufi_ep_of(fid)->core;
	bool ipv4 = ufi_gid_is_ipv4(&core->addr.gid);
	size_t len = ipv4 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	struct nic_rdm_addr to;
	int rc;

	if (!is_connected_type(core))
		return -FI_EOPNOTSUPP;
	if (core->cm.request || paramlen > NIC_RDM_CM_DATA_MAX || (paramlen && !param) ||
	    !ufi_addr_from_sockaddr(addr, len, &to) || ufi_gid_is_ipv4(&to.gid) != ipv4 || ufi_addr_is_any(&to) ||
	    !to.port)
		return -FI_EINVAL;
	rc = begin(core, &to);
	if (rc)
		return rc;
	rc = may_begin(core);
	if (!rc)
		rc = nic_rdm_cm_connect(core->rdm, &to, param, (uint32_t)paramlen);
	return begun(core, &to, rc);
}

int ufi_cm_accept(struct fid_ep *fid, const void *param, size_t paramlen)
{
	struct ufi_core *core = ufi_ep_of(fid)->core;
	struct nic_rdm_addr from = core->cm.remote;
	int rc;

	if (!is_connected_type(core))
		return -FI_EOPNOTSUPP;
	if (!core->cm.request || paramlen > NIC_RDM_CM_DATA_MAX || (paramlen && !param))
		return -FI_EINVAL;
	rc = begin(core, &from);
	if (rc)
		return rc;
	rc = may_begin(core);
	if (!rc)
		rc = ufi_request_accept(core->cm.request, core->rdm, param, paramlen);
	return begun(core, &from, rc);
}

/* End the connection and tell the peer. If the connection was up and the endpoint does not close, tell the application,
 * too. Called after pmd_settle, which sends the ACKs for received packets: a peer that still waited for an ACK would
 * report a lost connection. Engine lock held. */
static void disconnect(struct ufi_core *core)
{
	bool was_connected = core->cm.state == UFI_CM_CONNECTED;

	core->cm.state = UFI_CM_CLOSED;
	nic_rdm_cm_shutdown(core->rdm);
	if (was_connected && !core->closing)
		tell(core, FI_SHUTDOWN, NULL, 0);
	pmd_doorbell(core->domain->engine);
}

int ufi_cm_shutdown(struct fid_ep *fid, uint64_t flags)
{
	struct ufi_core *core = ufi_ep_of(fid)->core;
	int rc = 0;

	if (!is_connected_type(core))
		return -FI_EOPNOTSUPP;
	if (flags)
		return -FI_EINVAL;
	if (!core->rdm)
		return -FI_ENOTCONN;
	if (!ufi_enter(core->domain))
		return -FI_EIO;
	nic_rdm_no_delay(core->rdm);
	pmd_settle(core->domain->engine);
	if (core->cm.state == UFI_CM_NEW)
		rc = -FI_ENOTCONN;
	else if (core->cm.state != UFI_CM_CLOSED)
		disconnect(core);
	ufi_leave(core->domain);
	return rc;
}

void ufi_cm_close(struct ufi_core *core)
{
	if (core->cm.state == UFI_CM_CONNECTING || core->cm.state == UFI_CM_CONNECTED)
		disconnect(core);
}

int ufi_cm_getpeer(struct fid_ep *fid, void *addr, size_t *addrlen)
{
	struct ufi_core *core = ufi_ep_of(fid)->core;
	bool connected;

	if (!is_connected_type(core))
		return -FI_EOPNOTSUPP;
	if (!addrlen)
		return -FI_EINVAL;
	if (!ufi_enter(core->domain))
		return -FI_EIO;
	connected = core->cm.state == UFI_CM_CONNECTED;
	ufi_leave(core->domain);
	return connected ? ufi_addr_copy_out(&core->cm.remote, addr, addrlen) : -FI_ENOTCONN;
}
