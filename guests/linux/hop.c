/* hop: what a migration to another core costs a program, as Landsberg's thesis of 2018 measures it (chapter 8).
 *
 *   hop validate RUNS          8.1: cycles of an access to one page in each of eight runs, each on the next core
 *   hop total RUNS PAGES...    8.2: nanoseconds of four runs on four cores with PAGES pages, 68 KB apart, all
 *                              that is done in them; then of the accesses alone, and of the migrations
 *   hop unflushed RUNS PAGES...  the same without the flushes of the caches, which gem5 of 2018 ignored
 *
 *   hop stay RUNS PAGES USED   nanoseconds of a migration and of what follows: USED of PAGES pages, 68 KB apart, where the
 *                              first is another each time. Caches are warm, TLBs of other cores empty
 *   hop phases RUNS PAGES USED the same for a program that begins with PAGES pages, then works with USED of them until the
 *                              scheduler has ticked twice, and goes on with these after the migration
 *   hop protect RUNS           nanoseconds of mprotect() of a page, which invalidates its entry
 *   hop periodic RUNS PAGES... nanoseconds of a job that begins every 1 ms: PAGES pages, a migration in the middle, and
 *                              the pages again; mean, standard deviation, most. A hog on each core wants the caches
 *
 * Values of all but the last are medians of RUNS. The kernel flushes the caches and opens the cycle counter
 * (/proc/tlb_migration_test, tlb_migration/).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PERIOD_NS = 1000000, HOG_BYTES = 1 << 20, HOG_STEP = 64 };
enum { WORK_NS = 21000000, LINE = 64 };
enum { PAGE = 4096, APART = 17, MOST_PAGES = 64, CORES = 4, MOST_RUNS = 1000, VALIDATED = 8, PROTECTIONS = 20 };

static int test;
static volatile uint32_t *memory;

_Noreturn static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void kernel(const char *word)
{
    if (write(test, word, strlen(word)) < 0)
        fail(word);
}

static void go_to(int core)
{
    cpu_set_t cores;

    CPU_ZERO(&cores);
    CPU_SET(core, &cores);
    if (sched_setaffinity(0, sizeof cores, &cores))
        fail("sched_setaffinity");
}

/* The time that all cores have in common: mrrc p15, 1, r0, r1, c14 (CNTVCT), which ARMv4 has no name for. */
static inline uint64_t ticks(void)
{
    register uint32_t low __asm__("r0"), high __asm__("r1");

    __asm__ volatile(".inst 0xec510f1e" : "=r"(low), "=r"(high) : : "memory");
    return (uint64_t)high << 32 | low;
}

static uint32_t ticks_a_second(void)
{
    uint32_t value;

    __asm__ volatile("mrc p15, 0, %0, c14, c0, 0" : "=r"(value));
    return value;
}

static int ascending(const void *a, const void *b)
{
    uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;

    return (first > second) - (first < second);
}

static uint64_t median(uint64_t *values, int count)
{
    qsort(values, count, sizeof *values, ascending);
    return values[count / 2];
}

/* Cycles (PMCCNTR) of a load whose value is needed before the counter is read again. The instructions are in one line of the
 * instruction cache, and that is there when the first of them reads the counter. */
static uint32_t access_one(const volatile uint32_t *at)
{
    uint32_t start, end, value;

    __asm__ volatile(".balign 32\n\t"
                     "mrc p15, 0, %0, c9, c13, 0\n\t"
                     "ldr %2, [%3]\n\t"
                     "movs %2, %2\n\t"
                     "mrc p15, 0, %1, c9, c13, 0"
                     : "=&r"(start), "=&r"(end), "=&r"(value) : "r"(at) : "cc", "memory");
    return end - start;
}

