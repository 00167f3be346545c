/* What programs count on a Cortex-A7: cycles, an event, and what its TLB holds. */
#ifndef COUNTERS_H
#define COUNTERS_H

#include "machine.h"

static inline word cycles(void)
{
    word value;
    __asm__ volatile("mrc p15, 0, %0, c9, c13, 0" : "=r"(value) : : "memory");
    return value;
}

static inline word events(void)
{
    word value;
    __asm__ volatile("mrc p15, 0, %0, c9, c13, 2" : "=r"(value) : : "memory");
    return value;
}

/* The cycle counter begins at zero, and so does one that counts an event (ARM DDI 0464F, chapter 11). */
static inline void start_counters(word event)
{
    WRITE_CP15(7, c9, c12, 0);
    WRITE_CP15(0, c9, c12, 5);
    WRITE_CP15(event, c9, c13, 1);
    WRITE_CP15(0x8000000f, c9, c12, 1);
}

/* At most so many data prefetches may be under way from here on, 0 to 3 (ACTLR.L1PCTL; ARM DDI 0464F, 4.3.28). */
static inline void permit_prefetches(word most)
{
    word control;
    __asm__ volatile("mrc p15, 0, %0, c1, c0, 1" : "=r"(control));
    WRITE_CP15(control & ~(3u << 13) | most << 13, c1, c0, 1);
    synchronise();
}

/* An entry of the main TLB, its way from bit 31 on: the operation and the three data registers (ARM DDI 0464F, 6.6.3). */
static inline word read_entry(word entry, word *middle)
{
    word low, high;
    __asm__ volatile("mcr p15, 3, %3, c15, c4, 2\n\t"
                     "mrc p15, 3, %0, c15, c0, 0\n\t"
                     "mrc p15, 3, %1, c15, c0, 1\n\t"
                     "mrc p15, 3, %2, c15, c0, 2"
                     : "=&r"(low), "=&r"(*middle), "=&r"(high) : "r"(entry));
    return low;
}

#endif
