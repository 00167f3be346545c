/* meet: processes that take turns and meet: at the same address, on the same page, in the same file.
 *
 *   meet [NAME...]      all parts, or those that are named
 *
 * Each part brings about what a kernel that keeps cache lines and TLB entries over a switch could mix
 * up, and checks every value. Mappings that a scheme refuses are left out, silently, as it may refuse
 * them. Ends with status 0 if every value was the expected one.
 */
#define PROGRAM "meet"
#include "expect.h"

#include <sched.h>
#include <sys/ptrace.h>
#include <time.h>

enum { MOST = 16 };

/* Above 2 GB, where nothing is relocated, and each in a slot of its own (2 MB). */
#define PLACE       0x90000000ul
#define FILE_PLACE  0xa8000000ul

/* N processes do their parts one after the other, ROUNDS times; every one of them has to end well. */
static void in_turns(int processes, int rounds, void (*part)(int round))
{
    int turn[MOST][2];
    pid_t children[MOST];
    char byte = 0;

    fflush(stdout);
    for (int index = 0; index < processes; index++)
        if (pipe(turn[index]))
            fail("pipe");
    for (worker = 0; worker < processes; worker++) {
        children[worker] = fork();
        if (children[worker] < 0)
            fail("fork");
        if (!children[worker]) {
            for (int round = 0; round < rounds; round++) {
                if (read(turn[worker][0], &byte, 1) != 1)
                    fail("turn");
                part(round);
                if (write(turn[(worker + 1) % processes][1], &byte, 1) != 1)
                    fail("turn");
            }
            _exit(0);
        }
    }
    if (write(turn[0][1], &byte, 1) != 1)
        fail("turn");
    for (worker = 0; worker < processes; worker++)
        wait_for(children[worker], "process that takes turns");
    for (int index = 0; index < processes; index++) {
        close(turn[index][0]);
        close(turn[index][1]);
    }
}

/* A mapping at a place, or NULL where the scheme refuses it. */
static volatile uint32_t *map_at(unsigned long place, int pages, int protection, int flags, int file)
{
    void *at = mmap((void *)place, pages * PAGE, protection, flags | MAP_FIXED, file, 0);

    if (at == MAP_FAILED && errno == ENOMEM)
        return 0;
    if (at == MAP_FAILED)
        fail("mmap");
    return at;
}

static int is_readable(const volatile uint32_t *at)
{
    struct sigaction action = {.sa_handler = caught};

    sigaction(SIGSEGV, &action, 0);
    sigaction(SIGBUS, &action, 0);
    if (sigsetjmp(back, 1))
        return 0;
    (void)*at;
    return 1;
}

static int is_writable(volatile uint32_t *at, uint32_t word)
{
    struct sigaction action = {.sa_handler = caught};

    sigaction(SIGSEGV, &action, 0);
    sigaction(SIGBUS, &action, 0);
    if (sigsetjmp(back, 1))
        return 0;
    *at = word;
    return 1;
}

/* ---- memory of its own at the same address in all -------------------------------------------- */

