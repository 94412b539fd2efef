/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_exp_absent.h - experimental verbs that uroce does not support; part of verbs_exp.h. They are declared so that
 * programs compile, get ENOSYS at run time, and continue without the feature. Absent features: dynamically connected
 * transport, flow steering, user memory regions, shared regions, prefetching, receive work queues, resource domains,
 * accelerated interfaces, tag matching, clocks, opening with attributes.
 */
#ifndef UROCE_INFINIBAND_VERBS_EXP_ABSENT_H
#define UROCE_INFINIBAND_VERBS_EXP_ABSENT_H

BEGIN_C_DECLS

/* ---- dynamically connected transport ----------------------------------------------------------------- */

enum ibv_exp_dct_init_attr_comp_mask { IBV_EXP_DCT_INIT_ATTR_RESERVED = 1 << 0 };
enum ibv_exp_dct_attr_comp_mask { IBV_EXP_DCT_ATTR_RESERVED = 1 << 0 };
enum ibv_exp_arm_attr_comp_mask { IBV_EXP_ARM_ATTR_RESERVED = 1 << 0 };

enum ibv_exp_dct_create_flags {
	IBV_EXP_DCT_OOO_RW_DATA_PLACEMENT = 1 << 0,
	IBV_EXP_DCT_CREATE_FLAGS_MASK = IBV_EXP_DCT_OOO_RW_DATA_PLACEMENT,
};

enum { IBV_EXP_DCT_STATE_ACTIVE, IBV_EXP_DCT_STATE_DRAINING, IBV_EXP_DCT_STATE_DRAINED };

struct ibv_exp_dct_init_attr {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	uint64_t dc_key;
	uint8_t port;
	uint32_t access_flags;
	uint8_t min_rnr_timer;
	uint8_t tclass;
	uint32_t flow_label;
	enum ibv_mtu mtu;
	uint8_t pkey_index;
	uint8_t gid_index;
	uint8_t hop_limit;
	uint32_t inline_size;
	uint32_t create_flags;
	uint32_t comp_mask;
};

struct ibv_exp_dct_attr {
	uint64_t dc_key;
	uint8_t port;
	uint32_t access_flags;
	uint8_t min_rnr_timer;
	uint8_t tclass;
	uint32_t flow_label;
	enum ibv_mtu mtu;
	uint8_t pkey_index;
	uint8_t gid_index;
	uint8_t hop_limit;
	uint32_t key_violations;
	uint8_t state;
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	struct ibv_pd *pd;
	uint32_t comp_mask;
};

struct ibv_exp_arm_attr {
	uint32_t comp_mask;
};

struct ibv_exp_dct {
	struct ibv_context *context;
	uint32_t handle;
	uint32_t dct_num;
	struct ibv_pd *pd;
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
};

enum { IBV_EXP_NUM_DC_INFO_LIDS = 30 };

struct ibv_exp_dc_info_ent {
	uint16_t lid[IBV_EXP_NUM_DC_INFO_LIDS];
	uint32_t seqnum;
};

static inline struct ibv_exp_dct *ibv_exp_create_dct(struct ibv_context *context, struct ibv_exp_dct_init_attr *attr)
{
	(void)context;
	(void)attr;
	return (struct ibv_exp_dct *)ibv_exp_null_(ENOSYS);
}

static inline int ibv_exp_destroy_dct(struct ibv_exp_dct *dct)
{
	(void)dct;
	return ibv_exp_no_(ENOSYS);
}

static inline int ibv_exp_query_dct(struct ibv_exp_dct *dct, struct ibv_exp_dct_attr *attr)
{
	(void)dct;
	(void)attr;
	return ibv_exp_no_(ENOSYS);
}

static inline int ibv_exp_arm_dct(struct ibv_exp_dct *dct, struct ibv_exp_arm_attr *attr)
{
	(void)dct;
	(void)attr;
	return ibv_exp_no_(ENOSYS);
}

/** @return -1 */
static inline int ibv_exp_poll_dc_info(struct ibv_context *context, struct ibv_exp_dc_info_ent *ents, int nent,
				       int port)
{
	(void)context;
	(void)ents;
	(void)nent;
	(void)port;
	errno = ENOSYS;
	return -1;
}

/* ---- flow steering ----------------------------------------------------------------------------------- */

