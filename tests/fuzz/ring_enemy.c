/* SPDX-License-Identifier: BSD-3-Clause */
/* ring_enemy.c - see ring_enemy.h. Owns the fuzzer's input and the device's addresses. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ring_enemy.h"

struct nic_gid ring_gids[RING_GIDS];
struct ring_input ring_input;

void ring_gids_set(void)
{
	for (unsigned i = 0; i < RING_GIDS; i++) {
		uint32_t host = (uint32_t)getpid() * RING_GIDS + i;

		ring_gids[i] = (struct nic_gid){{[10] = 0xff, 0xff, 127}};
		for (unsigned at = 0; at < 3; at++)
			ring_gids[i].raw[13 + at] = (uint8_t)(host >> (16 - 8 * at));
		ring_gids[i].raw[13] |= 0x80; /* set a bit to avoid 127.0.0.1, which may be in use */
	}
}

uint8_t ring_byte(void)
{
	if (ring_input.left == 0)
		return 0;
	ring_input.left--;
	return *ring_input.data++;
}

uint32_t ring_word16(void)
{
	uint32_t v = ring_byte();

	return v << 8 | ring_byte();
}

uint32_t enemy_word(uint8_t choice, uint32_t other)
{
	static const uint32_t words[] = {0,
					 1,
					 57,
					 113,
					 RING_PACKET_MAX,
					 RING_PACKET_MAX + 1,
					 RING_SKIP,
					 RING_SKIP - 1,
					 RING_BYTES,
					 64,
					 0x80000000u,
					 NIC_FRAME_MAX};

	return choice < 0xc0 ? words[choice % 12] : other;
}

static uint32_t some_word(void)
{
	uint8_t choice = ring_byte();
	uint32_t high = choice < 0xc0 ? 0 : ring_word16(), low = choice < 0xc0 ? 0 : ring_word16();

	return enemy_word(choice, high << 16 | low);
}

/* ---- packets -------------------------------------------------------------------------------------------- */

/** Write references to payload after an entry's packet, some to invalid memory. @return the length of the entry. */
static uint32_t put_pieces(uint8_t *place)
{
	static uint8_t memory[NIC_REFERENCE_MAX];
	uint8_t n = ring_byte() % (NIC_PIECES_MAX + 2), choice = 0;
	struct link_piece pieces[NIC_PIECES_MAX + 2];
	uint32_t len = 0;

	for (uint32_t i = 0; i < n; i++) {
		choice = ring_byte();
		pieces[i] = (struct link_piece){(uintptr_t)memory + choice, choice & 1 ? ring_word16() : choice};
		if (choice >= 0xe0)
			pieces[i] = (struct link_piece){(uint64_t)some_word() << 16, some_word()};
		len += pieces[i].len;
	}
	pieces[0].psns = choice == 0xff ? some_word() : (len + 255) / 256;
	memcpy(place + LINK_PIECES_AT, pieces, n * sizeof(pieces[0]));
	return LINK_PIECES_AT + n * (uint32_t)sizeof(struct link_piece);
}

/** Put a packet of the enemy's NIC into the ring, corrupted as the input decides. */
void enemy_sends(struct enemy_link *l, struct nic *nic)
{
	static uint8_t buf[NIC_FRAME_MAX];
	struct nic_tx_frame frame = {.data = buf};
	struct link_forward forward = {
		.sgid = ring_gids[0], .dgid = ring_gids[0], .udp_sport = 0xc000, .hop_limit = 64};
	uint8_t choice = ring_byte(), changes = ring_byte(), *place;
	enum link_kind kind = (enum link_kind)(choice % LINK_KINDS);
	bool refers = kind == LINK_REFERENCE || kind == LINK_REVOKED;
	bool bare = link_is_bare(kind);
	uint32_t head = 0, len, skip, word = kind;

	if (!l->to.memory || nic_tx(nic, &frame, 1, ring_now_ns) != 1 || ring_reserve(&l->to, &place) != 1)
		return;
	if (kind == LINK_FORWARD) {
		forward.flags = ring_byte();
		memcpy(place, &forward, sizeof(forward));
		head = sizeof(forward);
	}
	if (bare)
		word |= choice < 0xf0 ? frame.qpn << LINK_QPN_SHIFT | (uint32_t)frame.addresses << LINK_KIND_BITS
				      : (uint32_t)ring_word16() << LINK_KIND_BITS;
	skip = bare || head ? frame.bth : 0;
	len = frame.len - skip;
	memcpy(place + head, buf + skip, len);
	len += head;
	if (refers)
		len = put_pieces(place);
	for (unsigned i = 0; i < changes % 8 / 2; i++) {
		uint32_t at = ring_word16() % len;

		place[at] = ring_byte();
	}
	if (changes >= 0xf0)
		len = changes & 1 ? some_word() : 1 + ring_word16() % RING_PACKET_MAX;
	ring_commit(&l->to, len, choice < 0xf8 ? word : choice);
}

