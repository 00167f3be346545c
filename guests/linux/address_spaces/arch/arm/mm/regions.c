// SPDX-License-Identifier: GPL-2.0-only
/*
 * FASS with sharing: what several spaces map from the same file at the same address, alone in its
 * slots and with the same permissions, has a domain of its own. The spaces that share it have the
 * domain in their DACR, and find each other's TLB entries and cache lines.
 *
 * The table that the directory has for a region is a copy of entries of its sharers' own tables,
 * made when they fault on them. It is kept as a TLB is: when a space invalidates TLB entries its
 * entries go here too. A space that unmaps or changes a part of the mapping leaves the region first
 * (flush_cache_range() tells), and comes back when it next faults on a page of such a mapping.
 *
 * Private mappings are shared while they cannot be written and have no pages of their own: then
 * all their pages are the file's, the same for all. Others are not cached, as without sharing.
 */
#include <linux/fs.h>
#include <linux/hash.h>
#include <linux/mm.h>

#include <asm/address_spaces.h>
#include <asm/cacheflush.h>
#include <asm/domain.h>
#include <asm/pgalloc.h>
#include <asm/tlbflush.h>

#include "spaces.h"

/* Each takes a domain from the spaces. */
#define REGIONS		4
/* Entries that are copied together, 64 KB of pages, as Linux maps pages of a file around a fault. */
#define TOGETHER	16
/* From FASS_SHARED to what the kernel keeps free below its modules. */
#define SHARED_SLOTS	240

struct region {
	struct address_space *file;
	unsigned long offset, start, end;
	pgprot_t prot;
	bool writable;
	unsigned int sharers;	/* 0: not in use */
	unsigned int domain;
	struct mm_struct *lender[PTRS_PER_PTE];	/* whose entry each one is */
};

static struct region regions[REGIONS];
static u32 tables[REGIONS][PTRS_PER_PTE] __aligned(PTRS_PER_PTE * sizeof(u32));

bool is_region(const void *holder)
{
	return holder >= (void *)regions && holder < (void *)(regions + REGIONS);
}

static struct region *region_at(unsigned long addr)
{
	struct region *region;

	for (region = regions; region < regions + REGIONS; region++)
		if (region->sharers && !((region->start ^ addr) >> PGDIR_SHIFT))
			return region;
	return NULL;
}

static bool shares(struct mm_struct *mm, struct region *region)
{
	return mm->context.regions & BIT(region - regions);
}

struct region *region_that_is_shared(struct mm_struct *mm, unsigned long addr)
{
	struct region *region = region_at(addr);

	return region && shares(mm, region) ? region : NULL;
}

/* ---- the copy of entries ------------------------------------------------------------------- */

static void forget_page(struct region *region, unsigned int page)
{
	u32 *entry = &tables[region - regions][page];

	if (!*entry)
		return;
	*entry = 0;
	clean_dcache_area(entry, sizeof(*entry));
	region->lender[page]->context.region_pages--;
	region->lender[page] = NULL;
}

/* Of all sharers: one that writes must not find again what another lent for reading. */
void regions_invalidate(struct mm_struct *mm, unsigned long start, unsigned long end)
{
	struct region *region;
	unsigned long addr, flags;

	local_irq_save(flags);
	for (region = regions; region < regions + REGIONS; region++)
		if (shares(mm, region))
			for (addr = max(start & PAGE_MASK, region->start); addr < min(end, region->end);
			     addr += PAGE_SIZE)
				forget_page(region, pte_index(addr));
	local_irq_restore(flags);
}

/* What one space lent, to one region or (NULL) to all. */
static void take_back(struct mm_struct *mm, struct region *only)
{
	struct region *region;
	unsigned int page;

	for (region = regions; region < regions + REGIONS; region++)
		for (page = 0; page < PTRS_PER_PTE && mm->context.region_pages; page++)
			if (region->lender[page] == mm && (!only || only == region))
				forget_page(region, page);
}

void regions_take_back(struct mm_struct *mm)
{
	unsigned long flags;

	local_irq_save(flags);
	take_back(mm, NULL);
	local_irq_restore(flags);
}

