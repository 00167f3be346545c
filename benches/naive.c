/* A peer for the replay: the obvious loop. Split, direct-mapped first and second level, one look-up an
 * instruction and one a data reference, over a synthetic stream that is made as it goes. It has no
 * trace to decode, no TLB and no page table. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { FIRST_LINE = 6, SECOND_LINE = 7 };
#define FIRST_SETS ((64u << 10) >> FIRST_LINE)
#define SECOND_SETS ((1u << 20) >> SECOND_LINE)

static uint32_t first[2][FIRST_SETS], second[2][SECOND_SETS];
static uint64_t misses[2][2];

static inline void refer(int side, uint32_t address)
{
    uint32_t line = address >> FIRST_LINE;
    if (first[side][line % FIRST_SETS] == line)
        return;
    first[side][line % FIRST_SETS] = line;
    misses[side][0]++;
    line = address >> SECOND_LINE;
    if (second[side][line % SECOND_SETS] == line)
        return;
    second[side][line % SECOND_SETS] = line;
    misses[side][1]++;
}

int main(int argc, char **argv)
{
    uint64_t instructions = argc > 1 ? strtoull(argv[1], NULL, 10) : 200000000;
    uint32_t pc = 0x400000, random = 12345;
    for (uint64_t i = 0; i < instructions; i++) {
        random = random * 1664525 + 1013904223;
        /* One instruction in eight jumps, within 256 KiB; two in five touch data, within 4 MiB, half
         * of them near the stack. */
        pc = (random >> 29) == 0 ? 0x400000 + ((random >> 8) & 0x3fffc) : pc + 4;
        refer(0, pc);
        if ((random & 0xff00) < 0x6600)
            refer(1, (random & 0x80) ? 0x7fff0000 + (random >> 20 & 0xff8)
                                     : 0x10000000 + (random >> 10 & 0x3fffc0));
    }
    printf("%llu %llu %llu %llu\n", (unsigned long long)misses[0][0], (unsigned long long)misses[0][1],
           (unsigned long long)misses[1][0], (unsigned long long)misses[1][1]);
    return 0;
}