void enemy_floods(struct enemy_link *l)
{
	uint32_t len = 1 + ring_word16() % RING_PACKET_MAX, kind = ring_byte() % LINK_KINDS;
	uint32_t sender = (uint32_t)ring_word16() << LINK_KIND_BITS;
	uint8_t fill = ring_byte(), *place;

	for (unsigned n = ring_word16() % 4200; n > 0 && l->to.memory && ring_reserve(&l->to, &place) == 1; n--) {
		memset(place, fill, len);
		ring_commit(&l->to, len, link_is_bare(kind) ? kind | sender : kind);
	}
}

void enemy_receives(struct enemy_link *l, struct nic *nic)
{
	for (unsigned n = ring_byte(); n > 0 && l->from.memory; n--) {
		struct nic_rx_frame frame = {.flags = NIC_RX_NO_ICRC};
		const uint8_t *packet;
		uint32_t kind;
		int len = ring_peek(&l->from, &packet, &kind);
		uint8_t *copy;

		if (len <= 0)
			break;
		copy = malloc((size_t)len);
		expect(copy != NULL);
		memcpy(copy, packet, (size_t)len);
		frame.data = copy;
		frame.len = (uint32_t)len;
		if (link_is_bare(kind)) {
			frame.flags |= NIC_RX_BARE;
			frame.src_qpn = kind >> LINK_QPN_SHIFT;
			frame.addresses = kind >> LINK_KIND_BITS & ((1u << NIC_ADDRESSES_BITS) - 1);
		}
		nic_rx(nic, &frame, ring_now_ns);
		free(copy);
		ring_pop(&l->from, (uint32_t)len);
	}
	if (l->from.memory)
		ring_say_head(&l->from);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/** An offset in a ring: of a word of its control page; near `position`, where the enemy will write or read next; or
 * anywhere. */
static uint32_t some_place(uint64_t position)
{
	uint8_t choice = ring_byte();
	uint32_t high;

	switch (choice >> 6) {
	case 0:
		return choice & 1 ? offsetof(struct ring_control, head) : offsetof(struct ring_control, asleep);
	case 1: /* a line up to 32 lines before or after `position` */
		return RING_CONTROL + (uint32_t)((position + (uint64_t)((choice & 63) - 32) * RING_LINE) % RING_BYTES);
	case 2:
		return RING_CONTROL + (uint32_t)((position + (choice & 63)) % (RING_BYTES - 8));
	default:
		high = ring_word16();
		return (high << 8 | ring_byte()) % (RING_MAP_BYTES - 8);
	}
}

void enemy_scribbles(struct enemy_link *l)
{
	uint8_t *memory = l->to.memory ? l->to.memory : l->from.memory;
	uint64_t position = l->to.memory ? l->to.tail : l->from.head;
	uint32_t at = some_place(position), n, value;

	if (!memory)
		return;
	value = some_word();
	memcpy(memory + at, &value, 4);
	if (at == 0) { /* overwrite the head with a position near the correct one */
		position += (uint64_t)(int64_t)(int8_t)ring_byte() * RING_LINE;
		memcpy(memory, &position, ring_byte() & 1 ? 8 : 4);
	}
	for (n = ring_byte() % 64; n > 0 && at + n < RING_MAP_BYTES; n--)
		memory[at + n] = ring_byte();
	if (l->to.memory && ring_byte() == 0xff)
		l->to.tail += RING_LINE * ring_byte();
}

void enemy_resizes(struct enemy_link *l)
{
	bool is_ring = l->to.memory || l->from.memory;
	off_t size = ring_byte() * 4096l;
	int rc;

	if (l->memfd < 0)
		return;
	rc = ftruncate(l->memfd, size);
	expect(!is_ring || ((rc != 0 || size == RING_MAP_BYTES) && lseek(l->memfd, 0, SEEK_END) == RING_MAP_BYTES));
	expect(!is_ring || fallocate(l->memfd, 0, RING_MAP_BYTES, 4096) != 0);
	size = ring_word16() * 16l;
	fallocate(l->memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, size, 1 + ring_word16());
}

/* ---- connections ----------------------------------------------------------------------------- */

/** Make a memfd that is not a valid ring. */
static int bad_ring(uint8_t how)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	expect(fd >= 0 && ftruncate(fd, how & 1 ? RING_MAP_BYTES : RING_CONTROL) == 0);
	if (how & 2)
		expect(fcntl(fd, F_ADD_SEALS,
			     F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | (how & 1 ? F_SEAL_WRITE : 0)) == 0);
	return fd;
}

