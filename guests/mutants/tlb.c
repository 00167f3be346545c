/* Translations: table entries that change under the TLB. The pages are uncached, so that nothing
 * but the TLB can be stale. */
#include "machine.h"

void remap_without_invalidate(void)
{
    map(VIEW, PAGE_A, READ_WRITE);
    (void)*(volatile word *)VIEW;
    map(VIEW, PAGE_B, READ_WRITE);
    ONLY_CORRECT(tlb_entry(VIEW));
    use(VIEW);
}

void unmap_without_invalidate(void)
{
    map(VIEW, PAGE_A, READ_WRITE);
    (void)*(volatile word *)VIEW;
    set_entry(COARSE, 0, 0);
    ONLY_CORRECT(dtlb_entry(VIEW));
    use(VIEW);
}

/* Copy-on-write goes wrong like this. */
void downgrade_without_invalidate(void)
{
    map(VIEW, PAGE_A, READ_WRITE);
    (void)*(volatile word *)VIEW;
    map(VIEW, PAGE_A, 0);       /* AP 0 with S = R = 0: no access */
    ONLY_CORRECT(dtlb_entry(VIEW));
    use_store(VIEW, 1);
}

/* The mirror image: the page is open, but the TLB still says no. */
void upgrade_without_invalidate(void)
{
    map(VIEW, PAGE_A, 0);
    map(VIEW + 0x1000, PAGE_B, READ_WRITE);
    (void)*(volatile word *)VIEW;       /* aborts, and loads the entry */
    map(VIEW, PAGE_A, READ_WRITE);
    ONLY_CORRECT(dtlb_entry(VIEW));
    use_store(VIEW, 1);
}

/* The data side was invalidated, but it is code that moved. */
void invalidate_the_wrong_tlb(void)
{
    for (word i = 0; i < 2; i++) {
        ((volatile word *)(UNCACHED + PAGE_A))[i] = return_one[i];
        ((volatile word *)(UNCACHED + PAGE_B))[i] = return_two[i];
    }
    map(VIEW, PAGE_A, READ_WRITE);
    call(VIEW);
    map(VIEW, PAGE_B, READ_WRITE);
    icache_all();
    CORRECT_OR_WRONG(itlb_entry(VIEW), dtlb_entry(VIEW));
    call(VIEW);
}

/* Under FCSE the TLB holds modified virtual addresses. */
void invalidate_by_unmodified_address(void)
{
    word section = SLOT >> 20, address = 0x00080000 + 0x900000;

    set_entry(TABLE, section + 9, COARSE | 0x11);
    set_entry(COARSE, address >> 12 & 255, PAGE_A | READ_WRITE | 2);
    /* The program must stay visible in the other process's window. */
    for (word i = 0; i < 9; i++)
        set_entry(TABLE, section + i, i << 20 | 0xc1e);
    clean_all(1, 1);
    icache_all();
    set_process(1);
    (void)*(volatile word *)address;
    set_entry(COARSE, address >> 12 & 255, PAGE_B | READ_WRITE | 2);
#if CORE == SA1100
    CORRECT_OR_WRONG(dtlb_entry(address | SLOT), dtlb_entry(address | 2 * SLOT));
#else
    CORRECT_OR_WRONG(dtlb_entry(address | SLOT), dtlb_entry(address + 2 * SLOT));
#endif
    use(address);
    clean_all(1, 1);
    set_process(0);
    icache_all();
}

void switch_tables_without_invalidate(void)
{
    map(VIEW, PAGE_A, READ_WRITE);
    (void)*(volatile word *)VIEW;
    set_entry(OTHER_COARSE, 0, PAGE_B | READ_WRITE | 2);
    set_entry(OTHER_TABLE, VIEW >> 20, OTHER_COARSE | 0x11);
    set_table(OTHER_TABLE);
    ONLY_CORRECT(tlb_all());
    use(VIEW);
}

/* A domain gets a new owner, but an entry still carries its number. */
void reuse_domain_without_invalidate(void)
{
    map_section(BIG_VIEW, BIG_A, 3, 5, 0);
    (void)*(volatile word *)BIG_VIEW;
    map_section(BIG_VIEW, BIG_A, 3, 6, 0);      /* now of domain 6, which is closed */
    set_domains(0x55555555 & ~(3 << 12));
    ONLY_CORRECT(dtlb_entry(BIG_VIEW));
    use(BIG_VIEW);
}

void split_section_without_invalidate(void)
{
    map_section(BIG_VIEW, BIG_A, 3, 0, 0);
    (void)*(volatile word *)(BIG_VIEW + 0x1000);
    set_entry(OTHER_COARSE, 1, PAGE_B | READ_WRITE | 2);
    set_entry(TABLE, BIG_VIEW >> 20, OTHER_COARSE | 0x11);
    ONLY_CORRECT(dtlb_entry(BIG_VIEW + 0x1000));
    use(BIG_VIEW + 0x1000);
}

/* A locked entry survives the invalidation of everything. */
void locked_entry_survives(void)
{
    map(VIEW, PAGE_A, READ_WRITE);
#if CORE == ARM926
    /* c10, c0, 0 with P set: the next walk goes to the lockdown part. */
    WRITE_CP15(1, c10, c0, 0);
    (void)*(volatile word *)VIEW;
    WRITE_CP15(0, c10, c0, 0);
#elif CORE == ARM920
    /* Data TLB: victim 0 with P set; then base and victim 1, P clear. */
    dtlb_entry(VIEW);
    WRITE_CP15(1, c10, c0, 0);
    (void)*(volatile word *)VIEW;
    WRITE_CP15(1 << 26 | 1 << 20, c10, c0, 0);
#elif CORE == XSCALE
    WRITE_CP15(VIEW, c10, c8, 0);       /* translate and lock the data TLB entry */
#endif
    map(VIEW, PAGE_B, READ_WRITE);
    tlb_all();
#if CORE == XSCALE
    ONLY_CORRECT(WRITE_CP15(0, c10, c8, 1));    /* unlock, then invalidate again */
    ONLY_CORRECT(tlb_all());
#else
    ONLY_CORRECT(dtlb_entry(VIEW));
#endif
    use(VIEW);
}
