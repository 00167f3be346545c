/* All cores there are count together: by a lock, by exclusive accesses alone, and in a ring where each waits
 * for the one before. Prints what it came to. */
#include "machine.h"

enum { ROUNDS = 500, MOST_CORES = 4 };

static volatile word lock, locked, atomic, turn, done, cores = 1, go;

static void take(volatile word *at)
{
    word failed, value;
    do {
        __asm__ volatile("ldrex %0, [%1]" : "=r"(value) : "r"(at) : "memory");
        if (value) {
            __asm__ volatile("wfe");
            failed = 1;
            continue;
        }
        __asm__ volatile("strex %0, %1, [%2]" : "=&r"(failed) : "r"(1), "r"(at) : "memory");
    } while (failed);
    data_barrier();
}

static void release(volatile word *at)
{
    data_barrier();
    *at = 0;
    complete();
    __asm__ volatile("sev");
}

static void add(volatile word *at, word amount)
{
    word failed, value;
    do {
        __asm__ volatile("ldrex %0, [%1]" : "=r"(value) : "r"(at) : "memory");
        __asm__ volatile("strex %0, %1, [%2]" : "=&r"(failed) : "r"(value + amount), "r"(at) : "memory");
    } while (failed);
}

static void count(word core)
{
    for (word round = 0; round < ROUNDS; round++) {
        take(&lock);
        locked++;
        release(&lock);
        add(&atomic, 1);
    }
    for (word round = 0; round < ROUNDS; round++) {
        while (turn % cores != core)
            ;
        data_barrier();
        turn++;
    }
    add(&done, 1);
}

void other(word core)
{
    flag_wait(&go);
    count(core);
}

void first(void)
{
    while (cores < MOST_CORES && turn_on(cores))
        cores++;
    flag_raise(&go);
    count(0);
    while (done != cores)
        ;
    print_number(cores);
    print(" cores: locked ");
    print_number(locked / cores);
    print(", atomic ");
    print_number(atomic / cores);
    print(", turns ");
    print_number(turn / cores);
    print(" each\n");
}