enum ibv_exp_flow_flags { IBV_EXP_FLOW_ATTR_FLAGS_ALLOW_LOOP_BACK = 1 };

enum ibv_exp_flow_attr_type {
	IBV_EXP_FLOW_ATTR_NORMAL,
	IBV_EXP_FLOW_ATTR_ALL_DEFAULT,
	IBV_EXP_FLOW_ATTR_MC_DEFAULT,
	IBV_EXP_FLOW_ATTR_SNIFFER,
};

enum ibv_exp_flow_spec_type {
	IBV_EXP_FLOW_SPEC_ETH = 0x20,
	IBV_EXP_FLOW_SPEC_IB = 0x21,
	IBV_EXP_FLOW_SPEC_IPV4 = 0x30,
	IBV_EXP_FLOW_SPEC_IPV6 = 0x31,
	IBV_EXP_FLOW_SPEC_IPV4_EXT = 0x32,
	IBV_EXP_FLOW_SPEC_IPV6_EXT = 0x33,
	IBV_EXP_FLOW_SPEC_TCP = 0x40,
	IBV_EXP_FLOW_SPEC_UDP = 0x41,
	IBV_EXP_FLOW_SPEC_VXLAN_TUNNEL = 0x50,
	IBV_EXP_FLOW_SPEC_INNER = 0x100,
	IBV_EXP_FLOW_SPEC_ACTION_TAG = 0x1000,
	IBV_EXP_FLOW_SPEC_ACTION_DROP = 0x1001,
};

struct ibv_exp_flow_eth_filter {
	uint8_t dst_mac[6];
	uint8_t src_mac[6];
	uint16_t ether_type;
	uint16_t vlan_tag;
};

struct ibv_exp_flow_spec_eth {
	enum ibv_exp_flow_spec_type type;
	uint16_t size;
	struct ibv_exp_flow_eth_filter val;
	struct ibv_exp_flow_eth_filter mask;
};

struct ibv_exp_flow_ib_filter {
	uint32_t qpn;
	uint8_t dst_gid[16];
};

struct ibv_exp_flow_spec_ib {
	enum ibv_exp_flow_spec_type type;
	uint16_t size;
	struct ibv_exp_flow_ib_filter val;
	struct ibv_exp_flow_ib_filter mask;
};

struct ibv_exp_flow_ipv4_filter {
	uint32_t src_ip;
	uint32_t dst_ip;
};

struct ibv_exp_flow_spec_ipv4 {
	enum ibv_exp_flow_spec_type type;
	uint16_t size;
	struct ibv_exp_flow_ipv4_filter val;
	struct ibv_exp_flow_ipv4_filter mask;
};

struct ibv_exp_flow_ipv4_ext_filter {
	uint32_t src_ip;
	uint32_t dst_ip;
	uint8_t proto;
	uint8_t tos;
	uint8_t ttl;
	uint8_t flags;
};

struct ibv_exp_flow_spec_ipv4_ext {
	enum ibv_exp_flow_spec_type type;
	uint16_t size;
	struct ibv_exp_flow_ipv4_ext_filter val;
	struct ibv_exp_flow_ipv4_ext_filter mask;
};

struct ibv_exp_flow_ipv6_filter {
	uint8_t src_ip[16];
	uint8_t dst_ip[16];
};

struct ibv_exp_flow_spec_ipv6 {
	enum ibv_exp_flow_spec_type type;
	uint16_t size;
	struct ibv_exp_flow_ipv6_filter val;
	struct ibv_exp_flow_ipv6_filter mask;
};

struct ibv_exp_flow_ipv6_ext_filter {
	uint8_t src_ip[16];
	uint8_t dst_ip[16];
	uint32_t flow_label;
	uint8_t next_hdr;
	uint8_t traffic_class;
	uint8_t hop_limit;
};

struct ibv_exp_flow_spec_ipv6_ext {
	enum ibv_exp_flow_spec_type type;
	uint16_t size;
	struct ibv_exp_flow_ipv6_ext_filter val;
	struct ibv_exp_flow_ipv6_ext_filter mask;
};

struct ibv_exp_flow_tcp_udp_filter {
	uint16_t dst_port;
	uint16_t src_port;
};

struct ibv_exp_flow_spec_tcp_udp {
	enum ibv_exp_flow_spec_type type;
	uint16_t size;
	struct ibv_exp_flow_tcp_udp_filter val;
	struct ibv_exp_flow_tcp_udp_filter mask;
};