static void same_place_turn(int round)
{
    static volatile uint32_t *at;

    if (!round)
        at = map_at(PLACE, 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (!at)
        return;
    if (round)
        verify("memory at the same address in all", at, 2, worker * 0x1000000 + round - 1);
    fill(at, 2, worker * 0x1000000 + round);
}

static void same_place(void)
{
    in_turns(4, 6, same_place_turn);
}

/* ---- tables that are freed and used again ----------------------------------------------------- */

static void tables_go(void)
{
    enum { TABLES = 4, SIZE = TABLES << 21 };
    uint8_t *at = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pid_t children[TABLES];
    int ready[2];
    char byte = 0;

    if (at == MAP_FAILED || pipe(ready))
        fail("mmap");
    for (int table = 0; table < TABLES; table++)
        at[table << 21] = table;
    if (munmap(at, SIZE))
        fail("munmap");
    for (int child = 0; child < TABLES; child++) { /* whose tables these pages are now */
        children[child] = fork();
        if (!children[child]) {
            if (write(ready[1], &byte, 1) != 1)
                fail("ready");
            pause();
        }
        if (read(ready[0], &byte, 1) != 1)
            fail("ready");
    }
    for (int page = 0; page < SIZE / PAGE; page++)
        if (is_readable((volatile uint32_t *)(at + page * PAGE)))
            wrong("read of memory whose tables were freed", at + page * PAGE, 1, 0);
    for (int child = 0; child < TABLES; child++) {
        kill(children[child], SIGKILL);
        waitpid(children[child], 0, 0);
    }
}

/* ---- a process as large as all slots ---------------------------------------------------------- */

static volatile uint32_t mine[WORDS] __attribute__((aligned(4096)));

static void over_others_turn(int round)
{
    enum { SLOT_BITS = 25, SLOTS = 88 };
    static volatile uint32_t *in_slot[SLOTS];

    for (unsigned long slot = 1; !worker && slot < SLOTS; slot++) {
        if (!round)
            in_slot[slot] = map_at(slot << SLOT_BITS | (unsigned long)mine, 1, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS, -1);
        if (!in_slot[slot])
            continue;
        /* a line of its own for each, so that they stay in the cache together */
        if (round)
            expect("memory of a large process", in_slot[slot] + slot * 8, slot + round - 1);
        in_slot[slot][slot * 8] = slot + round;
    }
    for (int word = 0; word < WORDS; word += 8) {
        if (round)
            expect("memory beside a large process", mine + word, worker * 0x10000 + round - 1);
        mine[word] = worker * 0x10000 + round;
    }
}

static void over_others(void)
{
    in_turns(4, 4, over_others_turn);
}

/* It unmaps each at once, and finds new memory in the next: few in a turn, so that what the others have in
 * the cache is still there. */
enum { IN_A_TURN = 4, TURNS = 22 };

static void over_others_again_turn(int round)
{
    unsigned long first = round * IN_A_TURN + 1;

    for (unsigned long slot = first; !worker && slot < first + IN_A_TURN; slot++) {
        volatile uint32_t *at = map_at(slot << 25 | (unsigned long)mine, 1, PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS, -1);

        if (!at)
            continue;
        for (int word = 0; word < WORDS; word += 8)
            expect("new memory of one that is large again", at + word, 0);
        unmap(at, 1);
    }
    for (int word = 0; word < WORDS; word += 8)
        mine[word] += worker + 1; /* read, too, since not all caches allocate a line for a store */
}

static void over_others_again(void)
{
    in_turns(4, TURNS, over_others_again_turn);
}

/* ---- memory of the one that ran before ------------------------------------------------------- */

/* More processes than there are domains, so that each gets the domain of the one before. It tries to read what that
 * has just written, by its modified virtual address: at fork the next process gets the next identifier. */
static void before_me_turn(int round)
{
    enum { SLOT_BITS = 25, IDENTIFIERS = 64 };
    static unsigned long identifier;
    unsigned long before = identifier > 1 ? identifier - 1 : IDENTIFIERS - 1;
    const volatile uint32_t *there = (void *)(before << SLOT_BITS | (unsigned long)mine);

    if (identifier && worker && is_readable(there))
        wrong("read of the memory of the one before", there, *there, 0);
    mine[0] = round + 1;
    /* what is its own it can read at this address, too */
    for (unsigned long some = 1; !round && some < IDENTIFIERS && !identifier; some++) {
        const volatile uint32_t *here = (void *)(some << SLOT_BITS | (unsigned long)mine);

        if (is_readable(here) && *here == mine[0])
            identifier = some;
    }
}

static void before_me(void)
{
    in_turns(MOST, 4, before_me_turn);
}

static uint32_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

/* From here on this process does not wait for others. */
static void be_urgent(void)
{
    struct sched_param priority = {.sched_priority = 50};

    if (syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &priority))
        fail("sched_setscheduler");
}

/* The same while another writes its memory whenever a timer wakes it: also in the middle of a switch. It sleeps four
 * times as long as it and the switches to it take, so that others get on. */
static void woken(void)
{
    struct timespec period = {.tv_nsec = 150000};
    uint32_t woke = now_ns();

    be_urgent();
    worker = MOST;
    for (uint32_t round = 0;; round++) {
        for (int word = 0; word < WORDS; word += 8) {
            if (round)
                expect("memory of one that is woken", mine + word, worker * 0x10000 + round - 1);
            mine[word] = worker * 0x10000 + round;
        }
        uint32_t asleep = now_ns();
        nanosleep(&period, 0);
        uint32_t busy = asleep - woke;
        woke = now_ns();
        busy += woke - asleep - (uint32_t)period.tv_nsec;
        period.tv_nsec = 4 * (busy < 40000 ? 40000 : busy < 50000000 ? busy : 50000000);
    }
}

static pid_t start(void (*part)(void))
{
    pid_t child = fork();

    if (child < 0)
        fail("fork");
    if (!child)
        part();
    return child;
}

