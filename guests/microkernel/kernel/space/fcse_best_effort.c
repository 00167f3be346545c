// FCSE, best effort (FCSE paper, section 4.2): any number of spaces of any size. Spaces share PIDs in
// groups, large ones live in slot 0, and the caches are flushed at a switch only when lines of two
// spaces could meet.
//
// A space takes the fast path of IPC while a switch from it or to it cannot need a
// flush: it ran last in its group since the last flush, has no page above 32 MB, and has written to no
// shared page. Whatever ends one of these takes the fast path away; that another space of its group runs
// needs no thought, since that flushes first.
#include "../maintenance.h"
#include "fcse.h"

// A group: the spaces with one PID.
static struct group {
	struct space *last; // which of them ran last
	bool dirty;         // one of them has run since the caches were last flushed
} groups[FCSE_PIDS];
static u32 users[FCSE_PIDS];

static void start(void)
{
	core_set_domains(DOMAIN_CLIENT(0) | DOMAIN_CLIENT(FCSE_DOMAIN));
}

static bool create(struct space *space)
{
	space->pid = pid_least_used(users, fcse_pids());
	users[space->pid]++;
	return true;
}

static u32 pid_users(u32 pid)
{
	return pid < FCSE_PIDS ? users[pid] : 0;
}

// Its pages have been flushed one by one, so that it left no line in its group, and a new space that gets
// the same record is not taken for it.
static void destroy(struct space *space)
{
	struct group *group = &groups[space->pid];
	users[space->pid]--;
	if (group->last == space)
		MAINTENANCE(FCSE_LAST_USER_FORGOTTEN, { group->last = 0; group->dirty = false; });
}

static void flush(const struct flush_names *names)
{
	flush_caches(names);
	for (u32 i = 0; i < FCSE_PIDS; i++) {
		struct group *group = &groups[i];
		if (!group->dirty)
			continue;
		MAINTENANCE(FCSE_CLEAN, group->dirty = false);
		if (group->last)
			MAINTENANCE(FCSE_FAST_FLUSHED, space_set_fast_switch(group->last, 0));
	}
}

// Lines of the space may be cached from now on.
static void ran(struct space *space)
{
	struct group *group = &groups[space->pid];
	MAINTENANCE(FCSE_LAST_USER, group->last = space);
	MAINTENANCE(FCSE_DIRTY, group->dirty = true);
	MAINTENANCE(FCSE_RAN, space->fcse.epoch = cache_epoch);
	if (!space->fast_switch && !space->fcse.pages_above && !space->fcse.written_shared)
		space_set_fast_switch(space, space->directory);
}

static void switch_to(struct space *previous, struct space *next)
{
	struct group *group = &groups[next->pid];
	bool reused = group->last != next && group->dirty;
	bool written = previous && previous->fcse.written_shared;
	bool large = (previous && previous->fcse.pages_above) || next->fcse.pages_above;
	if (reused || written || large)
		flush(FLUSH_NAMES(FCSE_REUSED));
	ran(next);
	core_set_directory(next->directory);
	MAINTENANCE(FCSE_TRANSLATIONS, core->invalidate_tlb());
	core_set_pid(next->pid);
}

// A page at or above 32 MB makes the space large: it moves to slot 0, where no relocation hides the
// upper addresses' own slots from it. In slot 0 it may have shrunk since: then it was switched to without a
// flush, and if it runs on, others' lines are where its page will be.
static bool admit(struct space *space, u32 address)
{
	if (address < SLOT_BYTES || (!space->pid && (space->fcse.pages_above || space != cpu.active)))
		return true;
	flush(FLUSH_NAMES(FCSE_GROW)); // and its lines are at its old slot's addresses
	if (space->pid) {
		counters[COUNT_GROWN]++;
		destroy(space);
		space_move(space);
		users[0]++;
	}
	flush_translations(FCSE_GROW_TRANSLATIONS);
	core_set_pid(cpu.active->pid);
	MAINTENANCE(FCSE_RAN_AGAIN, ran(cpu.active)); // whoever asked continues without a switch
	return true;
}

// Copies in different spaces never meet, since the writer's switch flushes; in one space they would.
static bool uncached(const struct uses *uses)
{
	return uses->alias_in_space;
}

static bool in_cache(struct space *space)
{
	return space->fcse.epoch == cache_epoch;
}

// A space that has written shared pages, or pages above 32 MB, must be looked at on every switch.
static void count_above(struct space *space, int change)
{
	MAINTENANCE(FCSE_PAGES_ABOVE, space->fcse.pages_above += change);
	MAINTENANCE(FCSE_FAST_COUNTED, space_set_fast_switch(space, 0));
}

static void count_written(struct space *space, int change)
{
	MAINTENANCE(FCSE_WRITTEN_SHARED, space->fcse.written_shared += change);
	MAINTENANCE(FCSE_FAST_COUNTED, space_set_fast_switch(space, 0));
}

const struct scheme scheme_fcse_best_effort = {
	.name = "fcse_best_effort",
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
	.count_above = count_above,
	.count_written = count_written,
	.fast_path = enter_fcse,
};