struct ibv_exp_flow_tunnel_filter {
	uint32_t tunnel_id;
};

struct ibv_exp_flow_spec_tunnel {
	enum ibv_exp_flow_spec_type type;
	uint16_t size;
	struct ibv_exp_flow_tunnel_filter val;
	struct ibv_exp_flow_tunnel_filter mask;
};

struct ibv_exp_flow_spec_action_tag {
	enum ibv_exp_flow_spec_type type;
	uint16_t size;
	uint32_t tag_id;
};

struct ibv_exp_flow_spec_action_drop {
	enum ibv_exp_flow_spec_type type;
	uint16_t size;
};

struct ibv_exp_flow_spec {
	union {
		struct {
			uint32_t type;
			uint16_t size;
		} hdr;
		struct ibv_exp_flow_spec_ib ib;
		struct ibv_exp_flow_spec_eth eth;
		struct ibv_exp_flow_spec_ipv4 ipv4;
		struct ibv_exp_flow_spec_ipv4_ext ipv4_ext;
		struct ibv_exp_flow_spec_tcp_udp tcp_udp;
		struct ibv_exp_flow_spec_ipv6 ipv6;
		struct ibv_exp_flow_spec_ipv6_ext ipv6_ext;
		struct ibv_exp_flow_spec_tunnel tunnel;
		struct ibv_exp_flow_spec_action_tag flow_tag;
		struct ibv_exp_flow_spec_action_drop drop;
	};
};

struct ibv_exp_flow_attr {
	enum ibv_exp_flow_attr_type type;
	uint16_t size;
	uint16_t priority;
	uint8_t num_of_specs;
	uint8_t port;
	uint32_t flags;
	uint64_t reserved;
};

struct ibv_exp_flow {
	struct ibv_context *context;
	uint32_t handle;
};

static inline struct ibv_exp_flow *ibv_exp_create_flow(struct ibv_qp *qp, struct ibv_exp_flow_attr *flow)
{
	(void)qp;
	(void)flow;
	return (struct ibv_exp_flow *)ibv_exp_null_(ENOSYS);
}

/** @return -ENOSYS */
static inline int ibv_exp_destroy_flow(struct ibv_exp_flow *flow)
{
	(void)flow;
	return -ENOSYS;
}

/* ---- user memory regions, shared regions, prefetching ------------------------------------------------ */

enum ibv_exp_mr_create_flags {
	IBV_EXP_MR_SIGNATURE_EN = 1 << 0,
	IBV_EXP_MR_INDIRECT_KLMS = 1 << 1,
	IBV_EXP_MR_FIXED_BUFFER_SIZE = 1 << 2,
};

enum ibv_exp_create_mr_in_comp_mask { IBV_EXP_CREATE_MR_IN_RESERVED = 1 << 0 };
enum ibv_exp_mkey_attr_comp_mask { IBV_EXP_MKEY_ATTR_RESERVED = 1 << 0 };
enum ibv_exp_mkey_list_type { IBV_EXP_MKEY_LIST_TYPE_INDIRECT_MR };
enum ibv_exp_alloc_mkey_list_comp_mask { IBV_EXP_MKEY_LIST_CONTAINER_RESERVED = 1 << 0 };
enum ibv_exp_reg_shared_mr_comp_mask { IBV_EXP_REG_SHARED_MR_RESERVED = 1 << 0 };
enum ibv_exp_prefetch_attr_comp_mask { IBV_EXP_PREFETCH_MR_RESERVED = 1 << 0 };
enum ibv_exp_prefetch_attr_flags { IBV_EXP_PREFETCH_WRITE_ACCESS = 1 << 0 };

struct ibv_exp_mr_init_attr {
	uint32_t max_klm_list_size;
	uint32_t create_flags;
	uint64_t exp_access_flags;
};

struct ibv_exp_create_mr_in {
	struct ibv_pd *pd;
	struct ibv_exp_mr_init_attr attr;
	uint32_t comp_mask;
};

struct ibv_exp_mkey_attr {
	uint32_t max_klm_list_size;
	uint32_t comp_mask;
};

struct ibv_exp_mkey_list_container {
	uint32_t max_klm_list_size;
	struct ibv_context *context;
};

