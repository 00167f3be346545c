// SPDX-License-Identifier: GPL-2.0-only
/*
 * FASS: one page directory for all spaces, which is the one of the boot, never changes in the
 * register and caches what the spaces' own directories say. Each of its slots (a pair of entries,
 * 2 MB) belongs to one space at a time and carries that space's domain; the domain access control
 * register (DACR) says whose slots may be used. Switching writes DACR and PID: caches and TLB
 * keep what they have.
 *
 * What is not in the directory, or another's, faults and is put there. Caches know nothing of
 * domains: when a slot goes over to another space, the lines of the one that had it must go. The
 * low 32 MB of a space are in slots of its own (by its PID), so this happens only to what is
 * mapped high, and to spaces that share a PID.
 *
 * There are fewer domains than spaces. A space that runs without one takes another's, whose slots
 * become invalid; its lines may stay, since nobody else uses the slots. Slots that a space had are
 * loaded again at once when it gets a domain.
 *
 * Everything here runs with interrupts disabled, on one processor: aborts come so, also in the
 * middle of copies from and to user memory.
 */
#include <linux/mm.h>
#include <linux/sched.h>

#include <asm/address_spaces.h>
#include <asm/cacheflush.h>
#include <asm/domain.h>
#include <asm/mmu_context.h>
#include <asm/pgalloc.h>
#include <asm/tlbflush.h>

#include "fault.h"
#include "spaces.h"

#define DOMAINS		16
/* Those that neither the kernel nor devices nor the vectors use. */
#define USER_DOMAINS	((0xffff & ~(BIT(DOMAIN_KERNEL) | BIT(DOMAIN_IO) | BIT(DOMAIN_VECTORS))))
#define USER_SLOTS	(TASK_SIZE >> PGDIR_SHIFT)
#define NO_SLOT		0xffff

struct domain {
	struct mm_struct *mm;	/* NULL: free, or a region's */
	bool region;		/* spaces share it; it is not taken away */
	u16 first;		/* slots that it has, linked by `next` */
};

/* Together, since a domain is recycled with a cache that has little of all this. */
struct slot {
	const void *holder;	/* the space or region whose lines and TLB entries may be here */
	u16 next;
	u8 domain;		/* 0: the slot is empty */
};

static struct domain domains[DOMAINS] = {
	[0 ... DOMAINS - 1] = { .first = NO_SLOT },
};
static struct slot slots[USER_SLOTS];
static unsigned int victim = 1;

static pmd_t *directory_entry(unsigned int slot)
{
	return (pmd_t *)(swapper_pg_dir + slot);
}

static void empty_entry(unsigned int slot)
{
	pmd_t *entry = directory_entry(slot);

	entry[0] = __pmd(0);
	entry[1] = __pmd(0);
	clean_pmd_entry(entry);
	slots[slot].domain = 0;
}

/* Takes one slot away from the domain that has it. */
static void unlink_slot(unsigned int slot)
{
	u16 *link = &domains[slots[slot].domain].first;

	while (*link != slot)
		link = &slots[*link].next;
	*link = slots[slot].next;
	empty_entry(slot);
}

/* Takes all slots away, and makes it free. */
static void free_domain(struct domain *domain)
{
	unsigned int slot;

	for (slot = domain->first; slot != NO_SLOT; slot = slots[slot].next)
		empty_entry(slot);
	domain->first = NO_SLOT;
	if (domain->mm) {
		domain->mm->context.domain = 0;
		/* The entries of regions are also those of all their sharers. */
		if (!space_regions(domain->mm))
			cpumask_clear_cpu(smp_processor_id(), mm_cpumask(domain->mm));
	}
	domain->mm = NULL;
	domain->region = false;
}

/* The same while there may be TLB entries, which carry the domain's number. */
static void empty_domain(struct domain *domain)
{
	free_domain(domain);
	local_flush_tlb_all();
}

/* The slots of the space's PID are its own, unless it shares the PID. */
static bool is_of_pid(struct mm_struct *mm, unsigned int slot)
{
	return (slot << PGDIR_SHIFT) >> PID_SHIFT == mm->context.pid >> PID_SHIFT;
}

