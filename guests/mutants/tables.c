/* Table walks: the new descriptor is somewhere else than in memory when the hardware reads it. */
#include "machine.h"

/* The table is written through a cached view and not cleaned. */
void descriptor_dirty_in_cache(void)
{
    map(VIEW, PAGE_A, READ_WRITE);
    (void)*(volatile word *)COARSE;     /* allocates the line */
    put(COARSE, PAGE_B | READ_WRITE | 2);
    ONLY_CORRECT(clean_line(COARSE));
    ONLY_CORRECT(drain());
    tlb_all();
    use(VIEW);
}

/* The same for the first level. */
void first_level_dirty_in_cache(void)
{
    word *entry = (word *)TABLE + (BIG_VIEW >> 20);

    map_section(BIG_VIEW, BIG_A, 3, 0, 0);
    (void)*(volatile word *)entry;
    put((word)entry, BIG_B | 0xc12);
    ONLY_CORRECT(clean_line((word)entry));
    ONLY_CORRECT(drain());
    tlb_all();
    use(BIG_VIEW);
}

/* The line of the wrong entry is cleaned. */
void clean_of_the_wrong_descriptor(void)
{
    map(VIEW, PAGE_A, READ_WRITE);
    (void)*(volatile word *)COARSE;
    put(COARSE, PAGE_B | READ_WRITE | 2);
    clean_line(CORRECT_OR_WRONG(COARSE, COARSE + 32));
    drain();
    tlb_all();
    use(VIEW);
}

/* The right line is cleaned, but other stores are before it in the write buffer. */
void clean_without_drain(void)
{
    map(VIEW, PAGE_A, READ_WRITE);
    map(OTHER_VIEW, PAGE_B, READ_WRITE | BUFFERED);
    use(VIEW);                          /* its code comes into the cache */
    (void)*(volatile word *)OTHER_VIEW;
    (void)*(volatile word *)COARSE;
    put(COARSE, PAGE_B | READ_WRITE | 2);
    for (word offset = 0; offset < 0x400; offset += 64)
        *(volatile word *)(OTHER_VIEW + offset) = offset;
    clean_line(COARSE);
    ONLY_CORRECT(drain());
    dtlb_entry(VIEW);
    use(VIEW);
}

/* A walk is stale, which is put right; later the entry of the same page is not invalidated. */
void remap_after_stale_walk(void)
{
    map(VIEW, PAGE_A, READ_WRITE);
    (void)*(volatile word *)COARSE;
    put(COARSE, PAGE_B | READ_WRITE | 2);
    ONLY_CORRECT(clean_line(COARSE));
    ONLY_CORRECT(drain());
    use(VIEW);
    clean_line(COARSE);
    drain();
    tlb_all();
    use(VIEW);
    put(COARSE, PAGE_A | READ_WRITE | 2);
    clean_line(COARSE);
    drain();
    ONLY_CORRECT(tlb_all());
    use(VIEW);
}