struct ibv_exp_mkey_list_container_attr {
	struct ibv_pd *pd;
	uint32_t mkey_list_type;
	uint32_t max_klm_list_size;
	uint32_t comp_mask;
};

struct ibv_exp_reg_shared_mr_in {
	uint32_t mr_handle;
	struct ibv_pd *pd;
	void *addr;
	uint64_t exp_access;
	uint32_t comp_mask;
};

struct ibv_exp_prefetch_attr {
	uint32_t flags;
	void *addr;
	size_t length;
	uint32_t comp_mask;
};

static inline struct ibv_mr *ibv_exp_create_mr(struct ibv_exp_create_mr_in *in)
{
	(void)in;
	return (struct ibv_mr *)ibv_exp_null_(ENOSYS);
}

static inline int ibv_exp_query_mkey(struct ibv_mr *mr, struct ibv_exp_mkey_attr *attr)
{
	(void)mr;
	(void)attr;
	return ibv_exp_no_(ENOSYS);
}

static inline struct ibv_exp_mkey_list_container *
ibv_exp_alloc_mkey_list_memory(struct ibv_exp_mkey_list_container_attr *attr)
{
	(void)attr;
	return (struct ibv_exp_mkey_list_container *)ibv_exp_null_(ENOSYS);
}

static inline int ibv_exp_dealloc_mkey_list_memory(struct ibv_exp_mkey_list_container *mem)
{
	(void)mem;
	return ibv_exp_no_(ENOSYS);
}

static inline struct ibv_mr *ibv_exp_reg_shared_mr(struct ibv_exp_reg_shared_mr_in *in)
{
	(void)in;
	return (struct ibv_mr *)ibv_exp_null_(ENOSYS);
}

static inline int ibv_exp_prefetch_mr(struct ibv_mr *mr, struct ibv_exp_prefetch_attr *attr)
{
	(void)mr;
	(void)attr;
	return ibv_exp_no_(ENOSYS);
}

/* ---- receive work queues ----------------------------------------------------------------------------- */

enum ibv_exp_wq_type { IBV_EXP_WQT_RQ, IBV_EXP_WQT_SRQ };
enum ibv_exp_wq_state { IBV_EXP_WQS_RESET, IBV_EXP_WQS_RDY, IBV_EXP_WQS_ERR, IBV_EXP_WQS_UNKNOWN };
enum ibv_exp_mp_rq_shifts { IBV_EXP_MP_RQ_NO_SHIFT = 0, IBV_EXP_MP_RQ_2BYTES_SHIFT = 1 << 0 };
enum ibv_exp_rx_hash_function_flags { IBV_EXP_RX_HASH_FUNC_TOEPLITZ = 1 << 0, IBV_EXP_RX_HASH_FUNC_XOR = 1 << 1 };
enum ibv_exp_ind_table_init_attr_mask { IBV_EXP_CREATE_IND_TABLE_RESERVED = 1 << 0 };

enum ibv_exp_rx_hash_fields {
	IBV_EXP_RX_HASH_SRC_IPV4 = 1 << 0,
	IBV_EXP_RX_HASH_DST_IPV4 = 1 << 1,
	IBV_EXP_RX_HASH_SRC_IPV6 = 1 << 2,
	IBV_EXP_RX_HASH_DST_IPV6 = 1 << 3,
	IBV_EXP_RX_HASH_SRC_PORT_TCP = 1 << 4,
	IBV_EXP_RX_HASH_DST_PORT_TCP = 1 << 5,
	IBV_EXP_RX_HASH_SRC_PORT_UDP = 1 << 6,
	IBV_EXP_RX_HASH_DST_PORT_UDP = 1 << 7,
};

enum ibv_exp_wq_init_attr_mask {
	IBV_EXP_CREATE_WQ_RES_DOMAIN = 1 << 0,
	IBV_EXP_CREATE_WQ_MP_RQ = 1 << 1,
	IBV_EXP_CREATE_WQ_VLAN_OFFLOADS = 1 << 2,
	IBV_EXP_CREATE_WQ_FLAGS = 1 << 3,
	IBV_EXP_CREATE_WQ_RESERVED = 1 << 4,
};

enum ibv_exp_wq_attr_mask {
	IBV_EXP_WQ_ATTR_STATE = 1 << 0,
	IBV_EXP_WQ_ATTR_CURR_STATE = 1 << 1,
	IBV_EXP_WQ_ATTR_VLAN_OFFLOADS = 1 << 2,
	IBV_EXP_WQ_ATTR_RESERVED = 1 << 3,
};