static void validate(int runs)
{
    static uint64_t found[VALIDATED][MOST_RUNS];

    *memory = 1;
    for (int run = 0; run < runs; run++) {
        go_to(0);
        kernel("tlbs");
        kernel("caches");
        for (int hop = 0; hop < VALIDATED; hop++) {
            found[hop][run] = access_one(memory);
            kernel("caches");
            go_to((hop + 1) % CORES);
        }
    }
    printf("hop validate:");
    for (int hop = 0; hop < VALIDATED; hop++)
        printf(" %llu", (unsigned long long)median(found[hop], runs));
    printf("\n");
}

static void access_pages(int pages)
{
    uint32_t sum = 0;

    for (int page = 0; page < pages; page++)
        sum += memory[page * APART * PAGE / 4];
    __asm__ volatile("" : : "r"(sum));
}

static void total(const char *name, int pages, int runs)
{
    int flushes = !strcmp(name, "total");
    enum { ALL, ACCESSES, MIGRATIONS, FIGURES };
    static uint64_t found[FIGURES][MOST_RUNS];

    for (int page = 0; page < pages; page++)
        memory[page * APART * PAGE / 4] = 1;
    for (int run = 0; run < runs; run++) {
        uint64_t start, spent[FIGURES] = {0};

        go_to(0);
        kernel("tlbs");
        if (flushes)
            kernel("caches");
        start = ticks();
        for (int hop = 0; hop < CORES; hop++) {
            uint64_t first = ticks(), second;
            access_pages(pages);
            spent[ACCESSES] += ticks() - first;
            if (flushes)
                kernel("caches");
            second = ticks();
            go_to((hop + 1) % CORES);
            spent[MIGRATIONS] += ticks() - second;
        }
        spent[ALL] = ticks() - start;
        for (int figure = 0; figure < FIGURES; figure++)
            found[figure][run] = spent[figure] * 1000000000 / ticks_a_second();
    }
    printf("hop %s %d:", name, pages);
    for (int figure = 0; figure < FIGURES; figure++)
        printf(" %llu", (unsigned long long)median(found[figure], runs));
    printf("\n");
}

/* A working set that moves on by a quarter at each stay on a core. */
static void stay(int pages, int used, int runs)
{
    static uint64_t found[MOST_RUNS];

    for (int page = 0; page < pages; page++)
        memory[page * APART * PAGE / 4] = 1;
    for (int run = 0; run < runs; run++) {
        int first = run * ((used + 3) / 4);
        uint32_t sum = 0;
        uint64_t start;
        kernel("others");
        start = ticks();
        go_to(run % CORES);
        for (int page = first; page < first + used; page++)
            sum += memory[page % pages * APART * PAGE / 4];
        __asm__ volatile("" : : "r"(sum));
        found[run] = (ticks() - start) * 1000000000 / ticks_a_second();
    }
    printf("hop stay %d %d: %llu\n", pages, used, (unsigned long long)median(found, runs));
}

/* The working set is a part of what the TLB has; the part is another in each run. */
static void phases(int pages, int used, int runs)
{
    static uint64_t found[MOST_RUNS];
    uint64_t work = (uint64_t)WORK_NS * ticks_a_second() / 1000000000;

    for (int page = 0; page < pages; page++)
        memory[page * APART * PAGE / 4] = 1;
    for (int run = 0; run < runs; run++) {
        int first = run * used;
        uint32_t sum = 0;
        uint64_t start = ticks();
        access_pages(pages);
        while (ticks() - start < work)
            for (int line = 0; line < PAGE; line += LINE)
                for (int page = first; page < first + used; page++)
                    sum += memory[(page % pages * APART * PAGE + line) / 4];
        kernel("others");
        start = ticks();
        go_to((run + 1) % CORES);
        for (int page = first; page < first + used; page++)
            sum += memory[page % pages * APART * PAGE / 4];
        __asm__ volatile("" : : "r"(sum));
        found[run] = (ticks() - start) * 1000000000 / ticks_a_second();
    }
    printf("hop phases %d %d: %llu\n", pages, used, (unsigned long long)median(found, runs));
}