/* Whether TLB entries of another space, or of a region, may be in a slot: of whoever had it last. */
static bool has_entries_of_other(const void *holder, unsigned int slot)
{
	return slots[slot].holder && slots[slot].holder != holder;
}

/* Whether lines of another space, or of a region, may be at the MVAs of a slot. */
static bool has_lines_of_other(const void *holder, unsigned int slot)
{
	const void *other = slots[slot].holder;

	return has_entries_of_other(holder, slot) &&
	       (is_region(other) || space_may_have_lines((struct mm_struct *)other));
}

/* Writes a pair of entries for a space or region; false if they are there already. */
bool fass_put(unsigned int slot, unsigned int domain, pmdval_t first, pmdval_t second,
	      const void *holder)
{
	pmd_t *entry = directory_entry(slot);
	bool was_valid = slots[slot].domain;

	first = (first & ~PMD_DOMAIN_MASK) | PMD_DOMAIN(domain);
	second = (second & ~PMD_DOMAIN_MASK) | PMD_DOMAIN(domain);
	if (pmd_val(entry[0]) == first)
		return false;
	if (has_lines_of_other(holder, slot))
		space_flush_cache();
	if (was_valid)
		unlink_slot(slot);
	entry[0] = __pmd(first);
	entry[1] = __pmd(second);
	flush_pmd_entry(entry);
	/*
	 * A walk fills the TLB before the domain is checked (ARM DDI 0100I, B4.3), so that an access
	 * to another's slot leaves an entry even though it faults. Entries are left, too, of one whose
	 * table went: it may be preempted before it invalidates them.
	 */
	if (has_entries_of_other(holder, slot))
		local_flush_tlb_all();
	slots[slot].holder = holder;
	slots[slot].domain = domain;
	slots[slot].next = domains[domain].first;
	domains[domain].first = slot;
	return true;
}

/* Copies a pair of entries of the space's own directory; false if it is there already, or empty. */
static bool load(struct mm_struct *mm, unsigned long addr)
{
	pmd_t *own = pmd_off(mm, addr);
	unsigned int slot = space_mva(mm, addr) >> PGDIR_SHIFT;

	if (!pmd_val(own[0]) ||
	    !fass_put(slot, mm->context.domain, pmd_val(own[0]), pmd_val(own[1]), mm))
		return false;
	if (!is_of_pid(mm, slot))
		mm->context.spread = true;
	return true;
}

/* A slot that is used now will be used again. */
static void remember(struct mm_struct *mm, unsigned long addr)
{
	unsigned int i;

	for (i = 0; i < mm->context.slots; i++)
		if (mm->context.slot[i] == addr >> PGDIR_SHIFT)
			return;
	if (i < ARRAY_SIZE(mm->context.slot)) {
		mm->context.slot[i] = addr >> PGDIR_SHIFT;
		mm->context.slots++;
	}
}

static void load_remembered(struct mm_struct *mm)
{
	unsigned int i;

	for (i = 0; i < mm->context.slots; i++) {
		unsigned long addr = (unsigned long)mm->context.slot[i] << PGDIR_SHIFT;

		/* Where lines of another would have to go, wait until the slot is used. */
		if (!region_of(mm, addr) &&
		    !has_lines_of_other(mm, space_mva(mm, addr) >> PGDIR_SHIFT))
			load(mm, addr);
	}
}

/* A table of a space is new. It will be used now, so that this spares the fault. */
void space_new_table(struct mm_struct *mm, unsigned long addr)
{
	unsigned long flags;

	if (mm != space_loaded || region_of(mm, addr))
		return;
	local_irq_save(flags);
	if (!has_lines_of_other(mm, space_mva(mm, addr) >> PGDIR_SHIFT)) {
		load(mm, addr);
		remember(mm, addr);
	}
	local_irq_restore(flags);
}