struct ibv_exp_rx_hash_conf {
	uint8_t rx_hash_function;
	uint8_t rx_hash_key_len;
	uint8_t *rx_hash_key;
	uint64_t rx_hash_fields_mask;
	struct ibv_exp_rwq_ind_table *rwq_ind_tbl;
};

struct ibv_exp_wq {
	struct ibv_context *context;
	void *wq_context;
	uint32_t handle;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	uint32_t wq_num;
	enum ibv_exp_wq_state state;
	enum ibv_exp_wq_type wq_type;
	uint32_t comp_mask;
};

struct ibv_exp_wq_mp_rq {
	enum ibv_exp_mp_rq_shifts use_shift;
	uint8_t single_wqe_log_num_of_strides;
	uint8_t single_stride_log_num_of_bytes;
};

struct ibv_exp_wq_init_attr {
	void *wq_context;
	enum ibv_exp_wq_type wq_type;
	uint32_t max_recv_wr;
	uint32_t max_recv_sge;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	uint32_t comp_mask;
	struct ibv_exp_res_domain *res_domain;
	struct ibv_exp_wq_mp_rq mp_rq;
	uint16_t vlan_offloads;
	uint64_t flags;
};

struct ibv_exp_wq_attr {
	uint32_t attr_mask;
	enum ibv_exp_wq_state wq_state;
	enum ibv_exp_wq_state curr_wq_state;
	uint16_t vlan_offloads;
};

struct ibv_exp_rwq_ind_table {
	struct ibv_context *context;
	struct ibv_pd *pd;
	int ind_tbl_handle;
	int ind_tbl_num;
	uint32_t comp_mask;
};

struct ibv_exp_rwq_ind_table_init_attr {
	struct ibv_pd *pd;
	uint32_t log_ind_tbl_size;
	struct ibv_exp_wq **ind_tbl;
	uint32_t comp_mask;
};

static inline struct ibv_exp_wq *ibv_exp_create_wq(struct ibv_context *context, struct ibv_exp_wq_init_attr *attr)
{
	(void)context;
	(void)attr;
	return (struct ibv_exp_wq *)ibv_exp_null_(ENOSYS);
}

static inline int ibv_exp_modify_wq(struct ibv_exp_wq *wq, struct ibv_exp_wq_attr *attr)
{
	(void)wq;
	(void)attr;
	return ENOSYS;
}

static inline int ibv_exp_destroy_wq(struct ibv_exp_wq *wq)
{
	(void)wq;
	return ENOSYS;
}

static inline struct ibv_exp_rwq_ind_table *ibv_exp_create_rwq_ind_table(struct ibv_context *context,
									 struct ibv_exp_rwq_ind_table_init_attr *attr)
{
	(void)context;
	(void)attr;
	return (struct ibv_exp_rwq_ind_table *)ibv_exp_null_(ENOSYS);
}

static inline int ibv_exp_destroy_rwq_ind_table(struct ibv_exp_rwq_ind_table *table)
{
	(void)table;
	return ENOSYS;
}

/* ---- resource domains, accelerated interfaces -------------------------------------------------------- */

enum ibv_exp_thread_model { IBV_EXP_THREAD_SAFE, IBV_EXP_THREAD_UNSAFE, IBV_EXP_THREAD_SINGLE };

enum ibv_exp_msg_model {
	IBV_EXP_MSG_DEFAULT,
	IBV_EXP_MSG_LOW_LATENCY,
	IBV_EXP_MSG_HIGH_BW,
	IBV_EXP_MSG_FORCE_LOW_LATENCY,
};

enum ibv_exp_res_domain_init_attr_comp_mask {
	IBV_EXP_RES_DOMAIN_THREAD_MODEL = 1 << 0,
	IBV_EXP_RES_DOMAIN_MSG_MODEL = 1 << 1,
	IBV_EXP_RES_DOMAIN_RESERVED = 1 << 2,
};

