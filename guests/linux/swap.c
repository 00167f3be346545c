/* swap: programs whose memory goes to swap and comes back, and that check what they read.
 *
 *   swap [PROCESSES [ROUNDS [SEED]]]
 *
 * Turns on swap to compressed memory (zram). PROCESSES fill memory of their own, of their parent, that all share and
 * that they execute. They sleep while one more touches more than is free, so that the kernel reclaims pages of all; then
 * they check it all and fill it anew, ROUNDS times. Ends with status 0 if every value was the expected one and pages came back.
 */
#define PROGRAM "swap"
#include "expect.h"

#include <sched.h>
#include <sys/swap.h>
#include <sys/sysinfo.h>

enum { MOST_PROCESSES = 16, PAGES = 49, /* a multiple of what `fill` skips */ BEYOND_FREE = 3 << 20, SWAP_PAGES = 16384 };

/* Of the whole run, which all share. */
static volatile struct {
    int rounds, ended;
    uint32_t counters[PAGES][MOST_PROCESSES][WORDS / MOST_PROCESSES];
} *shared;

static void write_file(const char *name, const void *from, size_t size)
{
    int file = open(name, O_WRONLY);

    if (file < 0 || write(file, from, size) != (ssize_t)size || close(file))
        fail(name);
}

/* A swap area's first page: the version of its format and its last page, and its name at the end. */
static void turn_swap_on(void)
{
    static uint32_t header[WORDS];
    char size[16];

    write_file("/sys/block/zram0/disksize", size, sprintf(size, "%d", SWAP_PAGES * PAGE));
    header[256] = 1;
    header[257] = SWAP_PAGES - 1;
    memcpy((char *)header + PAGE - 10, "SWAPSPACE2", 10);
    write_file("/dev/zram0", header, PAGE);
    if (swapon("/dev/zram0", 0))
        fail("swapon");
}

/* How often an event of /proc/vmstat has been. */
static unsigned long count_of(const char *event)
{
    char name[64];
    unsigned long count, found = 0;
    FILE *file = fopen("/proc/vmstat", "r");

    if (!file)
        fail("/proc/vmstat");
    while (fscanf(file, "%63s %lu", name, &count) == 2)
        if (!strcmp(name, event))
            found = count;
    fclose(file);
    return found;
}

/* Touches more pages than are free. Pages with one word throughout cost zram least. */
static void press(int rounds)
{
    struct sysinfo info;

    for (int round = 0; round < rounds; round++) {
        int pages;
        volatile uint32_t *at;

        sysinfo(&info);
        pages = (info.freeram * info.mem_unit + BEYOND_FREE) / PAGE;
        at = map(pages, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        for (int page = 0; page < pages; page++)
            for (int word = 0; word < WORDS; word++)
                at[page * WORDS + word] = page;
        for (int page = 0; page < pages; page += 5)
            expect("memory that presses", at + page * WORDS + page % WORDS, page);
        unmap(at, pages);
        shared->rounds++;
    }
    shared->ended = 1;
}

static void work(volatile uint32_t *parents, uint32_t seed)
{
    int file = scratch_file(PAGES), written = 0;
    uint32_t count = 0, copy, number = seed & 0xff, inherited = seed - worker;
    volatile uint32_t *own = map(PAGES, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    volatile uint32_t *of_file = map(PAGES, MAP_SHARED, file);
    uint32_t *code = mmap(0, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (code == MAP_FAILED)
        fail("mmap");
    write_code(code, number);
    fill(own, PAGES, seed);
    fill(of_file, PAGES, seed);
    while (!shared->ended) {
        int round = shared->rounds;

        while (shared->rounds == round && !shared->ended)
            usleep(20000);
        verify("own memory", own, PAGES, seed);
        verify("memory of the parent", parents + written * WORDS, PAGES - written, inherited + written * WORDS);
        if (written)
            verify("memory of the parent, written", parents, written, seed);
        if (written < PAGES)
            fill(parents, written += 7, seed);
        verify("mapped file", of_file, PAGES, seed);
        for (int page = 0; page < PAGES; page++) {
            if (pread(file, &copy, 4, page * PAGE) != 4)
                fail("read");
            if (page * WORDS % 7 == 0 && copy != seed + page * WORDS)
                wrong("file", of_file + page * WORDS, copy, seed + page * WORDS);
            expect("counter in shared memory", &shared->counters[page][worker][count % 64], count / 64);
            shared->counters[page][worker][count % 64]++;
        }
        count++;
        if (((uint32_t(*)(void))code)() != number)
            wrong("code", code, ((uint32_t(*)(void))code)(), number);
        fill(own, PAGES, ++seed);
        fill(of_file, PAGES, seed);
        fill(parents, written, seed);
        write_code(code, number = seed & 0xff);
    }
    _exit(0);
}

int main(int argc, char **argv)
{
    int processes = argc > 1 ? atoi(argv[1]) : 6, rounds = argc > 2 ? atoi(argv[2]) : 3, failed = 0;
    uint32_t seed = argc > 3 ? atoi(argv[3]) : 1;
    volatile uint32_t *parents = map(PAGES, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    unsigned long out, in;

    if (processes < 1 || processes > MOST_PROCESSES) {
        printf("swap: 1 to %d processes\n", MOST_PROCESSES);
        return 1;
    }
    shared = (void *)map((sizeof *shared + PAGE - 1) / PAGE, MAP_SHARED | MAP_ANONYMOUS, -1);
    turn_swap_on();
    fill(parents, PAGES, seed << 16);
    for (worker = 0; worker <= processes; worker++) {
        pid_t child = fork();

        if (child < 0)
            fail("fork");
        if (!child && worker < processes)
            work(parents, (seed << 16) + worker);
        if (!child) {
            press(rounds);
            _exit(0);
        }
    }
    for (int child = 0; child <= processes; child++) {
        int status;

        if (wait(&status) < 0)
            fail("wait");
        failed += status != 0;
        shared->ended |= status != 0;
    }
    out = count_of("pswpout");
    in = count_of("pswpin");
    printf("swap: %lu pages went out, %lu came back\n", out, in);
    printf("swap: %d processes, %d failed\n", processes, failed);
    return failed || !in;
}
