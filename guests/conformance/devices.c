/* The timers, the interrupt controller and the UART: random accesses to their registers, and periods
 * of one timer measured by the other. One line a read; QEMU and our machines print the same.
 *
 * In the random part no counter runs and no interrupt is taken, so that nothing depends on time. The
 * UART sends zeros only, which the comparison leaves out of the console.
 */
#include "print.h"

enum {
    TIMER = 0x101e2000,
    CONTROLLER = 0x10140000,
    UART = 0x101f1000,
    ENABLE = 0x80,
    PERIODIC = 0x40,
    INTERRUPT = 0x20,
    WIDE = 0x02,
    ONE_SHOT = 0x01,
    STEPS = 6000,               /* of each device */
};

static void print_read(const char *device, word base, word offset)
{
    word value = get(base + offset);

    /* QEMU shows there also interrupts that are not enabled (see README.md). */
    if (base == CONTROLLER && offset == 0x004)
        value &= get(base + 0x010);
    put(device);
    put_hex(offset, 3);
    put_hex(value, 8);
    flush();
}

static void print_identity(const char *device, word base)
{
    for (word offset = 0xfe0; offset < 0x1000; offset += 4)
        print_read(device, base, offset);
}

/* A register to read, or to write with a value of these bits. */
struct access {
    word offset;
    word mask;
};

static void random_accesses(const char *device, word base, const struct access *reads,
                            int read_count, const struct access *writes, int write_count)
{
    for (int step = 0; step < STEPS; step++) {
        if (below(2)) {
            const struct access *chosen = &writes[below(write_count)];
            set(base + chosen->offset, anything() & anything() & chosen->mask);
        } else {
            print_read(device, base, reads[below(read_count)].offset);
        }
    }
}

static const struct access timer_reads[] = {
    {0x00, 0}, {0x08, 0}, {0x10, 0}, {0x14, 0}, {0x18, 0},
    {0x20, 0}, {0x28, 0}, {0x30, 0}, {0x34, 0}, {0x38, 0},
};
static const struct access timer_writes[] = {
    {0x00, ~0u}, {0x08, 0x6f}, {0x0c, ~0u}, {0x18, ~0u},
    {0x20, ~0u}, {0x28, 0x6f}, {0x2c, ~0u}, {0x38, ~0u},
};
static const struct access controller_reads[] = {
    {0x000, 0}, {0x004, 0}, {0x008, 0}, {0x00c, 0}, {0x010, 0}, {0x018, 0}, {0x020, 0},
    {0x034, 0}, {0x100, 0}, {0x104, 0}, {0x13c, 0}, {0x200, 0}, {0x204, 0}, {0x23c, 0},
};
static const struct access controller_writes[] = {
    {0x00c, ~0u}, {0x010, ~0u}, {0x014, ~0u}, {0x018, ~0u}, {0x01c, ~0u}, {0x020, 1},
    {0x034, ~0u}, {0x100, ~0u}, {0x104, ~0u}, {0x13c, ~0u}, {0x200, 0x3f}, {0x204, 0x3f},
    {0x23c, 0x3f},
};
static const struct access uart_reads[] = {
    {0x04, 0}, {0x18, 0}, {0x20, 0}, {0x24, 0}, {0x28, 0}, {0x2c, 0}, {0x30, 0},
    {0x34, 0}, {0x38, 0}, {0x3c, 0}, {0x40, 0}, {0x48, 0},
};
static const struct access uart_writes[] = {
    {0x00, 0}, {0x04, ~0u}, {0x20, 0xff}, {0x24, 0xffff}, {0x28, 0x3f}, {0x2c, 0xff},
    {0x30, 0xff07}, {0x34, 0x3f}, {0x38, 0x7ff}, {0x44, 0x7ff}, {0x48, 7},
};

