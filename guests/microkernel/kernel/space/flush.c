// The naive kernel: every switch flushes everything, because addresses mean something else afterwards
// and neither lines nor translations say whose they are (StrongARM paper, section 2).
#include "../core/core.h"
#include "../maintenance.h"
#include "space.h"

#define DOMAIN 1

static void start(void)
{
	core_set_domains(DOMAIN_CLIENT(0) | DOMAIN_CLIENT(DOMAIN));
}

static bool create(struct space *space)
{
	(void)space;
	return true;
}

static void destroy(struct space *space)
{
	(void)space;
}

static void switch_to(struct space *previous, struct space *next)
{
	(void)previous;
	flush_caches(FLUSH_NAMES(FLUSH));
	core_set_directory(next->directory);
	MAINTENANCE(FLUSH_TRANSLATIONS, core->invalidate_tlb());
	if (!next->fast_switch)
		space_set_fast_switch(next, next->directory);
}

static bool fault(struct space *space, u32 address)
{
	(void)space, (void)address;
	return false;
}

static bool admit(struct space *space, u32 address)
{
	(void)space, (void)address;
	return true;
}

// Two addresses of one space are two lines; two spaces are kept apart by the flush.
static bool uncached(const struct uses *uses)
{
	return uses->alias_in_space;
}

static bool in_hardware(struct space *space)
{
	return space == cpu.active;
}

static void directory_changed(struct space *space, u32 section)
{
	u32 entry = directory_read(space->directory, section);
	directory_write(space->directory, section, entry | FIRST_DOMAIN(DOMAIN));
}

const struct scheme scheme_flush = {
	.name = "flush",
	.start = start,
	.create = create,
	.destroy = destroy,
	.switch_to = switch_to,
	.fault = fault,
	.admit = admit,
	.uncached = uncached,
	.in_cache = in_hardware,
	.in_tlb = in_hardware,
	.directory_changed = directory_changed,
	.fast_path = enter_flush,
};
