/* Data: two views of one page, one view of two pages, and devices. The uncached view stands for a
 * device that reads and writes memory. */
#include "machine.h"

/* Two cached views of a page: the second does not see what the first wrote. */
void synonym(void)
{
    map(VIEW, PAGE_A, READ_WRITE | CACHED);
    map(OTHER_VIEW, PAGE_A, READ_WRITE | CACHED);
    (void)*(volatile word *)VIEW;
    (void)*(volatile word *)OTHER_VIEW;
    put(VIEW, 1);
    ONLY_CORRECT(clean_line(VIEW));
    ONLY_CORRECT(drain());
    ONLY_CORRECT(invalidate_line(OTHER_VIEW));
    use(OTHER_VIEW);
    clean_all(1, 1);
}

/* Another page comes to the address while lines of the first are in the cache. */
void remap_without_clean(void)
{
    map(VIEW, PAGE_A, READ_WRITE | CACHED);
    (void)*(volatile word *)VIEW;
    put(VIEW, 1);
    ONLY_CORRECT(clean_all(1, 1));
    map(VIEW, PAGE_B, READ_WRITE | CACHED);
    tlb_all();
    use(VIEW);
}

/* The device writes, the cache keeps the old line. */
void device_writes_without_invalidate(void)
{
    map(VIEW, PAGE_A, READ_WRITE | CACHED);
    (void)*(volatile word *)VIEW;
    put(UNCACHED + PAGE_A, 1);
    ONLY_CORRECT(invalidate_line(VIEW));
    use(VIEW);
}

/* The device reads, but the newest data is still in the cache. */
void device_reads_without_clean(void)
{
    map(VIEW, PAGE_A, READ_WRITE | CACHED);
    (void)*(volatile word *)VIEW;
    put(VIEW, 1);
    ONLY_CORRECT(clean_line(VIEW));
    ONLY_CORRECT(drain());
    use(UNCACHED + PAGE_A);
    clean_all(1, 1);
}

/* An invalidate where a clean was meant: the data is lost. */
void invalidate_instead_of_clean(void)
{
    map(VIEW, PAGE_A, READ_WRITE | CACHED);
    (void)*(volatile word *)VIEW;
    put(VIEW, 1);
    ONLY_CORRECT(clean_line(VIEW));
    ONLY_CORRECT(drain());
    invalidate_line(VIEW);
    use(VIEW);
}

/* A dirty line of a buffer's neighbour is written back over what the device wrote. */
void late_write_back_over_device(void)
{
    map(VIEW, PAGE_A, READ_WRITE | CACHED);
    (void)*(volatile word *)VIEW;
    put(VIEW, 1);
    ONLY_CORRECT(clean_line(VIEW));
    ONLY_CORRECT(drain());
    ONLY_CORRECT(invalidate_line(VIEW));
    put(UNCACHED + PAGE_A, 2);
    clean_all(1, 1);
    use(UNCACHED + PAGE_A);
}

/* A process ID is given to a new space whose pages are others, and lines of the old one remain. */
void process_id_reused_without_clean(void)
{
    word address = 0x00900000, section = SLOT >> 20;

    for (word i = 0; i < 9; i++)
        set_entry(TABLE, section + i, i << 20 | 0xc1e);
    set_entry(TABLE, section + 9, COARSE | 0x11);
    set_entry(COARSE, 0, PAGE_A | READ_WRITE | CACHED | 2);
    clean_all(1, 1);
    icache_all();
    set_process(1);
    (void)*(volatile word *)address;
    put(address, 1);
    ONLY_CORRECT(clean_all(1, 1));
    set_entry(COARSE, 0, PAGE_B | READ_WRITE | CACHED | 2);
    tlb_all();
    use(address);
    clean_all(1, 1);
    set_process(0);
    icache_all();
}

/* Cleans the address as the program sees it, under a process ID that moves it. */
void clean_by_unmodified_address(void)
{
    word address = 0x00900000, section = SLOT >> 20;

    for (word i = 0; i < 9; i++)
        set_entry(TABLE, section + i, i << 20 | 0xc1e);
    set_entry(TABLE, section + 9, COARSE | 0x11);
    set_entry(COARSE, 0, PAGE_A | READ_WRITE | CACHED | 2);
    clean_all(1, 1);
    icache_all();
    set_process(1);
    (void)*(volatile word *)address;
    put(address, 1);
    clean_all(1, 1);
    set_process(0);
    icache_all();
    (void)*(volatile word *)(SLOT + address);
    put(SLOT + address, 2);
    clean_line(CORRECT_OR_WRONG(SLOT + address, 2 * SLOT + address));
    drain();
    use(UNCACHED + PAGE_A);
    clean_all(1, 1);
}

/* A whole-cache clean that does not reach every line; then a device reads. */
void whole_clean_cut_short(void)
{
    map_section(BIG_VIEW, BIG_A, 3, 0, CACHED);
    for (word offset = 0; offset < 0x2000; offset += 32)
        (void)*(volatile word *)(BIG_VIEW + offset);
    for (word offset = 0; offset < 0x2000; offset += 32)
        put(BIG_VIEW + offset, 1);
#if CORE == ARM920
    CORRECT_OR_WRONG(clean_all(1, 1), clean_all(7, 8));
#else
    CORRECT_OR_WRONG(clean_all(1, 1), clean_all(1, 2));
#endif
    for (word offset = 0; offset < 0x2000; offset += 32)
        use(UNCACHED + BIG_A + offset);
    clean_all(1, 1);
}

#if CORE == SA1100
/* A line fetched ahead into the read buffer, which nobody empties, is written. */
void read_buffer_not_emptied(void)
{
    map(VIEW, PAGE_A, READ_WRITE);
    WRITE_CP15(VIEW, c9, c8, 2);        /* eight words into entry 0 */
    put(UNCACHED + PAGE_A, 1);
    ONLY_CORRECT(WRITE_CP15(0, c9, c0, 0));
    use(VIEW);
}
#endif

#if CORE == SA1100 || CORE == XSCALE
/* Lines of the minicache are written back by reading other addresses of its kind. */
void minicache_not_cleaned(void)
{
#if CORE == SA1100
    word bits = WRITE_THROUGH;          /* C = 1, B = 0 selects the minicache */
#else
    word bits = 0x1000 | 0x8;           /* X = 1, C = 1, B = 0 */
#endif
    map_section(BIG_VIEW, BIG_A, 3, 0, bits);
    map_section(BIG_VIEW + 0x100000, BIG_B, 3, 0, bits);
    WRITE_CP15(0, c8, c7, 0);
    (void)*(volatile word *)BIG_VIEW;
    put(BIG_VIEW, 1);
#ifdef CORRECT
    for (word offset = 0; offset < 4096; offset += 32)
        (void)*(volatile word *)(BIG_VIEW + 0x100000 + offset);
#endif
    clean_all(1, 1);
    use(UNCACHED + BIG_A);
}
#endif

/* A page is mapped to another frame, and its line stays. The section that is mapped later is not to be blamed. */
void remap_without_clean_before_another(void)
{
    map(VIEW, PAGE_A, READ_WRITE | CACHED);
    use(VIEW);
    map(VIEW, PAGE_B, READ_WRITE | CACHED);
    tlb_all();
    put(UNCACHED + TABLE + 4 * ((VIEW >> 20) + 16), BIG_A | 0xc12);
    ONLY_CORRECT(invalidate_line(VIEW));
    use(VIEW);
}
