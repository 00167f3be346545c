// Fast address-space switching (StrongARM paper, sections 2.3 and 3.1): domains are address-space tags.
//
// The walker always reads one page directory, the caching page directory (CPD). Each of its entries
// belongs to the space, or shared region, whose domain it carries. A switch loads the DACR, which
// enables the space's domains, and the PID; nothing else. Where the space finds an entry of somebody
// else, the domain faults, and only then is something flushed.
//
// "Dirty" is a domain that was enabled since the last full flush: lines of its pages may be cached.
#include "fass.h"

#include "../core/core.h"
#include "../maintenance.h"

#define CPD DIRECTORY_PHYSICAL
#define SECTIONS 4096
#define OWNED 28
#define PIDS 64 // of the SA-1100; slots 64 and up would lie in the shared area above 2 GB

static struct domain {
	struct space *space;    // who has it,
	struct region *region;  // or which shared region
	bool zombie;            // or a destroyed space, whose lines may still be cached
	bool overflow;          // it owns more entries than the list holds
	unsigned short count;
	unsigned short sections[OWNED]; // entries of the CPD that carry it
} domains[DOMAINS];

static unsigned char owner[SECTIONS]; // the domain of each entry of the CPD; 0: empty or the kernel's
static u32 users[PIDS];
static u32 last_victim;

static u32 dirty(u32 domain)
{
	return cpu.dirty & client(domain);
}

// ---- entries of the CPD ------------------------------------------------------------------------
static void own(u32 domain, u32 section, u32 entry)
{
	struct domain *d = &domains[domain];
	owner[section] = domain;
	if (d->count < OWNED)
		d->sections[d->count++] = section;
	else
		d->overflow = true;
	directory_write(CPD, section, entry | domain << 5);
}

static void disown(u32 section)
{
	struct domain *d = &domains[owner[section]];
	for (u32 i = 0; i < d->count; i++)
		if (d->sections[i] == section) {
			d->sections[i] = d->sections[--d->count];
			break;
		}
	owner[section] = 0;
}

static void clear_slot(u32 section)
{
	MAINTENANCE(FASS_RECYCLE_SLOTS, directory_write(CPD, section, 0));
	owner[section] = 0;
}

static void clear_slots(u32 domain)
{
	struct domain *d = &domains[domain];
	for (u32 i = 0; i < d->count; i++)
		clear_slot(d->sections[i]);
	if (d->overflow)
		for (u32 section = 0; section < USER_LIMIT >> 20; section++)
			if (owner[section] == domain)
				clear_slot(section);
	d->count = 0;
	d->overflow = false;
}

// ---- domains -----------------------------------------------------------------------------------
static void release(u32 domain)
{
	clear_slots(domain);
	domains[domain].space = 0;
	domains[domain].region = 0;
	domains[domain].zombie = false;
}

// Everything is flushed, so every domain is clean, and what waited for that can go.
void fass_flush(u32 maintenance)
{
	flush_caches(maintenance);
	MAINTENANCE(maintenance + 2, core->forget_translations());
	MAINTENANCE(FASS_CLEAN, cpu.dirty = 0);
	for (u32 d = 1; d < DOMAINS; d++)
		if (domains[d].zombie)
			release(d);
	MAINTENANCE(FASS_DIRTY_AGAIN, cpu.active = 0); // so that whoever runs next marks its domains dirty
}

static void flush(void)
{
	fass_flush(FASS_EXHAUSTED_DATA);
}

// The domain's holder loses it; the caches hold no line of it.
static void withdraw(u32 domain)
{
	struct domain *d = &domains[domain];
	if (d->space) {
		d->space->domain = 0;
		MAINTENANCE(FASS_RECYCLE_TAG, space_set_tag(d->space, 0)); // and so off the fast path
	}
	if (d->region)
		fass_region_loses_domain(d->region, domain);
	release(domain);
}

// A clean domain has not been enabled since the TLB was flushed, so it seems to have no translations.
// But a space that has it not enabled may have touched an address that its CPD entry maps: the walker
// loads the translation, and only then is the domain checked. docs/microkernel.md has the experiment.
static void withdraw_clean(u32 domain)
{
	withdraw(domain);
	flush_translations(FASS_CLEAN_RECYCLE_TRANSLATIONS);
}

// Takes the domain from its holder.
static void recycle(u32 domain)
{
	if (!dirty(domain)) {
		counters[COUNT_RECYCLED_CLEAN]++;
		withdraw_clean(domain);
		return;
	}
	counters[COUNT_RECYCLED_DIRTY]++;
	fass_flush(FASS_RECYCLE_DATA);
	withdraw(domain);
}

static u32 next_in_turn(u32 kept)
{
	do
		last_victim = last_victim % (DOMAINS - 1) + 1;
	while (kept & client(last_victim));
	return last_victim;
}