void enemy_ends(struct enemy_link *l)
{
	if (l->to.memory)
		ring_unmap(l->to.memory);
	if (l->from.memory)
		ring_unmap(l->from.memory);
	if (l->fd >= 0)
		close(l->fd);
	if (l->memfd >= 0)
		close(l->memfd);
	*l = (struct enemy_link){.fd = -1, .memfd = -1};
}

/** Connect from a named socket, which identifies the enemy (ring_engine.c). @return the descriptor, or -1. */
static int named_connect(void)
{
	const struct sockaddr_un some = {.sun_family = AF_UNIX};
	struct proto_name name;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	pmd_name_function(&ring_gids[0], VICTIM, &name);
	expect(fd >= 0 && bind(fd, (const struct sockaddr *)&some, sizeof(some.sun_family)) == 0);
	if (connect(fd, (const struct sockaddr *)&name.sa, name.len) == 0)
		return fd;
	close(fd);
	return -1;
}

void enemy_connects(struct enemy_link *l)
{
	struct proto_link self = {.key = ring_gids[0], .function = ENEMY};
	uint8_t how = ring_byte(), type;
	int fds[2] = {-1, -1};

	enemy_ends(l);
	l->fd = named_connect();
	if (l->fd < 0)
		return;
	if (how < 0xc0) {
		l->memfd = fds[0] = ring_create(&l->to);
		expect(fds[0] >= 0 && links_introduce(l->fd, &l->to, &self) == 0);
		expect(proto_send(l->fd, PROTO_LINK, &self, sizeof(self), fds, 1) == 0);
		return;
	}
	l->memfd = fds[0] = how & 4 ? bad_ring(how) : dup(l->fd);
	fds[1] = dup(fds[0]);
	type = how & 8 ? PROTO_LINK : ring_byte();
	proto_send(l->fd, type, &self, how & 16 ? ring_byte() % sizeof(self) : sizeof(self), fds, how % 3);
	close(fds[1]);
}

void enemy_accepts(struct enemy_link *l, int name_fd)
{
	PROTO_MSG(m);

	enemy_ends(l);
	l->fd = proto_accept(name_fd);
	if (l->fd < 0 || proto_recv(l->fd, &m) != 1)
		return;
	if (!proto_msg_is(&m, PROTO_LINK, sizeof(struct proto_link), 1)) {
		enemy_ends(l); /* not the victim, but a tool: tools connect to every name that they find */
		return;
	}
	l->memfd = proto_msg_take(&m, 0);
	expect(ring_map(&l->from, l->memfd) == 0);
}

void enemy_says(struct enemy_link *l)
{
	uint8_t how = ring_byte(), type;
	char text[64];

	if (l->fd < 0)
		return;
	for (unsigned n = how >> 4; n > 0; n--) {
		memset(text, how, sizeof(text));
		if (how & 1)
			proto_send(l->fd, PROTO_LINK_KNOCK, NULL, 0, NULL, 0);
		else if (how & 2) {
			type = PROTO_LINK + ring_byte() % 4;
			proto_send(l->fd, type, text, how & 8 ? 0 : ring_byte() % sizeof(text), &l->fd, how >> 2 & 1);
		} else
			send(l->fd, text, 1 + ring_byte() % (sizeof(text) - 1), MSG_DONTWAIT | MSG_NOSIGNAL);
	}
	/* The victim may send the enemy only the descriptors of rings: the enemy could misuse others. */
	PROTO_MSG(m);
	if (proto_recv(l->fd, &m) == 1) {
		expect(m.n_fds == 0);
		proto_msg_close(&m);
	}
	if (how == 0x0c) {
		l->over = true;
		shutdown(l->fd, ring_byte() % 3);
	}
}