static void protect(int runs)
{
    static uint64_t found[MOST_RUNS];

    *memory = 1;
    for (int run = 0; run < runs; run++) {
        uint64_t start = ticks();
        for (int time = 0; time < PROTECTIONS; time++)
            if (mprotect((void *)memory, PAGE, time % 2 ? PROT_READ | PROT_WRITE : PROT_READ))
                fail("mprotect");
        found[run] = (ticks() - start) * 1000000000 / ticks_a_second() / PROTECTIONS;
    }
    printf("hop protect: %llu\n", (unsigned long long)median(found, runs));
}

/* Reads more than the caches hold, line by line, with a page for each 64 of them. */
_Noreturn static void hog(int core)
{
    volatile uint32_t *at = mmap(0, HOG_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED)
        fail("mmap");
    go_to(core);
    for (;;)
        for (int byte = 0; byte < HOG_BYTES; byte += HOG_STEP)
            at[byte / 4] += 1;
}

static void periodic(int pages, int runs)
{
    pid_t hogs[CORES];
    struct sched_param first = {.sched_priority = 10};
    struct timespec next;
    double sum = 0, squares = 0, most = 0;

    for (int core = 0; core < CORES; core++) {
        hogs[core] = fork();
        if (!hogs[core])
            hog(core);
    }
    for (int page = 0; page < pages; page++)
        memory[page * APART * PAGE / 4] = 1;
    /* The C library (musl) leaves this call out. */
    if (syscall(SYS_sched_setscheduler, 0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first))
        fail("SCHED_FIFO");
    go_to(0);
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (int run = 0; run < runs; run++) {
        uint64_t start;
        double took;
        next.tv_nsec += PERIOD_NS;
        if (next.tv_nsec >= 1000000000) {
            next.tv_nsec -= 1000000000;
            next.tv_sec++;
        }
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, 0);
        start = ticks();
        access_pages(pages);
        go_to((run + 1) % CORES);
        access_pages(pages);
        took = (ticks() - start) * 1e9 / ticks_a_second();
        sum += took;
        squares += took * took;
        most = took > most ? took : most;
    }
    for (int core = 0; core < CORES; core++)
        kill(hogs[core], SIGKILL);
    printf("hop periodic %d: %.0f %.0f %.0f\n", pages, sum / runs, sqrt(squares / runs - sum / runs * sum / runs), most);
}

static int number_of_pages(const char *word)
{
    int pages = atoi(word);

    if (pages < 1 || pages > MOST_PAGES) {
        fprintf(stderr, "hop: 1 to %d pages, not %s\n", MOST_PAGES, word);
        exit(2);
    }
    return pages;
}

int main(int argc, char **argv)
{
    int runs = argc > 2 ? atoi(argv[2]) : 0;
    const char *what = argc > 2 ? argv[1] : "";

    if (runs < 1 || runs > MOST_RUNS) {
        fprintf(stderr, "hop validate RUNS | total RUNS PAGES... | unflushed RUNS PAGES... | stay RUNS PAGES USED\n"
                "    | phases RUNS PAGES USED | protect RUNS | periodic RUNS PAGES...\n"
                "with at most %d runs\n", MOST_RUNS);
        return 2;
    }
    test = open("/proc/tlb_migration_test", O_WRONLY);
    if (test < 0)
        fail("/proc/tlb_migration_test");
    kernel("counters");
    memory = mmap(0, MOST_PAGES * APART * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        fail("mmap");
    if (!strcmp(what, "validate"))
        validate(runs);
    else if (!strcmp(what, "protect"))
        protect(runs);
    else if (!strcmp(what, "stay") && argc == 5)
        stay(number_of_pages(argv[3]), number_of_pages(argv[4]), runs);
    else if (!strcmp(what, "phases") && argc == 5)
        phases(number_of_pages(argv[3]), number_of_pages(argv[4]), runs);
    else if (!strcmp(what, "periodic"))
        for (int point = 3; point < argc; point++)
            periodic(number_of_pages(argv[point]), runs);
    else
        for (int point = 3; point < argc; point++)
            total(what, number_of_pages(argv[point]), runs);
    return 0;
}
