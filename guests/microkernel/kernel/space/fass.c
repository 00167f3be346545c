// Fast address-space switching (StrongARM paper, sections 2.3 and 3.1): domains are address-space tags.
//
// The walker always reads one page directory, the caching page directory (CPD). Each of its entries
// belongs to the space, or shared region, whose domain it carries. A switch loads the DACR, which
// enables the space's domains, and the PID; nothing else. Where the space finds an entry of somebody
// else, the domain faults, and only then is something flushed.
//
// What a slot of the CPD may hold follows from its owner: a space's own domain or a region's domain, and
// then it is that space's or region's entry of this section; or the domain of a destroyed space (a zombie),
// whose tables stay as they are until the next full flush. Whoever changes a space's entry, or attaches it
// to a region, first takes its slot away. invariants.c checks this.
//
// "Dirty" is a domain that was enabled since the last full flush: lines of its pages may be cached.
#include "fass.h"

#include "../core/core.h"
#include "../maintenance.h"

#define PIDS 64 // of the SA-1100; slots 64 and up would lie in the shared area above 2 GB

struct domain domains[DOMAINS] __attribute__((aligned(LINE_BYTES)));
_Static_assert(sizeof *domains == LINE_BYTES / 2, "each is half a line, which is also what is written back");
static unsigned short more[DOMAINS][MORE_SECTIONS];
static u32 users[PIDS];
static u32 turn = DOMAINS - 1; // the domain that was handed out last
u32 free_domains = (1 << DOMAINS) - 2; // a bit for each

static u32 dirty(u32 domain)
{
	return cpu.dirty & DOMAIN_CLIENT(domain);
}

// ---- entries of the CPD ------------------------------------------------------------------------
// The domain of an entry; 0: it is empty, or the kernel's.
static u32 owner(u32 section)
{
	return FIRST_DOMAIN_OF(directory_read(CPD, section));
}

// The i-th of the entries that carry the domain.
unsigned short *fass_owned(u32 domain, u32 i)
{
	return i < FEW_SECTIONS ? &domains[domain].few[i] : &more[domain][i - FEW_SECTIONS];
}

static void own(u32 domain, u32 section, u32 entry)
{
	struct domain *d = &domains[domain];
	if (d->count < FEW_SECTIONS + MORE_SECTIONS)
		*fass_owned(domain, d->count++) = section;
	else
		d->overflow = true;
	directory_write(CPD, section, entry | FIRST_DOMAIN(domain));
}

static void disown(u32 section)
{
	u32 domain = owner(section);
	struct domain *d = &domains[domain];
	for (u32 i = 0; i < d->count; i++)
		if (*fass_owned(domain, i) == section) {
			*fass_owned(domain, i) = *fass_owned(domain, --d->count);
			break;
		}
}

static void clear_slots(u32 domain)
{
	struct domain *d = &domains[domain];
	for (u32 i = 0; i < d->count; i++)
		MAINTENANCE(FASS_RECYCLE_SLOTS, directory_write(CPD, *fass_owned(domain, i), 0));
	if (d->overflow)
		for (u32 section = 0; section < USER_LIMIT >> SECTION_SHIFT; section++)
			if (owner(section) == domain)
				MAINTENANCE(FASS_RECYCLE_SLOTS, directory_write(CPD, section, 0));
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
	free_domains |= 1 << domain;
}

// Whoever runs next is switched to, even if it ran last: its domains are other ones, or dirty from then on.
void fass_switch_again(void)
{
	cpu.active = 0;
}

// Everything is flushed, so every domain is clean, and what waited for that can go.
static void fass_flush(const struct flush_names *caches, u32 translations)
{
	flush_caches(caches);
	MAINTENANCE(translations, core->invalidate_tlb());
	MAINTENANCE(FASS_CLEAN, cpu.dirty = 0);
	for (u32 d = 1; d < DOMAINS; d++)
		if (domains[d].zombie)
			release(d);
	MAINTENANCE(FASS_DIRTY_AGAIN, fass_switch_again());
}

#define FASS_FLUSH(prefix) fass_flush(FLUSH_NAMES(prefix), prefix##_TRANSLATIONS)

static void flush(void)
{
	FASS_FLUSH(FASS_EXHAUSTED);
}

