// FCSE, guaranteed mode (FCSE paper, section 4.1): every space has a slot of 32 MB of the modified
// addresses to itself, so lines of different spaces never meet and no switch flushes a cache. The price:
// no more spaces than slots, nothing at or above 32 MB, and no cached writable sharing.
#include "../maintenance.h"
#include "fcse.h"

static bool taken[FCSE_PIDS];

static void start(void)
{
	core_set_domains(DOMAIN_CLIENT(0) | DOMAIN_CLIENT(FCSE_DOMAIN));
}

static bool create(struct space *space)
{
	for (u32 tried = 1; tried <= fcse_pids(); tried++) {
		u32 pid = tried < fcse_pids() ? tried : 0; // 0, which is not relocated, last
		if (taken[pid])
			continue;
		taken[pid] = true;
		space->pid = pid;
		return true;
	}
	return false;
}

static u32 pid_users(u32 pid)
{
	return pid < FCSE_PIDS && taken[pid];
}

// Its pages' lines have been flushed one by one, so that the slot may be given away again.
static void destroy(struct space *space)
{
	taken[space->pid] = false;
}

static void switch_to(struct space *previous, struct space *next)
{
	(void)previous;
	core_set_directory(next->directory);
	MAINTENANCE(FCSE_TRANSLATIONS, core->invalidate_tlb());
	core_set_pid(next->pid);
	if (!next->fast_switch)
		space_set_fast_switch(next, next->directory); // from now on the fast path may switch to it
	MAINTENANCE(FCSE_GUARANTEED_RAN, next->fcse.epoch = cache_epoch);
}

static bool admit(struct space *space, u32 address)
{
	(void)space;
	return address < SLOT_BYTES;
}

// Two spaces that share a page have it at two modified addresses, hence in two lines.
static bool uncached(const struct uses *uses)
{
	return uses->many_mappings;
}

// Its lines stay until they are evicted or flushed page by page: nothing else ever empties the caches.
static bool in_cache(struct space *space)
{
	return space->fcse.epoch;
}

const struct scheme scheme_fcse_guaranteed = {
	.name = "fcse_guaranteed",
	.start = start,
	.create = create,
	.pid_users = pid_users,
	.destroy = destroy,
	.switch_to = switch_to,
	.fault = fcse_fault,
	.admit = admit,
	.uncached = uncached,
	.in_cache = in_cache,
	.in_tlb = fcse_in_tlb,
	.directory_changed = fcse_directory_changed,
	.fast_path = enter_fcse,
};