enum ibv_exp_destroy_res_domain_comp_mask { IBV_EXP_DESTROY_RES_DOMAIN_RESERVED = 1 << 0 };
enum ibv_exp_query_intf_flags { IBV_EXP_QUERY_INTF_FLAG_ENABLE_CHECKS = 1 << 0 };
enum ibv_exp_query_intf_comp_mask { IBV_EXP_QUERY_INTF_RESERVED = 1 << 0 };
enum ibv_exp_release_intf_comp_mask { IBV_EXP_RELEASE_INTF_RESERVED = 1 << 0 };
enum ibv_exp_intf_family { IBV_EXP_INTF_QP_BURST, IBV_EXP_INTF_CQ, IBV_EXP_INTF_WQ, IBV_EXP_INTF_RESERVED };

enum ibv_exp_intf_scope {
	IBV_EXP_INTF_GLOBAL,
	IBV_EXP_INTF_EXPERIMENTAL,
	IBV_EXP_INTF_VENDOR,
	IBV_EXP_INTF_VENDOR_EXPERIMENTAL,
};

enum ibv_exp_query_intf_status {
	IBV_EXP_INTF_STAT_OK,
	IBV_EXP_INTF_STAT_VENDOR_NOT_SUPPORTED,
	IBV_EXP_INTF_STAT_INTF_NOT_SUPPORTED,
	IBV_EXP_INTF_STAT_VERSION_NOT_SUPPORTED,
	IBV_EXP_INTF_STAT_INVAL_PARARM, /* Mellanox OFED spells it like this */
	IBV_EXP_INTF_STAT_INVAL_OBJ_STATE,
	IBV_EXP_INTF_STAT_INVAL_OBJ,
	IBV_EXP_INTF_STAT_FLAGS_NOT_SUPPORTED,
	IBV_EXP_INTF_STAT_FAMILY_FLAGS_NOT_SUPPORTED,
};

enum ibv_exp_qp_burst_family_flags {
	IBV_EXP_QP_BURST_SIGNALED = 1 << 0,
	IBV_EXP_QP_BURST_SOLICITED = 1 << 1,
	IBV_EXP_QP_BURST_IP_CSUM = 1 << 2,
	IBV_EXP_QP_BURST_TUNNEL = 1 << 3,
	IBV_EXP_QP_BURST_FENCE = 1 << 4,
};

struct ibv_exp_res_domain_init_attr {
	uint32_t comp_mask;
	enum ibv_exp_thread_model thread_model;
	enum ibv_exp_msg_model msg_model;
};

struct ibv_exp_destroy_res_domain_attr {
	uint32_t comp_mask;
};

struct ibv_exp_query_intf_params {
	uint32_t flags;
	enum ibv_exp_intf_scope intf_scope;
	uint64_t vendor_guid;
	uint32_t intf;
	uint32_t intf_version;
	void *obj;
	void *family_params;
	uint32_t family_flags;
	uint32_t comp_mask;
};

struct ibv_exp_release_intf_params {
	uint32_t comp_mask;
};

struct ibv_exp_qp_burst_family {
	int (*send_pending)(struct ibv_qp *qp, uint64_t addr, uint32_t length, uint32_t lkey, uint32_t flags);
	int (*send_pending_inline)(struct ibv_qp *qp, void *addr, uint32_t length, uint32_t flags);
	int (*send_pending_sg_list)(struct ibv_qp *qp, struct ibv_sge *sg_list, uint32_t num, uint32_t flags);
	int (*send_flush)(struct ibv_qp *qp);
	int (*send_burst)(struct ibv_qp *qp, struct ibv_sge *msg_list, uint32_t num, uint32_t flags);
	int (*recv_burst)(struct ibv_qp *qp, struct ibv_sge *msg_list, uint32_t num);
};

struct ibv_exp_wq_family {
	int (*recv_sg_list)(struct ibv_exp_wq *wq, struct ibv_sge *sg_list, uint32_t num_sg);
	int (*recv_burst)(struct ibv_exp_wq *wq, struct ibv_sge *msg_list, uint32_t num);
};

struct ibv_exp_cq_family {
	int32_t (*poll_cnt)(struct ibv_cq *cq, uint32_t max);
	int32_t (*poll_length)(struct ibv_cq *cq, void *buf, uint32_t *inl);
	int32_t (*poll_length_flags)(struct ibv_cq *cq, void *buf, uint32_t *inl, uint32_t *flags);
};

static inline struct ibv_exp_res_domain *ibv_exp_create_res_domain(struct ibv_context *context,
								   struct ibv_exp_res_domain_init_attr *attr)
{
	(void)context;
	(void)attr;
	return (struct ibv_exp_res_domain *)ibv_exp_null_(ENOSYS);
}

