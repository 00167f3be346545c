/* The devices of QEMU's `virt`: random accesses of four cores to the GIC, the generic timers' registers,
 * and the firmware's calls. One line a read; QEMU and our machines print the same.
 *
 * All exceptions stay masked, so that nothing depends on time: a core takes its interrupts by reading the
 * acknowledge register. Core 0 tells the others what to read and write.
 */
#include "print.h"

enum {
    DISTRIBUTOR = 0x08000000,
    INTERFACE = 0x08010000,
    UART = 0x09000000,
    CORES = 4,
    STEPS = 8000,
};

/* ---- Other cores -------------------------------------------------------------------------------- */

enum { IDLE, LOAD, STORE, STORE_BYTE };

static volatile struct {
    word command, address, value;
    word padding[13];
} boxes[CORES];

void second_start(void);
word firmware(word function, word first, word second, word third);

static word access(word command, word address, word value)
{
    if (command == LOAD)
        return get(address);
    if (command == STORE)
        set(address, value);
    else
        *(volatile unsigned char *)address = value;
    __asm__ volatile("dsb" : : : "memory");
    return 0;
}

void serve(word core)
{
    for (;;) {
        if (boxes[core].command == IDLE) {
            /* Lets QEMU run another core. */
            __asm__ volatile("yield");
            continue;
        }
        boxes[core].value = access(boxes[core].command, boxes[core].address, boxes[core].value);
        __asm__ volatile("dsb" : : : "memory");
        boxes[core].command = IDLE;
    }
}

static word on(word core, word command, word address, word value)
{
    if (core == 0)
        return access(command, address, value);
    boxes[core].address = address;
    boxes[core].value = value;
    __asm__ volatile("dsb" : : : "memory");
    boxes[core].command = command;
    while (boxes[core].command != IDLE)
        __asm__ volatile("yield");
    return boxes[core].value;
}

/* ---- The interrupt controller ------------------------------------------------------------------- */

static word cores;

static word print_read(word core, word address)
{
    word value = on(core, LOAD, address, 0);

    /* QEMU leaves the sender out of the highest pending interrupt (README.md). */
    if (address == INTERFACE + 0x18)
        value &= 0x3ff;

    put("core ");
    put_hex(core, 1);
    put(address < INTERFACE ? "distributor " : "interface ");
    put_hex(address & 0xffff, 4);
    put_hex(value, 8);
    flush();
    return value;
}

/* Few bits of a few words, so that interrupts meet: software-generated ones, private ones that no device
 * has, and shared ones. */
static word some_word(void)
{
    return below(3) ? 0 : 4 * (below(2) ? 1 : 8);
}

static word some_bits(word offset)
{
    return anything() & anything() & (offset & 0x7f ? 0x000f0f00 : 0x00ff00ff);
}

static word some_interrupt(void)
{
    static const word list[] = {0, 1, 5, 7, 15, 16, 17, 23, 40, 41, 43, 50, 51, 264, 265, 275};
    return list[below(sizeof list / sizeof *list)];
}

static void write_distributor(word core)
{
    word offset, value;

    switch (below(12)) {
    case 0:
        on(core, STORE, DISTRIBUTOR, below(8) ? 3 : 0);
        break;
    case 1:
    case 2:
        offset = 0x100 + some_word();
        on(core, STORE, DISTRIBUTOR + offset, some_bits(offset));
        break;
    case 3:
        /* QEMU clears what is pending of a private interrupt on all cores: left out. */
        offset = below(2) ? 0x180 + some_word() : 0x284 + 0x1c * below(2);
        on(core, STORE, DISTRIBUTOR + offset, some_bits(offset) & anything());
        break;
    case 4:
    case 5:
        /* QEMU does not make private interrupts pending so: left out. */
        offset = 0x204 + 0x1c * below(2);
        on(core, STORE, DISTRIBUTOR + offset, some_bits(offset));
        break;
    case 6:
        /* What another core has active QEMU keeps: only private ones. */
        on(core, STORE, DISTRIBUTOR + 0x380, some_bits(0) & anything());
        break;
    case 7:
        on(core, STORE_BYTE, DISTRIBUTOR + 0x400 + some_interrupt(), below(16) * 0x11);
        break;
    case 8:
        on(core, STORE_BYTE, DISTRIBUTOR + 0x800 + 60 + below(8), below(16));
        break;
    case 9:
        offset = below(2) ? 0xc08 : 0xc0c;
        on(core, STORE, DISTRIBUTOR + offset, anything() & 0xaaaaaaaa);
        break;
    case 10:
        /* The reserved filter 3 is left out. */
        value = below(3) << 24 | below(16) << 16 | (below(2) ? 5 : below(16));
        on(core, STORE, DISTRIBUTOR + 0xf00, value);
        break;
    default:
        offset = (below(2) ? 0xf10 : 0xf20) + below(16);
        on(core, STORE_BYTE, DISTRIBUTOR + offset, 1 << below(4));
    }
}

