/* Memory, console and power of the virt board, for programs on several cores. */
#include "machine.h"

enum { UART = 0x09000000, CPU_ON = 0x84000003, SYSTEM_OFF = 0x84000008 };
enum { MMU = 1, DATA_CACHE = 1 << 2, INSTRUCTION_CACHE = 1 << 12 };

/* Sections: devices; memory, write-back and write-allocate, shared; memory that no cache holds. */
enum { DEVICE = 0x10c06, MEMORY = 0x11c0e, UNCACHED_MEMORY = 0x11c02, COARSE = 1 };

void start_core(void);

void print(const char *text)
{
    for (; *text; text++)
        *(volatile word *)UART = *text;
}

void print_number(word number)
{
    char digits[11];
    char *digit = digits + 10;
    *digit = 0;
    do
        *--digit = '0' + number % 10;
    while (number /= 10);
    print(digit);
}

_Noreturn void power_off(void)
{
    hypervisor_call(SYSTEM_OFF, 0, 0, 0);
    for (;;)
        ;
}

_Noreturn void exception(word vector, word address)
{
    print("exception ");
    print_number(vector);
    print(" at ");
    print_number(address);
    print("\n");
    power_off();
}

word turn_on(word core)
{
    return hypervisor_call(CPU_ON, core, (word)start_core, core) == 0;
}

__attribute__((noinline)) void set_entry(word table, word index, word value)
{
    *(volatile word *)(table + 4 * index) = value;
}

__attribute__((noinline)) void put(word address, word value)
{
    *(volatile word *)address = value;
}

__attribute__((noinline)) word use(word address)
{
    return *(volatile word *)address;
}

__attribute__((noinline)) word call(word address)
{
    return ((word (*)(void))address)();
}

void flag_raise(volatile word *flag)
{
    data_barrier();
    *flag = 1;
    complete();
    __asm__ volatile("sev");
}

void flag_wait(volatile word *flag)
{
    while (!*flag)
        __asm__ volatile("wfe");
    data_barrier();
}

/* Both first-level tables: everything at its own address, RAM once more uncached, and the test pages. */
static void make_tables(void)
{
    for (word megabyte = 0; megabyte < 0x1000; megabyte++) {
        word value = 0;
        if (megabyte < 0x400)
            value = megabyte << 20 | DEVICE;
        else if (megabyte < 0x410)
            value = megabyte << 20 | MEMORY;
        else if (megabyte >= UNCACHED >> 20 && megabyte < (UNCACHED >> 20) + 0x10)
            value = (megabyte << 20) - (UNCACHED - 0x40000000) | UNCACHED_MEMORY;
        set_entry(TABLE, megabyte, value);
        set_entry(OTHER_TABLE, megabyte, value);
    }
    set_entry(TABLE, VIEW >> 20, PAGES_TABLE | COARSE);
    set_entry(OTHER_TABLE, VIEW >> 20, OTHER_PAGES_TABLE | COARSE);
    for (word page = 0; page < 0x200; page++)
        set_entry(PAGES_TABLE, page, 0);
}

void core_main(word core)
{
    if (core == 0)
        make_tables();
    complete();
    word auxiliary;
    __asm__ volatile("mrc p15, 0, %0, c1, c0, 1" : "=r"(auxiliary));
    WRITE_CP15(auxiliary | 0x40, c1, c0, 1);    /* ACTLR.SMP: this core takes part in coherence */
    WRITE_CP15(0, c8, c7, 0);
    WRITE_CP15(0, c7, c5, 0);
    WRITE_CP15(1, c3, c0, 0);
    set_table(TABLE);
    set_space(1);
    complete();
    synchronise();
    word control;
    __asm__ volatile("mrc p15, 0, %0, c1, c0, 0" : "=r"(control));
    WRITE_CP15(control | MMU | DATA_CACHE | INSTRUCTION_CACHE, c1, c0, 0);
    synchronise();
    if (core != 0) {
        other(core);
        return;
    }
    first();
    power_off();
}

__attribute__((weak)) void other(word core) { (void)core; }
