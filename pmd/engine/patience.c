/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * patience.c - see patience.h.
 */
#include "patience.h"

void patience_init(struct patience *p)
{
	*p = (struct patience){.spin_after = PATIENCE_SPIN_AFTER, .gather_after = PATIENCE_GATHER_AFTER};
}

/** The spin ended without a packet. */
static void spun_in_vain(struct patience *p)
{
	p->spin_ns = 0;
	p->promised = 0;
	if (p->spin_after < PATIENCE_SPIN_MOST)
		p->spin_after *= 2;
}

/** Credit of this wake-up towards spinning, in short sleeps; 0: none. */
static unsigned promise(const struct patience *p, unsigned got, uint64_t now_ns)
{
	if (got >= PATIENCE_BULK)
		return PATIENCE_SPIN_AFTER;
	return now_ns - p->slept_ns < PATIENCE_SHORT_NS;
}

bool patience_spins(struct patience *p, unsigned got, uint64_t now_ns)
{
	bool spins = p->spin_ns != 0;
	unsigned more;

	p->brought += got;
	if (got == 0) {
		if (spins && now_ns >= p->spin_ns)
			spun_in_vain(p);
		return p->spin_ns != 0;
	}
	if (spins) {
		p->spin_after = PATIENCE_SPIN_AFTER; /* the spin paid */
	} else {
		more = promise(p, got, now_ns);
		p->promised = more ? p->promised + more : patience_doubt(p->promised);
		if (p->promised < p->spin_after)
			return false;
		p->gathers = false; /* packets from now on have not gathered */
	}
	p->spin_ns = now_ns + PATIENCE_SPIN_NS;
	return true;
}

bool patience_gathers(struct patience *p)
{
	unsigned brought = p->brought;

	p->brought = 0;
	if (p->gathers && brought >= PATIENCE_WORTH) {
		p->gather_after = PATIENCE_GATHER_AFTER;
		return true;
	}
	if (p->gathers && p->gather_after < PATIENCE_GATHER_MOST)
		p->gather_after *= 2;
	if (p->gathers || brought > PATIENCE_THIN)
		p->thin = 0;
	else
		p->thin += brought > 0; /* a wake-up without packets does not count */
	p->gathers = p->thin >= p->gather_after;
	return p->gathers;
}

void patience_averted(struct patience *p, uint64_t now_ns)
{
	p->slept_ns = now_ns;
	p->thin -= p->thin > 0;
}