// A domain for somebody: a free one, else a clean one, else the next in turn. A region's domain is the
// last choice, because all its sharers lose it. `kept`: not these.
u32 fass_allocate(u32 kept)
{
	for (u32 d = 1; d < DOMAINS; d++)
		if (!domains[d].space && !domains[d].region && !domains[d].zombie)
			return d;
	for (u32 regions = 0; regions < 2; regions++)
		for (u32 d = 1; d < DOMAINS; d++)
			if (!dirty(d) && !(kept & client(d)) && !domains[d].zombie && !!domains[d].region == regions) {
				recycle(d);
				return d;
			}
	u32 victim = next_in_turn(kept);
	if (domains[victim].region)
		victim = next_in_turn(kept);
	recycle(victim);
	return victim;
}

void fass_give(u32 domain, struct region *region)
{
	domains[domain].region = region;
}

// Its holder is gone for good. While lines of it may be cached, it keeps its entries of the CPD, so
// that whoever comes to those addresses collides with it; the flush is put off until then.
void fass_abandon(u32 domain)
{
	if (dirty(domain)) {
		MAINTENANCE(FASS_ZOMBIE, {
			domains[domain].space = 0;
			domains[domain].region = 0;
			domains[domain].zombie = true;
			return;
		});
	}
	withdraw_clean(domain);
}

// ---- the interface -----------------------------------------------------------------------------
static void start(void)
{
	core_set_directory(CPD); // for good
}

static bool create(struct space *space)
{
	u32 best = 1;
	for (u32 pid = 2; pid < PIDS; pid++)
		if (users[pid] < users[best])
			best = pid;
	users[best]++;
	space->pid = best; // spaces with the same PID collide, no worse
	return true;
}

static void leave(struct space *space)
{
	if (space->domain)
		fass_abandon(space->domain);
	fass_regions_leave(space, space->regions);
	users[space->pid]--;
}

static void switch_to(struct space *previous, struct space *next)
{
	(void)previous;
	if (!next->domain) {
		u32 domain = fass_allocate(0);
		domains[domain].space = next;
		next->domain = domain;
		space_set_tag(next, client(0) | client(domain) | fass_regions_domains(next));
		if (next->home_entry && !owner[next->home_section])
			own(domain, next->home_section, next->home_entry); // saves the fault that would do it
	}
	MAINTENANCE(FASS_DIRTY, cpu.dirty |= next->tag);
	core_set_domains(next->tag);
	core_set_pid(next->pid);
}

static bool fault(struct space *space, u32 address)
{
	u32 section = address >> 20;
	u32 entry = directory_read(space->directory, section);
	if (!entry)
		return false;
	u32 domain = fass_region_domain(space, section);
	if (!domain)
		domain = space->domain;
	u32 current = owner[section];
	if (current == domain) {
		if (space->tag & client(domain))
			return false; // the entry is this space's: the page itself is the reason
		space_set_tag(space, space->tag | client(domain)); // a region that it had lost
		cpu.active = 0;
		return true;
	}
	if (!current) {
		counters[COUNT_FILLS]++; // a walk that found nothing left nothing in the TLB
	} else {
		counters[COUNT_COLLISIONS]++;
		if (dirty(current))
			fass_flush(FASS_COLLISION_DATA);
		else
			flush_translations(FASS_CLEAN_COLLISION_TRANSLATIONS);
		if (owner[section]) // not a zombie's, which the flush has cleared
			disown(section);
	}
	own(domain, section, entry);
	if (!(space->tag & client(domain))) {
		space_set_tag(space, space->tag | client(domain));
		cpu.active = 0;
	}
	return true;
}

// An address in the space's own slot would be a second name of its low addresses: it moves to slot 0.
static bool admit(struct space *space, u32 address)
{
	if (!space->pid || address >> 25 != space->pid)
		return true;
	if (space->domain)
		recycle(space->domain);
	users[space->pid]--;
	users[0]++;
	space->home_entry = 0;
	space_move(space, 0);
	return true;
}

// Lines at the same address are the same lines, whichever space uses them.
static bool uncached(const struct uses *uses)
{
	return uses->many_addresses;
}

static bool in_cache(struct space *space)
{
	u32 mine = fass_regions_domains(space) | (space->domain ? client(space->domain) : 0);
	return cpu.dirty & mine;
}

static bool in_tlb(struct space *space)
{
	return space->domain || space->regions; // even if clean: see withdraw_clean()
}

static void directory_changed(struct space *space, u32 section)
{
	fass_region_left(space, section);
	if (!space->home_entry) {
		space->home_section = section;
		space->home_entry = directory_read(space->directory, section);
	}
}

#define FASS(scheme_name, share)                                                                   \
	{                                                                                          \
		.name = scheme_name, .start = start, .create = create, .destroy = leave,           \
		.switch_to = switch_to, .fault = fault, .admit = admit, .uncached = uncached,      \
		.in_cache = in_cache, .in_tlb = in_tlb, .directory_changed = directory_changed,    \
		.lazy_destroy = true, .fast_path = enter_fass, .share_section = share,             \
		.flush = flush,                                                                    \
	}

const struct scheme scheme_fass = FASS("fass", 0);
const struct scheme scheme_fass_shared = FASS("fass_shared", fass_share_section);