/*
 * A free domain, or one of another space. When many spaces run in turns, whoever ran last is the
 * last to run again, so that its domain is the one to take; and now and then another one, so that
 * spaces that never run do not keep theirs.
 */
static unsigned int give_domain(bool is_switching)
{
	unsigned int last = is_switching ? space_loaded->context.domain : 0;
	unsigned int domain;

	for (domain = 0; domain < DOMAINS; domain++)
		if ((USER_DOMAINS & BIT(domain)) && !domains[domain].mm && !domains[domain].region)
			return domain;
	do {
		/* A shift register of 16 bits with the longest period. */
		victim = (victim >> 1) ^ (victim & 1 ? 0xb400 : 0);
		domain = last && victim >> 12 ? last : victim & (DOMAINS - 1);
	} while (!(USER_DOMAINS & BIT(domain)) || domains[domain].region ||
		 (domains[domain].mm == space_loaded && !is_switching));
	empty_domain(&domains[domain]);
	return domain;
}

unsigned int fass_give_domain_to_region(void)
{
	unsigned int domain = give_domain(false);

	domains[domain].region = true;
	return domain;
}

void fass_take_domain_of_region(unsigned int domain)
{
	empty_domain(&domains[domain]);
}

/* What a space has in a slot goes before a region comes, and a region's lines are gone after it. */
void fass_empty_slot(unsigned int slot)
{
	if (slots[slot].domain) {
		unlink_slot(slot);
		local_flush_tlb_all();
	}
	if (slots[slot].holder && is_region(slots[slot].holder))
		slots[slot].holder = NULL;
}

/* The kernel's domains, the space's own and those of the regions that it shares. */
void fass_write_domains(struct mm_struct *mm)
{
	set_domain(DACR_SPACES | mm->context.region_domains |
		   (mm == &init_mm ? 0 : domain_val(mm->context.domain, DOMAIN_CLIENT)));
}

void fass_switch(struct mm_struct *next)
{
	unsigned long flags;

	local_irq_save(flags);
	if (!next->context.domain && next != &init_mm) {
		unsigned int domain = give_domain(true);

		domains[domain].mm = next;
		next->context.domain = domain;
		load_remembered(next);
	}
	write_pid(next->context.pid);
	fass_write_domains(next);
	space_runs(next);
	local_irq_restore(flags);
}

bool fass_fault(unsigned long addr)
{
	struct mm_struct *mm = current->mm;
	struct region *region;

	if (!mm || addr >= TASK_SIZE || mm != space_loaded)
		return false;
	region = region_of(mm, addr);
	if (region && !regions_leave_for_page_beside(region, mm, addr))
		return regions_load(region, mm, addr);
	/* It has the slot: what is missing is the page. */
	if (slots[space_mva(mm, addr) >> PGDIR_SHIFT].domain == mm->context.domain)
		return false;
	if (!load(mm, addr))
		return false;
	remember(mm, addr);
	return true;
}

/* A table is freed; who frees it invalidates the TLB before the memory is used again. */
void space_forget_table(struct mm_struct *mm, unsigned long addr)
{
	unsigned int slot = space_mva(mm, addr) >> PGDIR_SHIFT;
	unsigned long flags;

	local_irq_save(flags);
	if (mm->context.domain && slots[slot].domain == mm->context.domain)
		unlink_slot(slot);
	local_irq_restore(flags);
}

/*
 * A space ends. Its tables are gone, each from its slot, and after that the TLB was invalidated: no
 * entry has its domain.
 */
void fass_free_tables(struct mm_struct *mm)
{
	unsigned int slot = 0, end = USER_SLOTS;
	unsigned long flags;

	local_irq_save(flags);
	if (mm->context.domain)
		free_domain(&domains[mm->context.domain]);
	if (!mm->context.spread) {
		slot = mm->context.pid >> PGDIR_SHIFT;
		end = slot + (SPACE_LOW_SIZE >> PGDIR_SHIFT);
	}
	for (; slot < end; slot++)
		if (slots[slot].holder == mm)
			slots[slot].holder = NULL;
	local_irq_restore(flags);
}