// The space's own domain gives up the section, because it will be a region's.
void fass_leave_section(struct space *space, u32 section)
{
	if (!space->fass.domain)
		return;
	if (dirty(space->fass.domain))
		FASS_FLUSH(FASS_REGION);
	else
		flush_translations(FASS_REGION_TRANSLATIONS);
	if (owner(section) == space->fass.domain) {
		disown(section);
		MAINTENANCE(FASS_REGION_SLOT, directory_write(CPD, section, 0));
	}
}

// The domain's holder loses it; the caches hold no line of it.
static void withdraw(u32 domain)
{
	struct domain *d = &domains[domain];
	if (d->space) {
		d->space->fass.domain = 0;
		MAINTENANCE(FASS_RECYCLE_DACR, space_set_fast_switch(d->space, 0)); // and so off the fast path
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

// Takes the domain from its holder. If that takes a full flush, all spaces but one lose theirs: what they have
// there goes anyway, no translation is left, and the next of them to run finds a domain that is free, with
// neither a flush of the TLB nor a search. Their records are changed first, while they are still cached.
static void recycle(u32 domain, u32 kept)
{
	if (!dirty(domain)) {
		counters[COUNT_RECYCLED_CLEAN]++;
		withdraw_clean(domain);
		return;
	}
	counters[COUNT_RECYCLED_DIRTY]++;
	withdraw(domain);
	for (u32 d = 1; d < DOMAINS; d++)
		if (domains[d].space && d != kept)
			withdraw(d);
	FASS_FLUSH(FASS_RECYCLE);
}

static u32 next_in_turn(void)
{
	turn = turn == DOMAINS - 1 ? 1 : turn + 1;
	return turn;
}

static u32 next_but(u32 kept)
{
	u32 domain = next_in_turn();
	return domain == kept ? next_in_turn() : domain;
}

// Which domain to take from its holder: a clean one, else the next in turn. A region's is the last choice,
// because all its sharers lose it.
static u32 victim(u32 kept)
{
	u32 clean_region = 0;
	for (u32 d = 1; d < DOMAINS; d++)
		if (!dirty(d) && d != kept) {
			if (!domains[d].region)
				return d;
			clean_region = d;
		}
	if (clean_region)
		return clean_region;
	u32 d = next_but(kept);
	return domains[d].region ? next_but(kept) : d;
}

// A domain for somebody. One may be kept from being taken: that of the space that asks for a region's, or that
// ran last. Its other regions' may be taken, so that it may share any number of sections. An instruction needs
// at most three at once, and those come last in the turn.
u32 fass_allocate(u32 kept)
{
	if (!free_domains)
		recycle(victim(kept), kept);
	u32 domain;
	do
		domain = next_in_turn();
	while (!(free_domains & 1 << domain));
	free_domains &= ~(1 << domain);
	return domain;
}

void fass_give(u32 domain, struct region *region)
{
	domains[domain].region = region;
}

// Its holder is gone for good. While lines of it may be cached, it keeps its entries of the CPD, so
// that whoever comes to those addresses collides with it; the flush is put off until then.
void fass_abandon(u32 domain)
{
	if (!dirty(domain) || !enabled(FASS_ZOMBIE)) {
		withdraw_clean(domain);
		return;
	}
	domains[domain].space = 0;
	domains[domain].region = 0;
	domains[domain].zombie = true;
}

// ---- the interface -----------------------------------------------------------------------------
static bool create(struct space *space)
{
	space->pid = pid_least_used(users, PIDS); // spaces with the same PID collide, no worse
	users[space->pid]++;
	return true;
}

static u32 pid_users(u32 pid)
{
	return pid < PIDS ? users[pid] : 0;
}

static void retire(struct space *space)
{
	if (space->fass.domain)
		fass_abandon(space->fass.domain);
	space->fass.domain = 0;
	space_set_fast_switch(space, 0);
}

static void destroy(struct space *space)
{
	users[space->pid]--;
}

// The space enables one more domain, from when it continues.
static void enable(struct space *space, u32 domain)
{
	if (space->fast_switch & DOMAIN_CLIENT(domain))
		return;
	space_set_fast_switch(space, space->fast_switch | DOMAIN_CLIENT(domain));
	fass_switch_again();
}

// The sections that a space used last get their slots back with a new domain, where nobody else has them:
// each saves a fault.
static void remember(struct space *space, u32 section)
{
	for (u32 i = 0; i < RECENT_SECTIONS; i++)
		if (space->fass.recent[i] == section + 1)
			return;
	for (u32 i = RECENT_SECTIONS - 1; i; i--)
		space->fass.recent[i] = space->fass.recent[i - 1];
	space->fass.recent[0] = section + 1;
}

static void fill_recent(struct space *space)
{
	for (u32 i = 0; i < RECENT_SECTIONS && space->fass.recent[i]; i++) {
		u32 section = space->fass.recent[i] - 1;
		u32 entry = owner(section) ? 0 : directory_read(space->directory, section);
		if (entry && !fass_region_at(space, section))
			own(space->fass.domain, section, entry);
	}
}

static void assign(struct space *space, u32 kept)
{
	u32 domain = fass_allocate(kept);
	domains[domain].space = space;
	space->fass.domain = domain;
	space_set_fast_switch(space, DOMAIN_CLIENT(0) | DOMAIN_CLIENT(domain) | fass_regions_domains(space));
	fill_recent(space);
}

// For the fast path, whose receiver's space has no domain. The sender keeps its domain: it will get an answer.
u32 fass_assign(struct thread *receiver)
{
	assign(receiver->space, cpu.current->space->fass.domain);
	return receiver->space->fast_switch;
}

static void switch_to(struct space *previous, struct space *next)
{
	if (!next->fass.domain)
		assign(next, previous ? previous->fass.domain : 0);
	MAINTENANCE(FASS_DIRTY, cpu.dirty |= next->fast_switch);
	core_set_domains(next->fast_switch);
	core_set_pid(next->pid);
}

static bool fault(struct space *space, u32 address)
{
	u32 section = address >> SECTION_SHIFT;
	u32 entry = directory_read(space->directory, section);
	if (!entry)
		return false;
	u32 domain = fass_region_domain(space, section);
	if (!domain)
		domain = space->fass.domain;
	u32 current = owner(section);
	if (current == domain) {
		if (space->fast_switch & DOMAIN_CLIENT(domain))
			return false; // the entry is this space's: the page itself is the reason
		enable(space, domain); // a region that it had lost
		return true;
	}
	if (!current) {
		counters[COUNT_FILLS]++; // a walk that found nothing left nothing in the TLB
	} else {
		counters[COUNT_COLLISIONS]++;
		if (dirty(current))
			FASS_FLUSH(FASS_COLLISION);
		else
			flush_translations(FASS_CLEAN_COLLISION_TRANSLATIONS);
		if (owner(section)) // not a zombie's, which the flush has cleared
			disown(section);
	}
	own(domain, section, entry);
	if (domain == space->fass.domain)
		remember(space, section);
	enable(space, domain);
	return true;
}

// An address in the space's own slot would be a second name of its low addresses: it moves to slot 0.
static bool admit(struct space *space, u32 address)
{
	if (!space->pid || address >> 25 != space->pid)
		return true;
	if (space->fass.domain)
		recycle(space->fass.domain, 0);
	users[space->pid]--;
	users[0]++;
	space_move(space);
	return true;
}

// Lines at the same address are the same lines, whichever space uses them.
static bool uncached(const struct uses *uses)
{
	return uses->many_addresses;
}

static bool in_cache(struct space *space)
{
	u32 mine = fass_regions_domains(space) | (space->fass.domain ? DOMAIN_CLIENT(space->fass.domain) : 0);
	return space->lines_linger || cpu.dirty & mine; // of a dying space until its pages are gone
}

static bool in_tlb(struct space *space)
{
	return space->fass.domain || space->fass.regions; // even if clean: see withdraw_clean()
}

static void directory_changed(struct space *space, u32 section)
{
	fass_region_left(space, section);
	remember(space, section);
}

#define FASS(scheme_name, share, leave)                                                                 \
	{                                                                                          \
		.name = scheme_name, .create = create, .pid_users = pid_users, .retire = retire, \
		.destroy = destroy,                                                                \
		.switch_to = switch_to, .fault = fault, .admit = admit, .uncached = uncached,      \
		.in_cache = in_cache, .in_tlb = in_tlb, .directory_changed = directory_changed,    \
		.lazy_destroy = true, .fast_path = enter_fass, .share_section = share,             \
		.leave_shared = leave, .flush = flush,                                             \
	}

const struct scheme scheme_fass = FASS("fass", 0, 0);
const struct scheme scheme_fass_shared = FASS("fass_shared", fass_share_section, fass_leave_shared);