static inline int ibv_exp_destroy_res_domain(struct ibv_context *context, struct ibv_exp_res_domain *domain,
					     struct ibv_exp_destroy_res_domain_attr *attr)
{
	(void)context;
	(void)domain;
	(void)attr;
	return ibv_exp_no_(ENOSYS);
}

/** @param status out: IBV_EXP_INTF_STAT_INTF_NOT_SUPPORTED; or NULL. @return NULL with errno ENOSYS. */
static inline void *ibv_exp_query_intf(struct ibv_context *context, struct ibv_exp_query_intf_params *params,
				       enum ibv_exp_query_intf_status *status)
{
	(void)context;
	(void)params;
	if (status)
		*status = IBV_EXP_INTF_STAT_INTF_NOT_SUPPORTED;
	return ibv_exp_null_(ENOSYS);
}

static inline int ibv_exp_release_intf(struct ibv_context *context, void *intf,
				       struct ibv_exp_release_intf_params *params)
{
	(void)context;
	(void)intf;
	(void)params;
	return ibv_exp_no_(ENOSYS);
}

/* ---- tag matching, clocks, opening with attributes --------------------------------------------------- */

enum ibv_exp_ops_wr_opcode { IBV_EXP_WR_TAG_ADD, IBV_EXP_WR_TAG_DEL, IBV_EXP_WR_TAG_SYNC };
enum ibv_exp_ops_flags { IBV_EXP_OPS_SIGNALED = 1 << 0, IBV_EXP_OPS_TM_SYNC = 1 << 1 };
enum ibv_exp_clock_info_comp_mask { IBV_EXP_CLOCK_INFO_RESERVED = 1 << 0 };
enum ibv_exp_set_context_attr { IBV_EXP_SET_ATTR_PEER_INFO = 1 << 0, IBV_EXP_SET_CONTEXT_ATTR_RESERVED = 1 << 1 };

enum ibv_exp_values_comp_mask {
	IBV_EXP_VALUES_HW_CLOCK_NS = 1 << 0,
	IBV_EXP_VALUES_HW_CLOCK = 1 << 1,
	IBV_EXP_VALUES_CLOCK_INFO = 1 << 2,
	IBV_EXP_VALUES_RESERVED = 1 << 3,
};

struct ibv_exp_ops_wr {
	uint64_t wr_id;
	struct ibv_exp_ops_wr *next;
	enum ibv_exp_ops_wr_opcode opcode;
	int flags;
	struct {
		uint32_t unexpected_cnt;
		uint32_t handle;
		struct {
			uint64_t recv_wr_id;
			struct ibv_sge *sg_list;
			int num_sge;
			uint64_t tag;
			uint64_t mask;
		} add;
	} tm;
};

struct ibv_exp_clock_info {
	uint64_t cycles;
	uint64_t nsec;
	uint64_t frac;
	uint64_t mask;
	uint32_t shift;
	uint32_t mult;
	uint32_t comp_mask;
};

struct ibv_exp_values {
	uint32_t comp_mask;
	uint64_t hwclock_ns;
	uint64_t hwclock;
	struct ibv_exp_clock_info clock_info;
};

struct ibv_exp_open_device_attr {
	uint32_t comp_mask;
	struct {
		uint64_t peer_id;
		char *peer_name;
	} peer_info;
};

static inline int ibv_exp_post_srq_ops(struct ibv_srq *srq, struct ibv_exp_ops_wr *op, struct ibv_exp_ops_wr **bad_op)
{
	(void)srq;
	*bad_op = op;
	return ENOSYS;
}

/** @return -ENOSYS */
static inline int ibv_exp_query_values(struct ibv_context *context, int q_values, struct ibv_exp_values *values)
{
	(void)context;
	(void)q_values;
	(void)values;
	return -ibv_exp_no_(ENOSYS);
}

static inline struct ibv_context *ibv_exp_open_device(struct ibv_device *device, struct ibv_exp_open_device_attr *attr)
{
	(void)device;
	(void)attr;
	return (struct ibv_context *)ibv_exp_null_(ENOSYS);
}

/** @return -1 */
static inline int ibv_exp_use_priv_env(struct ibv_context *context)
{
	(void)context;
	errno = ENOSYS;
	return -1;
}

END_C_DECLS

#endif