/* A space's own hardware entry for a page, or NULL where it has no table. */
static u32 *own_entry(struct mm_struct *mm, unsigned long addr)
{
	pmd_t *pmd = pmd_off(mm, addr);

	return pmd_val(*pmd) ? (u32 *)(pte_offset_kernel(pmd, addr) + PTE_HWTABLE_PTRS) : NULL;
}

/*
 * Copies a space's entries around an address, not beyond the mapping: what lies beside it is not
 * shared. False if there is none for the address itself.
 */
static bool lend(struct mm_struct *mm, struct region *region, unsigned long addr)
{
	unsigned int page = pte_index(addr), first = round_down(page, TOGETHER), i;
	unsigned int start = max_t(unsigned int, first, pte_index(region->start));
	unsigned int end = min_t(unsigned int, first + TOGETHER, pte_index(region->end - 1) + 1);
	u32 *table = tables[region - regions], *own = own_entry(mm, addr & PGDIR_MASK);

	if (!own)
		return false;
	for (i = start; i < end; i++)
		if (!table[i] && own[i]) {
			table[i] = own[i];
			region->lender[i] = mm;
			mm->context.region_pages++;
		}
	clean_dcache_area(&table[first], TOGETHER * sizeof(*table));
	/* The access that faulted is tried again at once, and its walk reads memory. */
	drain_write_buffer();
	return table[page];
}

/* A sharer's fault: true if it has only to try again, false if it has to get the page first. */
bool regions_load(struct region *region, struct mm_struct *mm, unsigned long addr)
{
	u32 *table = tables[region - regions];
	pmdval_t first = __pa(table) | user_pmd_table;
	bool put = fass_put(addr >> PGDIR_SHIFT, region->domain, first,
			    first + PTE_HWTABLE_SIZE / 2, region);

	return table[pte_index(addr)] ? put : lend(mm, region, addr) || put;
}

/* ---- who shares ---------------------------------------------------------------------------- */

/* A mapping of a file that is alone in its slot, and whose pages are the file's. */
static bool may_be_shared(struct vm_area_struct *vma)
{
	unsigned long slot = vma->vm_start & PGDIR_MASK;
	struct vm_area_struct *next;

	if (!vma->vm_file || slot < FASS_HIGH || vma->vm_end > slot + PGDIR_SIZE ||
	    (vma->vm_flags & (VM_PFNMAP | VM_MIXEDMAP | VM_IO)))
		return false;
	if (!(vma->vm_flags & VM_MAYSHARE) && ((vma->vm_flags & VM_WRITE) || vma->anon_vma))
		return false;
	if (find_vma(vma->vm_mm, slot) != vma)
		return false;
	next = find_vma(vma->vm_mm, vma->vm_end);
	return !next || next->vm_start >= slot + PGDIR_SIZE;
}

static bool is_mapping_of(struct region *region, struct vm_area_struct *vma)
{
	return may_be_shared(vma) && region->file == vma->vm_file->f_mapping &&
	       region->offset == vma->vm_pgoff && region->start == vma->vm_start &&
	       region->end == vma->vm_end && region->writable == !!(vma->vm_flags & VM_WRITE) &&
	       pgprot_val(region->prot) == pgprot_val(vma->vm_page_prot);
}

static void join(struct mm_struct *mm, struct region *region)
{
	region->sharers++;
	mm->context.regions |= BIT(region - regions);
	mm->context.region_domains |= domain_val(region->domain, DOMAIN_CLIENT);
	cpumask_set_cpu(smp_processor_id(), mm_cpumask(mm));
	if (mm == space_loaded)
		fass_write_domains(mm);
}

static void leave(struct mm_struct *mm, struct region *region)
{
	if (mm->context.region_pages) {
		take_back(mm, region);
		local_flush_tlb_all();
	}
	mm->context.regions &= ~BIT(region - regions);
	mm->context.region_domains &= ~domain_mask(region->domain);
	if (mm == space_loaded)
		fass_write_domains(mm);
	if (--region->sharers)
		return;
	fass_take_domain_of_region(region->domain);
	__cpuc_flush_user_range(region->start, region->end, VM_EXEC);
	fass_empty_slot(region->start >> PGDIR_SHIFT);
}