/* The interrupts that a core has taken and not ended, and the last that it has. */
static struct {
    word ids[64];
    word count;
    word ended;
} taken[CORES];

static void write_interface(word core)
{
    switch (below(4)) {
    case 0:
        /* All interrupts are of group 0 (README.md). */
        on(core, STORE, INTERFACE, (below(8) ? 3 : 0) | (anything() & 0x21c));
        break;
    case 1:
        on(core, STORE, INTERFACE + 0x04, below(3) ? 0xff : below(256));
        break;
    case 2:
        /* Alike for both groups, and while nothing is active: QEMU compares the whole priority. */
        if (!taken[core].count) {
            word point = below(7);
            on(core, STORE, INTERFACE + 0x08, point);
            on(core, STORE, INTERFACE + 0x1c, point + 1);
        }
        break;
    default:
        on(core, STORE, INTERFACE + 0x1000, taken[core].ended);
    }
}

static void print_random(word core)
{
    static const word interface[] = {0x00, 0x04, 0x08, 0x14, 0x18, 0x1c, 0xd0, 0xd4, 0xd8, 0xdc,
                                     0xe0, 0xe4, 0xe8, 0xec, 0xfc};
    static const word distributor[] = {0x000, 0x004, 0x100, 0x104, 0x120, 0x200, 0x204, 0x220,
                                       0x300, 0x304, 0x320, 0x400, 0x404, 0x410, 0x428, 0x800,
                                       0x828, 0x83c, 0xc00, 0xc08, 0xc0c, 0xf10, 0xf14, 0xf20};

    if (below(3))
        print_read(core, INTERFACE + interface[below(sizeof interface / sizeof *interface)]);
    else
        print_read(core, DISTRIBUTOR + distributor[below(sizeof distributor / sizeof *distributor)]);
}

static void acknowledge_or_end(word core)
{
    if (below(2) && taken[core].count < 64) {
        word id = print_read(core, INTERFACE + 0x0c);
        if ((id & 0x3ff) < 1020)
            taken[core].ids[taken[core].count++] = id;
    } else if (taken[core].count) {
        taken[core].ended = taken[core].ids[--taken[core].count];
        on(core, STORE, INTERFACE + 0x10, taken[core].ended);
    }
}

static void controller(void)
{
    for (word core = 0; core < cores; core++) {
        on(core, STORE, INTERFACE, 1);
        on(core, STORE, INTERFACE + 0x04, 0xff);
    }
    /* Targets too, one each: QEMU notes when an interrupt becomes pending where it goes, and one that a
     * core takes stays pending for the others. */
    for (word offset = 0x820; offset < 0x920; offset++)
        on(0, STORE_BYTE, DISTRIBUTOR + offset, 1 << below(4));
    on(0, STORE, DISTRIBUTOR, 3);
    for (int step = 0; step < STEPS; step++) {
        word core = below(cores);

        switch (below(8)) {
        case 0:
        case 1:
        case 2:
            write_distributor(core);
            break;
        case 3:
            write_interface(core);
            break;
        case 4:
        case 5:
            acknowledge_or_end(core);
            break;
        default:
            print_random(core);
        }
    }
}

/* The level of the UART's output: its transmit interrupt, raised by a character. */
static void level(void)
{
    set(DISTRIBUTOR + 0x104, 2);
    set(UART + 0x38, 0x20);
    for (int step = 0; step < 60; step++) {
        switch (below(4)) {
        case 0:
            set(UART, 0);
            break;
        case 1:
            set(UART + 0x44, 0x20);
            break;
        case 2:
            set(UART + 0x38, below(2) << 5);
            break;
        default:
            set(DISTRIBUTOR + 0x284, 2);
        }
        print_read(0, DISTRIBUTOR + 0x204);
    }
    set(UART + 0x44, 0x7ff);
}

/* ---- The timers --------------------------------------------------------------------------------- */

