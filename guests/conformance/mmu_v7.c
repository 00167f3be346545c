/* Random tables of ARMv7's short descriptors, one line an access: what was tried, then the value read or
 * "ok", or the fault's status and address.
 *
 * Each round draws both tables, how addresses are divided between them, domains, access flag and type remap.
 * The program itself is in a domain whose manager it is. The caches stay off: what the tables mean is asked
 * here. PD0 and PD1 are left out, which QEMU has with its third exception level only. Sizes of memory that a round may show are those of QEMU's board with 128 MB.
 */
#include "print.h"

struct fault {
    word kind;          /* 0 none, 3 prefetch, 4 data */
    word status;
    word address;
};

extern volatile struct fault seen;
word probe_load(word address, word user);
void probe_store(word address, word value, word user);
void probe_fetch(word address, word user);

#define WRITE_CP15(value, crn, crm, op2) \
    __asm__ volatile("mcr p15, 0, %0, " #crn ", " #crm ", " #op2 : : "r"(value) : "memory")

enum {
    PROGRAM = 0x402,            /* its megabyte */
    TABLES = 0x40300000,        /* two first-level tables, then second-level ones */
    SECOND = 0x40308000,
    SECOND_LEVEL_TABLES = 8,
    MEMORY = 0x40800000,        /* what the pages show: 1 KB after 1 KB the same, with its address */
    MEMORY_END = 0x44000000,
    RETURN = 0xe12fff1e,        /* BX LR */
    MANAGER = 15,               /* the program's domain */
    ROUNDS = 400,
    PROBES = 24,
    GROUPS = 12,
};

/* Where test pages are mapped, in 16 MB: on both sides of every way to divide the addresses. */
static const word groups[GROUPS] = { 0x00, 0x01, 0x02, 0x04, 0x07, 0x08, 0x10, 0x1f, 0x20, 0x7f, 0x80, 0xff };

static word control;

static void fill(void)
{
    for (word at = MEMORY; at < MEMORY_END; at += 0x400) {
        set(at + 4, at + 4);
        set(at + 8, RETURN);
    }
}

/* AP, TEX, C, B, S and nG of a descriptor with the fields of a small page. */
static word page_fields(void)
{
    word fields = below(2) << 9 | below(4) << 4 | below(8) << 6 | below(4) << 2 | below(4) << 10;
    /* Without the access flag some of them have no meaning (table B3-8). */
    return fields;
}

static word section_fields(void)
{
    return below(2) << 15 | below(4) << 10 | below(8) << 12 | below(4) << 2 | below(4) << 16;
}

static void second_level(word table)
{
    for (word group = 0; group < 16; group++) {
        word kind = below(4);
        word large = below(2) << 15 | below(2) << 9 | below(4) << 4 | below(8) << 12 | below(4) << 2 |
            below(4) << 10 | (MEMORY + (below(0x200) << 16)) | 1;
        for (word page = 16 * group; page < 16 * group + 16; page++) {
            word value = anything() & ~3;
            if (kind == 1)
                value = large;
            else if (kind)
                value = (MEMORY + (below(0x3000) << 12)) | page_fields() | 2 | below(2);
            set(table + 4 * page, value);
        }
    }
}

static void first_level(word table)
{
    for (word number = 0; number < GROUPS; number++) {
        word super = below(4) == 0;
        word value = (0x41000000 + (below(3) << 24)) | section_fields() | 1 << 18 | below(2) << 4 | 2 | below(2);
        for (word megabyte = 16 * groups[number]; megabyte < 16 * groups[number] + 16; megabyte++) {
            if (!super) {
                word domain = below(16) << 5;
                switch (below(4)) {
                case 0:
                    value = anything() & ~3;
                    break;
                case 1:
                    value = (MEMORY + (below(0x30) << 20)) | section_fields() | below(2) << 4 | domain | 2 | below(2);
                    break;
                default:
                    value = (SECOND + (below(SECOND_LEVEL_TABLES) << 10)) | below(2) << 2 | domain | 1;
                }
            }
            set(table + 4 * megabyte, value);
        }
    }
    /* Everything that the program needs, with the access flag. */
    for (word megabyte = PROGRAM; megabyte < PROGRAM + 2; megabyte++)
        set(table + 4 * megabyte, megabyte << 20 | 1 << 10 | MANAGER << 5 | 2);
}

static void result(word value, word is_load)
{
    if (seen.kind) {
        put(seen.kind == 4 ? "data abort " : "prefetch abort ");
        put_hex(seen.status, 4);
        put_hex(seen.address, 8);
    } else if (is_load) {
        put_hex(value, 8);
    } else {
        put("ok ");
    }
    flush();
}

static void probe(word round)
{
    word address = groups[below(GROUPS)] << 24 | below(16) << 20 | below(0x400) << 10;
    word user = below(2), access = below(3), value = 0;
    put_hex(round, 3);
    put_hex(address, 8);
    put(user ? "user " : "privileged ");
    put(access == 0 ? "load: " : access == 1 ? "store: " : "fetch: ");
    seen.kind = 0;
    if (access == 0)
        value = probe_load(address + 4, user);
    else if (access == 1)
        probe_store(address + 12, round, user);
    else
        probe_fetch(address + 8, user);
    result(value, access == 0);
}

static void set_control(word value)
{
    control = value;
    __asm__ volatile("dsb");
    WRITE_CP15(value, c1, c0, 0);
    WRITE_CP15(0, c8, c7, 0);
    __asm__ volatile("dsb\nisb" : : : "memory");
}

word main(void)
{
    word off;
    __asm__ volatile("mrc p15, 0, %0, c1, c0, 0" : "=r"(off));
    off &= ~(1 | 1 << 2 | 1 << 12 | 1 << 28 | 1 << 29);
    fill();
    for (word round = 0; round < ROUNDS; round++) {
        set_control(off);
        for (word table = 0; table < SECOND_LEVEL_TABLES; table++)
            second_level(SECOND + (table << 10));
        first_level(TABLES);
        first_level(TABLES + 0x4000);
        word width = below(8);
        WRITE_CP15(TABLES, c2, c0, 0);
        WRITE_CP15(TABLES + 0x4000, c2, c0, 1);
        WRITE_CP15(width, c2, c0, 2);
        WRITE_CP15(below(256), c13, c0, 1);
        word domains = (anything() & 0x3fffffff) | 3u << 30;
        WRITE_CP15(domains, c3, c0, 0);
        WRITE_CP15(anything(), c10, c2, 0);
        WRITE_CP15(anything(), c10, c2, 1);
        set_control(off | 1 | below(2) << 28 | below(2) << 29);
        put("round ");
        put_hex(width, 1);
        put_hex(control, 8);
        put_hex(domains, 8);
        flush();
        for (word number = 0; number < PROBES; number++)
            probe(round);
    }
    set_control(off);
    return 0;
}