/* Ends one that does not end by itself. */
static void end(pid_t child)
{
    int status;

    kill(child, SIGKILL);
    if (waitpid(child, &status, 0) != child)
        fail("wait");
    if (!WIFSIGNALED(status))
        wrong("process that is woken", 0, status, SIGKILL);
}

static void while_woken(void)
{
    pid_t child = start(woken);

    in_turns(3, 100, over_others_turn);
    end(child);
}

/* And while processes end in the middle of a switch of others: each is woken once, for that. */
static void end_often(void)
{
    for (uint32_t round = 0;; round++) {
        struct timespec while_others_switch = {.tv_nsec = 200000 + round % 16 * 50000};
        pid_t child = fork();

        if (child < 0)
            fail("fork");
        if (!child) {
            be_urgent();
            nanosleep(&while_others_switch, 0);
            _exit(0);
        }
        wait_for(child, "process that ends while others switch");
    }
}

static void while_ending(void)
{
    pid_t child = start(end_often);

    in_turns(3, 100, over_others_turn);
    end(child);
}

/* ---- tables that go while another uses the same addresses --------------------------------------- */

enum { TABLES_AT_PLACE = 64, OF_BOTH = 4, STEP = ((2 << 20) + PAGE) / 4 };

static int about_to_end[2];

