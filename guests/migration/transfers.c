/* A core takes over TLB entries of another one by version 5 of the interfaces (docs/tlb-migration.md), while that one
 * gives their pages to other frames and invalidates them. Whatever entries come and go, the first core reads each page
 * where it is now. Prints how many reads were wrong, and how many entries were entered.
 */
#include "pages.h"

enum { PAGES = 48, ROUNDS = 120, UNDER_WAY = 1u << 31 };

static volatile word round_begun, entries_asked, remapped, round_done, wrong, entered;

static word address_of(word page)
{
    return MEASURED + page * APART * PAGE;
}

/* In each round every page has the frame that the next page had before; a frame holds its number. */
static word frame_in(word round, word page)
{
    return (page + round) % PAGES;
}

static void map_page(word page, word frame)
{
    word value = frame < PAGES ? FRAMES + frame * PAGE | SMALL_PAGE | NORMAL | READ_WRITE | NOT_GLOBAL : 0;
    set_entry(TABLES, page * APART, value);
}

static void map_all(word round)
{
    for (word page = 0; page < PAGES; page++)
        map_page(page, round ? frame_in(round, page) : PAGES);
    complete();
}

static word read_all(word round)
{
    word others = 0;
    for (word page = 0; page < PAGES; page++)
        others += *(volatile word *)address_of(page) != frame_in(round, page);
    return others;
}

void other(word core)
{
    (void)core;
    for (word round = 1; round <= ROUNDS; round++) {
        word state;
        while (round_begun != round)
            ;
        flush_tlb();
        __asm__ volatile("mcr p15, 3, %0, c15, c10, 0" : : "r"(0) : "memory");
        entries_asked = round;
        while (remapped != round)
            ;
        data_barrier();
        do
            __asm__ volatile("mrc p15, 3, %0, c15, c10, 0" : "=r"(state) : : "memory");
        while (state & UNDER_WAY);
        entered += state;
        wrong += read_all(round + 1);
        data_barrier();
        round_done = round;
    }
}

/* By address, by space, or all at once. */
static void remap(word round)
{
    if (round % 3) {
        map_all(0);
        if (round % 3 == 1)
            tlb_space(SPACE);
        else
            tlb_all();
        complete();
        synchronise();
        map_all(round + 1);
        return;
    }
    for (word turn = 0; turn < PAGES; turn++) {
        /* Backwards it meets the entries that are under way. */
        word page = round % 2 ? turn : PAGES - 1 - turn;
        map_page(page, PAGES);
        complete();
        tlb_entry(address_of(page) | SPACE);
        complete();
        synchronise();
        map_page(page, frame_in(round + 1, page));
    }
    complete();
}

void first(void)
{
    map_measured();
    map_all(1);
    tlb_all();
    complete();
    for (word page = 0; page < PAGES; page++)
        *(volatile word *)address_of(page) = frame_in(1, page);
    turn_on(1);
    for (word round = 1; round <= ROUNDS; round++) {
        wrong += read_all(round);
        data_barrier();
        round_begun = round;
        while (entries_asked != round)
            ;
        for (volatile word wait = 0; wait < round / 4; wait++)
            ;
        remap(round);
        data_barrier();
        remapped = round;
        while (round_done != round)
            ;
    }
    word results[] = { wrong, entered };
    say("transfers", ROUNDS, results, 2);
}