static struct region *make_region(struct vm_area_struct *vma)
{
	struct region *region;

	for (region = regions; region < regions + REGIONS; region++)
		if (!region->sharers) {
			fass_empty_slot(vma->vm_start >> PGDIR_SHIFT);
			region->file = vma->vm_file->f_mapping;
			region->offset = vma->vm_pgoff;
			region->start = vma->vm_start;
			region->end = vma->vm_end;
			region->prot = vma->vm_page_prot;
			region->writable = vma->vm_flags & VM_WRITE;
			region->domain = fass_give_domain_to_region();
			return region;
		}
	return NULL;
}

/*
 * mremap() moves pages, and remap_pfn_range() makes them, without a word to update_mmu_cache(): a
 * space that has one beside a mapping learns at its first access that the mapping is not alone in
 * its slot any more. True if it has left the region.
 */
bool regions_leave_for_page_beside(struct region *region, struct mm_struct *mm, unsigned long addr)
{
	u32 *own;

	if (addr >= region->start && addr < region->end)
		return false;
	own = own_entry(mm, addr);
	if (!own || !*own)
		return false;
	leave(mm, region);
	return true;
}

/* A space has faulted on a page; here its mapping is known. The lock of the mappings is held. */
void regions_page_mapped(struct vm_area_struct *vma, unsigned long addr)
{
	struct mm_struct *mm = vma->vm_mm;
	struct region *region;
	unsigned long flags;

	if (addr < FASS_HIGH)
		return;
	local_irq_save(flags);
	region = region_at(addr);
	if (region && !is_mapping_of(region, vma)) {
		if (shares(mm, region))
			leave(mm, region);
	} else {
		if (!region && may_be_shared(vma))
			region = make_region(vma);
		if (region && !shares(mm, region))
			join(mm, region);
	}
	local_irq_restore(flags);
}

/* Before a part of a space is unmapped or changed, or the whole ends. */
void regions_leave(struct mm_struct *mm, unsigned long start, unsigned long end)
{
	struct region *region;
	unsigned long flags;

	local_irq_save(flags);
	for (region = regions; region < regions + REGIONS; region++)
		if (shares(mm, region) && start < region->end && end > region->start)
			leave(mm, region);
	local_irq_restore(flags);
}

/* A child has its parent's mappings, less those that it was not to get. */
void regions_forked(struct mm_struct *parent, struct mm_struct *child)
{
	struct region *region;
	unsigned long flags;

	local_irq_save(flags);
	for (region = regions; region < regions + REGIONS; region++) {
		struct vm_area_struct *vma;

		if (!shares(parent, region))
			continue;
		vma = find_vma(child, region->start);
		if (vma && is_mapping_of(region, vma))
			join(child, region);
	}
	local_irq_restore(flags);
}

/*
 * Where a shared mapping goes: to its region, or to a slot that depends on the file, so that all
 * that map it find the same one. The caller looks whether it is free. tmpfs, ramfs and shmat() ask
 * without the mapping's flags: then how the file is open tells whether it may be written.
 */
unsigned long regions_place(struct file *filp, unsigned long pgoff, unsigned long vm_flags)
{
	bool writable = vm_flags ? vm_flags & VM_WRITE : filp->f_mode & FMODE_WRITE;
	struct region *region, *other;
	unsigned long addr;
	unsigned int slot;

	for (region = regions; region < regions + REGIONS; region++)
		if (region->sharers && region->file == filp->f_mapping &&
		    region->offset == pgoff && region->writable == writable)
			return region->start & PGDIR_MASK;
	slot = hash_long((unsigned long)filp->f_mapping ^ pgoff << 1 ^ writable, 16) % SHARED_SLOTS;
	addr = FASS_SHARED + ((unsigned long)slot << PGDIR_SHIFT);
	other = region_at(addr);
	/* A region that is open for writing but mapped for reading: the next one is likely to be, too. */
	if (other && !vm_flags && other->file == filp->f_mapping && other->offset == pgoff)
		return addr;
	return other && addr + 2 * PGDIR_SIZE <= TASK_SIZE ? addr + PGDIR_SIZE : addr;
}