static volatile uint32_t *map_tables(int tables)
{
    return map_at(PLACE, tables * STEP / WORDS, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
}

static void read_tables(const volatile uint32_t *at, int tables, uint32_t word)
{
    for (int table = 0; at && table < tables; table++)
        expect("memory where another's tables go", at + table * STEP, word);
}

/* It is told when another is about to end, and reads a little later each time: also between the moment in which
 * the other's tables go and that in which its TLB entries do. */
static void read_while_ending(void)
{
    volatile uint32_t *at = map_tables(OF_BOTH);
    struct timespec delay = {.tv_nsec = 1500000};
    char byte;

    for (int table = 0; at && table < OF_BOTH; table++)
        at[table * STEP] = MOST;
    be_urgent();
    for (;; delay.tv_nsec += delay.tv_nsec / 25) {
        if (read(about_to_end[0], &byte, 1) != 1)
            fail("about to end");
        nanosleep(&delay, 0);
        read_tables(at, OF_BOTH, MOST);
    }
}

static void tables_go_meanwhile(void)
{
    pid_t reader;
    char byte = 0;

    if (pipe(about_to_end))
        fail("pipe");
    reader = start(read_while_ending);
    for (int round = 0; round < 32; round++) {
        pid_t child = fork();

        if (child < 0)
            fail("fork");
        if (!child) {
            volatile uint32_t *at = map_tables(TABLES_AT_PLACE);
            read_tables(at, TABLES_AT_PLACE, 0);
            read_tables(at, OF_BOTH, 0);
            if (write(about_to_end[1], &byte, 1) != 1)
                fail("about to end");
            _exit(0);
        }
        wait_for(child, "process that ends with its tables");
    }
    end(reader);
    close(about_to_end[0]);
    close(about_to_end[1]);
}

/* ---- a file, read by mapping and written by others -------------------------------------------- */

static int file;

static void file_of_others_turn(int round)
{
    static volatile uint32_t *at;
    static uint32_t words[WORDS];

    if (worker == 0) {
        fill(words, 1, round << 16);
        if (pwrite(file, words, PAGE, 0) != PAGE)
            fail("write");
    } else {
        if (!round)
            at = mmap(0, PAGE, PROT_READ, MAP_PRIVATE, file, 0);
        if (at == MAP_FAILED)
            fail("mmap");
        verify("private mapping after another wrote its file", at, 1, round << 16);
    }
}

static void file_of_others(void)
{
    file = scratch_file(1);
    in_turns(3, 10, file_of_others_turn);
    close(file);
}

/* ---- shared memory, written by a tracer ------------------------------------------------------- */

static void traced_share(void)
{
    enum { STEP = 32 };
    volatile uint32_t *at = map(1, MAP_SHARED | MAP_ANONYMOUS, -1);
    pid_t child = fork();
    int status;

    if (child < 0)
        fail("fork");
    if (!child) {
        if (ptrace(PTRACE_TRACEME, 0, 0, 0))
            fail("ptrace");
        for (uint32_t turn = 0; turn < 4; turn++) {
            for (int word = 0; word < WORDS; word += STEP)
                expect("shared memory after its tracer wrote it", at + word, turn);
            raise(SIGSTOP);
        }
        _exit(0);
    }
    for (uintptr_t turn = 1; turn < 5; turn++) {
        if (waitpid(child, &status, 0) != child)
            fail("wait");
        if (!WIFSTOPPED(status))
            wrong("traced process", 0, status, 0);
        for (int word = 0; word < WORDS; word += STEP)
            if (ptrace(PTRACE_POKEDATA, child, (void *)(at + word), (void *)turn))
                fail("poke");
        ptrace(PTRACE_CONT, child, 0, 0);
    }
    wait_for(child, "traced process");
    unmap(at, 1);
}

/* ---- the same file at the same address -------------------------------------------------------- */

static volatile uint32_t *shared;

static void same_file_turn(int round)
{
    if (!round)
        shared = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (shared == MAP_FAILED)
        fail("mmap");
    expect("counter in a file", shared, 4 * round + worker);
    shared[0]++;
}

static void same_file_again_turn(int round)
{
    if (!round)
        shared = map_at(FILE_PLACE, 2, PROT_READ | PROT_WRITE, MAP_SHARED, file);
    if (!shared)
        return;
    if (worker == 3 && round == 1) { /* the same memory cannot be written any more, only here */
        if (mprotect((void *)shared, 2 * PAGE, PROT_READ))
            fail("mprotect");
        if (is_writable(shared + 9, 77))
            wrong("write of a file that was protected", shared, 1, 0);
    }
    if (worker == 2 && round == 2) { /* gone here, and something else in its place */
        unmap(shared, 2);
        if (is_readable(shared))
            wrong("file that was unmapped", shared, 1, 0);
        shared = map_at(FILE_PLACE, 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    }
    if (worker == 2 && round > 1) {
        expect("memory where a file was", shared, round == 2 ? 0 : round - 1);
        shared[0] = round;
        return;
    }
    if (worker == 0)
        shared[0] = 100 + round;
    expect("shared memory at the same address", shared, 100 + round);
    expect("shared memory that was protected in one", shared + 9, 0);
}

static void same_file(void)
{
    file = scratch_file(2);
    in_turns(4, 5, same_file_turn);
    if (ftruncate(file, 0) || ftruncate(file, 2 * PAGE))
        fail("ftruncate");
    in_turns(4, 6, same_file_again_turn);
    close(file);
}

/* Different things at the address of a file that others have there: less of it, for reading only,
 * another file. */
static void unlike_turn(int round)
{
    static int other;

    if (!round) {
        if (worker == 3) {
            other = scratch_file(2);
            shared = map_at(FILE_PLACE, 2, PROT_READ | PROT_WRITE, MAP_SHARED, other);
        } else if (worker == 2) {
            shared = map_at(FILE_PLACE, 2, PROT_READ, MAP_SHARED, file);
        } else if (worker == 1) {
            shared = map_at(FILE_PLACE, 1, PROT_READ | PROT_WRITE, MAP_SHARED, file);
            if (shared)
                map_at(FILE_PLACE + PAGE, 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        } else {
            shared = map_at(FILE_PLACE, 2, PROT_READ | PROT_WRITE, MAP_SHARED, file);
        }
    }
    if (!shared)
        return;
    if (worker == 0) {
        shared[0] = 200 + round;
        shared[WORDS] = 300 + round;
    } else if (worker == 1) {
        expect("file with other memory behind it", shared, 200 + round);
        if (round)
            expect("memory behind a file", shared + WORDS, round - 1);
        shared[WORDS] = round;
    } else if (worker == 2) {
        expect("file for reading", shared + WORDS, 300 + round);
        if (is_writable(shared + 5, 1))
            wrong("write of a file for reading", shared, 1, 0);
    } else {
        if (round)
            expect("another file at the same address", shared, round - 1);
        shared[0] = round;
    }
}

static void unlike(void)
{
    file = scratch_file(2);
    in_turns(4, 5, unlike_turn);
    close(file);
}

/* Two read a file by private mappings, whose lines the cache keeps, and one another file at the same address. */
static void unlike_lines_turn(int round)
{
    static uint32_t words[WORDS];
    static volatile uint32_t *at;

    if (!round) {
        int own = worker == 2 ? scratch_file(1) : file;
        if (worker == 2) {
            fill(words, 1, 900);
            if (pwrite(own, words, PAGE, 0) != PAGE)
                fail("write");
        }
        at = map_at(FILE_PLACE, 1, PROT_READ, MAP_PRIVATE, own);
    }
    if (at)
        verify("private mapping at the address of another file", at, 1, worker == 2 ? 900 : 100);
}

static void unlike_lines(void)
{
    static uint32_t words[WORDS];

    file = scratch_file(1);
    fill(words, 1, 100);
    if (pwrite(file, words, PAGE, 0) != PAGE)
        fail("write");
    in_turns(3, 5, unlike_lines_turn);
    close(file);
}

/* One of those that share a file has memory of its own right behind it. */
static void beside_turn(int round)
{
    static volatile uint32_t *own;

    if (!round) {
        shared = map_at(FILE_PLACE, 2, PROT_READ | PROT_WRITE, MAP_SHARED, file);
        if (shared && !worker)
            own = map_at(FILE_PLACE + 2 * PAGE, 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    }
    if (!shared)
        return;
    if (own) {
        if (round)
            expect("memory behind a file", own, round - 1);
        own[0] = round;
    } else if (is_readable(shared + 2 * WORDS)) {
        wrong("read of what another has behind a file", shared + 2 * WORDS, 1, 0);
    }
    if (round)
        expect("file with another's memory behind it", shared, worker ? round : round - 1);
    shared[0] = round;
}

static void beside(void)
{
    file = scratch_file(2);
    in_turns(3, 4, beside_turn);
    close(file);
}

/* A child that was not to get its parent's mapping, and one that gives it up before it uses it. */
static void not_inherited(void)
{
    pid_t child;

    file = scratch_file(1);
    shared = map_at(FILE_PLACE, 1, PROT_READ | PROT_WRITE, MAP_SHARED, file);
    if (!shared)
        return;
    shared[0] = 1;
    child = fork();
    if (child < 0)
        fail("fork");
    if (!child) {
        unmap(shared, 1);
        _exit(is_readable(shared));
    }
    wait_for(child, "child that unmapped what it never used");
    if (madvise((void *)shared, PAGE, MADV_DONTFORK))
        fail("madvise");
    child = fork();
    if (child < 0)
        fail("fork");
    if (!child)
        _exit(is_readable(shared));
    wait_for(child, "child that was to have no mapping");
    unmap(shared, 1);
    close(file);
}

/* What a file says is read by all at one address; one gets a page of its own from its tracer. */
static void traced_file_turn(int round)
{
    if (!round)
        shared = map_at(FILE_PLACE, 2, PROT_READ, MAP_PRIVATE, file);
    if (!shared)
        return;
    expect("file, by a private mapping", shared, 7);
    if (worker == 1 && round == 2) {
        pid_t traced = fork();
        if (traced < 0)
            fail("fork");
        if (!traced) {
            if (ptrace(PTRACE_TRACEME, 0, 0, 0))
                fail("ptrace");
            raise(SIGSTOP);
            expect("private mapping that its tracer wrote", shared, 8);
            expect("private mapping beside", shared + WORDS, 7);
            _exit(0);
        }
        if (waitpid(traced, 0, 0) != traced || ptrace(PTRACE_POKEDATA, traced, (void *)shared, (void *)8)
            || ptrace(PTRACE_DETACH, traced, 0, 0))
            fail("ptrace");
        wait_for(traced, "traced process");
    }
}

static void traced_file(void)
{
    uint32_t word = 7;

    file = scratch_file(2);
    if (pwrite(file, &word, 4, 0) != 4 || pwrite(file, &word, 4, PAGE) != 4)
        fail("write");
    in_turns(3, 5, traced_file_turn);
    close(file);
}

static const struct {
    const char *name;
    void (*run)(void);
} parts[] = {
    {"same_place", same_place},         {"tables_go", tables_go},       {"over_others", over_others},
    {"over_others_again", over_others_again}, {"before_me", before_me},
    {"while_woken", while_woken},       {"while_ending", while_ending},
    {"tables_go_meanwhile", tables_go_meanwhile},
    {"file_of_others", file_of_others}, {"traced_share", traced_share}, {"same_file", same_file},
    {"unlike", unlike},                 {"unlike_lines", unlike_lines},
    {"beside", beside},                 {"not_inherited", not_inherited},
    {"traced_file", traced_file},
};

int main(int argc, char **argv)
{
    int failed = 0, done = 0;

    setvbuf(stdout, 0, _IOLBF, 0);
    for (unsigned index = 0; index < sizeof parts / sizeof *parts; index++) {
        int wanted = argc < 2, status;

        for (int argument = 1; argument < argc; argument++)
            wanted |= !strcmp(argv[argument], parts[index].name);
        if (!wanted)
            continue;
        if (!fork()) {
            parts[index].run();
            _exit(0);
        }
        if (wait(&status) < 0)
            fail("wait");
        if (status)
            printf("meet: %s failed\n", parts[index].name);
        failed += status != 0;
        done++;
    }
    printf("meet: %d parts, %d failed\n", done, failed);
    return failed || !done;
}