#define COUNT(array) (int)(sizeof(array) / sizeof(array[0]))
#define RANDOM(device, base, name) \
    random_accesses(device, base, name##_reads, COUNT(name##_reads), name##_writes, \
                    COUNT(name##_writes))

/* Nested service by the vector address, as a handler does it; reading without a pending interrupt of
 * higher priority is undefined, and is not done. */
static void vectored_service(void)
{
    word depth = 0, serving = 17;
    word lines[17];

    set(CONTROLLER + 0x14, ~0u);
    set(CONTROLLER + 0x1c, ~0u);
    set(CONTROLLER + 0x0c, 0);
    set(CONTROLLER + 0x34, 0xdefa0000);
    for (word slot = 0; slot < 16; slot++) {
        set(CONTROLLER + 0x100 + 4 * slot, 0xabc00000 + slot);
        /* Lines from 16 on, which no device of the board uses; the last four have no vector. */
        set(CONTROLLER + 0x200 + 4 * slot, slot < 12 ? 0x20 | (16 + slot) : 0);
    }
    set(CONTROLLER + 0x10, 0x7fff0000);
    for (int step = 0; step < STEPS; step++) {
        word pending = get(CONTROLLER), highest = 16;

        for (word slot = 0; slot < 12; slot++)
            if (pending >> (16 + slot) & 1) {
                highest = slot;
                break;
            }
        if (below(3) == 0) {
            set(CONTROLLER + 0x18, 1u << (16 + below(15)));
        } else if (pending && highest < serving) {
            print_read("vector ", CONTROLLER, 0x30);
            lines[depth++] = serving;
            serving = highest;
        } else if (depth) {
            set(CONTROLLER + 0x1c, serving < 16 ? 1u << (16 + serving) : 0xf0000000);
            set(CONTROLLER + 0x30, 0);
            serving = lines[--depth];
        }
    }
}

/* What a counter that stands shows after loads of both kinds. Only of periodic and one-shot counters:
 * QEMU starts a free-running one from the top whatever is loaded. */
static void loaded_values(void)
{
    for (int step = 0; step < 200; step++) {
        word timer = TIMER + 0x20 * below(2);

        set(timer + 0x08, (below(2) ? PERIODIC : ONE_SHOT) | below(2) << 5 | WIDE);
        set(timer + 0x00, anything());
        print_read("loaded ", timer, 0x04);
        set(timer + 0x18, anything());
        print_read("loaded behind ", timer, 0x04);
        print_read("loaded behind ", timer, 0x00);
    }
}

/* How many interrupts one timer gives while the other, free-running, counts `ticks`; each is cleared
 * when it is seen. One more or less is a matter of when one looks. */
static void period(const char *name, word mode, word load, word ticks, word expected)
{
    word count = 0, start;

    set(TIMER + 0x28, 0);
    set(TIMER + 0x20, ~0u);
    set(TIMER + 0x28, ENABLE | WIDE);
    set(TIMER + 0x08, 0);
    set(TIMER + 0x00, load);
    set(TIMER + 0x0c, 0);
    set(TIMER + 0x08, mode | ENABLE);
    start = get(TIMER + 0x24);
    while (start - get(TIMER + 0x24) < ticks)
        if (get(TIMER + 0x10)) {
            set(TIMER + 0x0c, 0);
            count++;
        }
    put(name);
    put(count + 1 >= expected && count <= expected + 1 ? "as many interrupts as periods"
                                                       : "not as many interrupts as periods");
    flush();
    set(TIMER + 0x08, 0);
    set(TIMER + 0x28, 0);
    set(TIMER + 0x0c, 0);
}

int main(void)
{
    for (word offset = 0; offset < 0x40; offset += 4)
        if (offset != 0x0c && offset != 0x1c && offset != 0x2c && offset != 0x3c)
            print_read("timer reset ", TIMER, offset);
    for (word offset = 0; offset < 0x38; offset += 4)
        print_read("controller reset ", CONTROLLER, offset);
    for (word offset = 4; offset < 0x4c; offset += 4)
        print_read("uart reset ", UART, offset);
    print_identity("timer id ", TIMER);
    print_identity("controller id ", CONTROLLER);
    print_identity("uart id ", UART);
    period("periodic ", PERIODIC | INTERRUPT | WIDE, 20, 10000, 500);
    period("periodic by 16 ", PERIODIC | INTERRUPT | WIDE | 0x04, 10, 16000, 100);
    period("periodic by 256 ", PERIODIC | INTERRUPT | WIDE | 0x08, 2, 51200, 100);
    period("free-running ", INTERRUPT, 0xffff, 140000, 2);
    period("one shot ", ONE_SHOT | INTERRUPT | WIDE, 1000, 5000, 1);
    RANDOM("timer ", TIMER, timer);
    loaded_values();
    RANDOM("controller ", CONTROLLER, controller);
    vectored_service();
    RANDOM("uart ", UART, uart);
    return 0;
}