#define READ(text) ({ word value; __asm__ volatile("mrc p15, 0, %0, " text : "=r"(value)); value; })
#define WRITE(text, value) __asm__ volatile("mcr p15, 0, %0, " text "\nisb" : : "r"(value))
#define READ_PAIR(number) ({ unsigned long long value; \
    __asm__ volatile("mrrc p15, " #number ", %Q0, %R0, c14" : "=r"(value)); value; })
#define WRITE_PAIR(number, value) \
    __asm__ volatile("mcrr p15, " #number ", %Q0, %R0, c14\nisb" : : "r"(value))

static void print_word(const char *name, word value)
{
    put(name);
    put_hex(value, 8);
    flush();
}

/* One of the two timers. A value that is far away stays so while the program runs. */
#define TIMER(name, control, left, pair, counter, id) \
    for (int step = 0; step < 200; step++) { \
        unsigned long long compare = below(2) ? below(2) : ~0ull >> below(8); \
        WRITE(control, below(8)); \
        WRITE_PAIR(pair, compare); \
        compare = READ_PAIR(pair); \
        print_word(name " compare ", compare); \
        print_word(name " compare, upper half ", compare >> 32); \
        print_word(name " control ", READ(control)); \
        print_word(name " pending ", get(DISTRIBUTOR + 0x200) >> id & 1); \
        word ticks = 0x10000000 + below(0x10000); \
        WRITE(left, ticks); \
        word seen = READ(left); \
        print_word(name " left ", ticks - seen < 0x4000000); \
        unsigned long long passed = READ_PAIR(pair) - READ_PAIR(counter); \
        print_word(name " left by the compare value ", ticks - passed < 0x4000000); \
        print_word(name " control ", READ(control)); \
        WRITE(left, -ticks); \
        print_word(name " left, negative ", (int)READ(left) < 0); \
        print_word(name " control ", READ(control)); \
    } \
    WRITE(control, 0);

static void timers(void)
{
    print_word("frequency ", READ("c14, c0, 0"));
    word level_2;
    __asm__ volatile("mrc p15, 1, %0, c9, c0, 2" : "=r"(level_2));
    print_word("level 2 control ", level_2);
    for (int step = 0; step < 10; step++) {
        WRITE("c14, c1, 0", below(0x400));
        print_word("access ", READ("c14, c1, 0"));
    }
    TIMER("virtual", "c14, c3, 1", "c14, c3, 0", 3, 1, 27)
    TIMER("physical", "c14, c2, 1", "c14, c2, 0", 2, 0, 30)
    word before = READ_PAIR(1);
    while (READ_PAIR(1) == before)
        ;
    print_word("it counts ", READ_PAIR(0) - before < 0x4000000);
}

/* ---- The firmware ------------------------------------------------------------------------------- */

static void print_call(word function, word first, word second)
{
    put("call ");
    put_hex(function, 8);
    put_hex(first, 8);
    put_hex(second, 8);
    put_hex(firmware(function, first, second, 0), 8);
    flush();
}

static void calls(void)
{
    print_call(0x84000000, 0, 0);
    for (word function = 0; function < 12; function++)
        print_call(0x8400000a, 0x84000000 + function, 0);
    print_call(0x84000006, 0, 0);
    print_call(0x8400001f, 0, 0);
    print_call(0x84000003, 0, (word)second_start);
    print_call(0x84000003, 9, (word)second_start);
    for (word core = 0; core < CORES + 1; core++)
        print_call(0x84000004, core, 0);
    print_call(0x84000004, 1, 1);
    for (word core = 1; core < CORES; core++)
        if (firmware(0x84000003, core, (word)second_start, core) == 0)
            cores = core + 1;
    put_hex(cores, 1);
    put("cores");
    flush();
    for (word core = 1; core < CORES; core++) {
        /* It is on once it has answered. */
        on(core, LOAD, DISTRIBUTOR, 0);
        print_call(0x84000004, core, 0);
        print_call(0x84000003, core, (word)second_start);
    }
}

int main(void)
{
    cores = 1;
    calls();
    for (word offset = 0; offset < 0xc20; offset += 4)
        if (offset < 0x08 || offset >= 0x80)
            print_read(0, DISTRIBUTOR + offset);
    for (word offset = 0xfd0; offset < 0x1000; offset += 4)
        print_read(0, DISTRIBUTOR + offset);
    for (word offset = 0; offset < 0x20; offset += 4)
        if (offset != 0x0c && offset != 0x10)
            print_read(1, INTERFACE + offset);
    level();
    timers();
    controller();
    firmware(0x84000008, 0, 0, 0);
    return 1;
}
