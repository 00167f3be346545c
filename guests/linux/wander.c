/* wander: threads that migrate all the time while their memory changes.
 *
 *   wander stress PROCESSES ROUNDS [SEED]   checks all that it reads
 *   wander stale                            an attack: another process' page, by an entry that outlived its mapping
 *   wander rollover saved|restored          an attack: another process' pages, by an identifier that was given out again before
 *                                           entries were saved, or before they were restored
 *   wander rollover taken                   the same by entries that a core still has of an identifier that was given out again
 *   wander forks FORKS                      a process forks over and over while its other threads wander and store, and
 *                                           others use up identifiers
 *
 * In `stress` each of PROCESSES has four threads, and each of these makes ROUNDS rounds: it goes to a core, or lets
 * another thread run, and then does one of: mmap over its own page or another thread's, mprotect, madvise, munmap, fork,
 * a thread that ends. Ends with status 0 if every value was one that it may be.
 */
#define PROGRAM "wander"
#include "expect.h"

#include <pthread.h>
#include <sched.h>

enum { CORES = 4, THREADS = 4, OWN_PAGES = 8, SHARED_WORD = 1 };

static void go_to(pid_t who, int core)
{
    cpu_set_t cores;

    CPU_ZERO(&cores);
    CPU_SET(core, &cores);
    if (sched_setaffinity(who, sizeof cores, &cores))
        fail("sched_setaffinity");
}

/* ---- stress --------------------------------------------------------------------------------- */

/* A thread's pages and what is in the first word of each; one more that all threads replace. */
struct thread {
    pthread_t id;
    int number;
    uint32_t state;
    volatile uint32_t *own, *shared;
    uint32_t want[OWN_PAGES];
};

static struct thread threads[THREADS];
static int rounds;

static uint32_t draw(struct thread *thread, uint32_t below)
{
    thread->state ^= thread->state << 13;
    thread->state ^= thread->state >> 17;
    thread->state ^= thread->state << 5;
    return thread->state % below;
}

static void map_at(volatile uint32_t *at, int pages)
{
    if (mmap((void *)at, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        fail("mmap");
}

static void protect(volatile uint32_t *at, int how)
{
    if (mprotect((void *)at, PAGE, how))
        fail("mprotect");
}

/* What a page of this thread may have that all replace: what they write, or nothing yet. */
static uint32_t tag(const struct thread *thread)
{
    return 0x57a90000 | worker << 8 | thread->number;
}

static void store(struct thread *thread, int page)
{
    thread->want[page] = thread->state;
    thread->own[page * WORDS] = thread->want[page];
}

static void verify_all(struct thread *thread)
{
    for (int page = 0; page < OWN_PAGES; page++)
        expect("a page of its own", thread->own + page * WORDS, thread->want[page]);
}

static void replace(struct thread *thread, int page)
{
    volatile uint32_t *at = thread->own + page * WORDS;

    if (draw(thread, 2)) {
        /* Nothing else that is mapped here fits into one page. */
        unmap(at, 1);
        go_to(0, draw(thread, CORES));
        if (!sigsetjmp(back, 1))
            wrong("a page that is not mapped", at, at[0], 0);
    }
    map_at(at, 1);
    expect("a fresh page", at, 0);
    store(thread, page);
}

static void forget(struct thread *thread, int page)
{
    volatile uint32_t *at = thread->own + page * WORDS;

    if (madvise((void *)at, PAGE, MADV_DONTNEED))
        fail("madvise");
    expect("a page that was given back", at, 0);
    store(thread, page);
}

static void take_right(struct thread *thread, int page)
{
    volatile uint32_t *at = thread->own + page * WORDS;

    protect(at, PROT_READ);
    go_to(0, draw(thread, CORES));
    if (!sigsetjmp(back, 1)) {
        at[0] = 0;
        wrong("a write to what is read-only", at, at[0], thread->want[page]);
    }
    expect("a page after a write that it did not take", at, thread->want[page]);
    protect(at, PROT_READ | PROT_WRITE);
    store(thread, page);
}

static void replace_shared(struct thread *thread)
{
    struct thread *other = &threads[draw(thread, THREADS)];

    map_at(other->shared, 1);
    other->shared[SHARED_WORD] = tag(other);
}

static void read_shared(struct thread *thread)
{
    for (int at = 0; at < THREADS; at++) {
        uint32_t have = threads[at].shared[SHARED_WORD];
        if (have && have != tag(&threads[at]))
            wrong("a page that all replace", threads[at].shared, have, tag(&threads[at]));
    }
    (void)thread;
}

static void fork_one(struct thread *thread)
{
    pid_t child = fork();

    if (child < 0)
        fail("fork");
    if (!child) {
        go_to(0, draw(thread, CORES));
        verify_all(thread);
        store(thread, 0);
        go_to(0, draw(thread, CORES));
        verify_all(thread);
        _exit(0);
    }
    thread->state += 1;
    store(thread, 0);
    go_to(0, draw(thread, CORES));
    verify_all(thread);
    wait_for(child, "child");
}

static void *short_life(void *argument)
{
    verify_all(argument);
    return 0;
}

static void thread_one(struct thread *thread)
{
    pthread_t id;

    if (pthread_create(&id, 0, short_life, thread) || pthread_join(id, 0))
        fail("thread");
}

static void *life(void *argument)
{
    struct thread *thread = argument;

    for (int round = 0; round < rounds; round++) {
        int page = draw(thread, OWN_PAGES);
        if (draw(thread, 8))
            go_to(0, draw(thread, CORES));
        else
            sched_yield();
        verify_all(thread);
        switch (draw(thread, 32)) {
        case 0 ... 3: replace(thread, page); break;
        case 4 ... 6: forget(thread, page); break;
        case 7 ... 9: take_right(thread, page); break;
        case 10 ... 12: replace_shared(thread); break;
        case 13: fork_one(thread); break;
        case 14: thread_one(thread); break;
        default: read_shared(thread); break;
        }
    }
    return 0;
}

static int process(uint32_t seed)
{
    struct sigaction action = {.sa_handler = caught};

    sigaction(SIGSEGV, &action, 0);
    for (int number = 0; number < THREADS; number++) {
        struct thread *thread = &threads[number];
        thread->number = number;
        thread->state = (seed * THREADS + number) * 2654435761u | 1;
        thread->own = map(OWN_PAGES, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        thread->shared = map(1, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        for (int page = 0; page < OWN_PAGES; page++)
            store(thread, page);
    }
    for (int number = 0; number < THREADS; number++)
        if (pthread_create(&threads[number].id, 0, life, &threads[number]))
            fail("pthread_create");
    for (int number = 0; number < THREADS; number++)
        pthread_join(threads[number].id, 0);
    return 0;
}

static int stress(int processes, uint32_t seed)
{
    int failed = 0;

    for (worker = 0; worker < processes; worker++) {
        pid_t child = fork();
        if (child < 0)
            fail("fork");
        if (!child)
            _exit(process(seed * processes + worker + 1));
    }
    for (int child = 0; child < processes; child++) {
        int status;
        if (wait(&status) < 0)
            fail("wait");
        failed += status != 0;
    }
    printf("wander: %d processes of %d threads, %d rounds each, %d failed\n", processes, THREADS, rounds, failed);
    return failed != 0;
}

/* ---- stale ---------------------------------------------------------------------------------- */

/* The attacker has two threads. The reader reads a page on core 0, over and over. The mover, on core 1, gives it core
 * 1, where it has to wait, since it runs only where nobody else does: its entries are saved now. Then the mover unmaps the page and
 * sleeps, and the victim, on core 1 too, gets the freed page for its secret, when it has taken as many as the kernel keeps
 * together. When all sleep the reader is switched to, and its entries are restored. */
enum { MINE = 0x0badf00d, SECRET = 0x5ec2e700, VICTIM_PAGES = 64, READER_CORE = 0, MOVER_CORE = 1, PATIENCE = 200000 };

static volatile uint32_t *attacked;
static volatile pid_t reader;
static volatile int seen, is_moved;

static void *read_over_and_over(void *unused)
{
    struct sched_param none = {0};

    (void)unused;
    /* The C library (musl) leaves this call out. */
    if (syscall(SYS_sched_setscheduler, 0, SCHED_IDLE, &none))
        fail("SCHED_IDLE");
    go_to(0, READER_CORE);
    reader = sched_getcpu() == READER_CORE ? gettid() : 0;
    if (sigsetjmp(back, 1))
        return 0;
    for (;;) {
        int last = is_moved;
        uint32_t have = attacked[SHARED_WORD];
        if (last)
            return (void *)(uintptr_t)have;
        seen = 1;
    }
}

static void keep_secret(int begin, int ready)
{
    char byte;
    volatile uint32_t *at;

    go_to(0, MOVER_CORE);
    if (write(ready, "", 1) != 1 || read(begin, &byte, 1) != 1)
        fail("victim");
    at = map(VICTIM_PAGES, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    for (int page = 0; page < VICTIM_PAGES; page++)
        at[page * WORDS + SHARED_WORD] = SECRET + page;
    if (write(ready, "", 1) != 1 || read(begin, &byte, 1) != 0)
        fail("victim");
    _exit(0);
}

static int stale(void)
{
    struct sigaction action = {.sa_handler = caught};
    int begin[2], ready[2];
    pthread_t id;
    void *have;
    char byte;
    pid_t victim;

    if (pipe(begin) || pipe(ready))
        fail("pipe");
    victim = fork();
    if (victim < 0)
        fail("fork");
    if (!victim) {
        close(begin[1]);
        keep_secret(begin[0], ready[1]);
    }
    if (read(ready[0], &byte, 1) != 1)
        fail("victim");
    sigaction(SIGSEGV, &action, 0);
    go_to(0, MOVER_CORE);
    attacked = map(1, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    attacked[SHARED_WORD] = MINE;
    if (pthread_create(&id, 0, read_over_and_over, 0))
        fail("pthread_create");
    while (!reader || !seen)
        sched_yield();
    for (volatile int wait = 0; wait < PATIENCE; wait++)
        ;
    go_to(reader, MOVER_CORE);
    unmap(attacked, 1);
    if (write(begin[1], "", 1) != 1 || read(ready[0], &byte, 1) != 1)
        fail("victim");
    is_moved = 1;
    pthread_join(id, &have);
    close(begin[1]);
    wait_for(victim, "victim");
    if (((uintptr_t)have & ~0xff) == SECRET)
        printf("wander: stale: read 0x%08x, which another process wrote\n", (unsigned)(uintptr_t)have);
    else if (have)
        printf("wander: stale: read 0x%08x of a page that is no longer mapped\n", (unsigned)(uintptr_t)have);
    else
        printf("wander: stale: the page is gone\n");
    return 0;
}

/* ---- rollover -------------------------------------------------------------------------------- */

/* A process that waits, runnable, on core 0 is given core 1 by a director, which together with its children keeps core 0
 * for itself: they run before all others. Beside the migration as many children run as there are identifiers, so that one of
 * the last gets that of the process. These last ones stay, each with a page of its own.
 *
 * saved: the children run first. Entries of the process' identifier on core 0 are then a child's, and the process reads
 * the children's pages.
 *
 * restored: the migration comes first, but on core 1 a hog lets nobody else run. Then the children run, and the hog ends. What was
 * saved is entered, and the children read the process' pages. */
enum { CHILDREN = 256, LAST = 6, DIRECTOR_PRIORITY = 10, SLOT = 16 };

/* What all of them see: how many are ready, two flags, and what was found. A line of the cache each. */
struct common {
    volatile uint32_t ready[SLOT], go[SLOT], stop[SLOT], found[LAST][SLOT];
};

static struct common *common;
static volatile uint32_t *pages;

static void run_before_others(void)
{
    struct sched_param first = {.sched_priority = DIRECTOR_PRIORITY};

    /* The C library (musl) leaves this call out. */
    if (syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &first))
        fail("SCHED_FIFO");
}

/* Reads a page that is not mapped here. */
static void look(int page)
{
    if (!sigsetjmp(back, 1))
        common->found[page][0] = pages[page * WORDS + SHARED_WORD];
}

/* The process that is migrated: uses its pages until it is told, then looks for those of others. */
_Noreturn static void wait_on_core_0(int has_secret)
{
    go_to(0, READER_CORE);
    for (int page = 0; has_secret && page < LAST; page++)
        pages[page * WORDS + SHARED_WORD] = SECRET + page;
    if (!has_secret)
        unmap(pages, LAST);
    common->ready[0] = 1;
    while (!common->go[0])
        for (int page = 0; has_secret && page < LAST; page++)
            (void)pages[page * WORDS + SHARED_WORD];
    for (volatile int page = 0; !has_secret && page < LAST; page++)
        look(page);
    _exit(0);
}

_Noreturn static void keep_core_1(void)
{
    go_to(0, MOVER_CORE);
    common->ready[0] += 1;
    while (!common->stop[0])
        ;
    _exit(0);
}

/* One of the last children, which uses its page whenever it is told, or, where it has none, looks for those of others. */
_Noreturn static void use_identifier(int number, int has_secret, int begin, int ready)
{
    char byte;

    if (!has_secret)
        unmap(pages, LAST);
    while (write(ready, "", 1) == 1 && read(begin, &byte, 1) == 1) {
        if (has_secret) {
            pages[number * WORDS + SHARED_WORD] = SECRET + number;
        } else {
            go_to(0, MOVER_CORE);
            look(number);
        }
    }
    _exit(0);
}

static void hear(const int from[2])
{
    char byte;

    if (read(from[0], &byte, 1) != 1)
        fail("child");
}

static void tell_all(const int to[][2], const int from[][2])
{
    for (int child = 0; child < LAST; child++) {
        if (write(to[child][1], "", 1) != 1)
            fail("child");
        hear(from[child]);
    }
}

static int say_what_was_found(void)
{
    for (int page = 0; page < LAST; page++)
        if (common->found[page][0] == (uint32_t)SECRET + page) {
            printf("wander: rollover: read 0x%08x, which another process wrote\n", (unsigned)common->found[page][0]);
            return 0;
        }
    printf("wander: rollover: the pages are not there\n");
    return 0;
}

/* Where the first switch on a core since the rollover invalidates what all cores have, it shall not come later. */
static pid_t visit_other_cores(void)
{
    pid_t visitor = fork();

    if (!visitor) {
        for (int core = CORES - 1; core > READER_CORE; core--)
            go_to(0, core);
        common->ready[0] = 2;
        _exit(0);
    }
    /* Only to who runs before others, too, and without sleep: core 0 is kept. */
    while (common->ready[0] != 2)
        sched_yield();
    return visitor;
}

static int rollover(int children_have_secret)
{
    struct sigaction action = {.sa_handler = caught};
    int begin[LAST][2], ready[LAST][2];
    pid_t process, hog = 0, visitor = 0, children[LAST];

    sigaction(SIGSEGV, &action, 0);
    common = (struct common *)map((sizeof *common + PAGE - 1) / PAGE, MAP_SHARED | MAP_ANONYMOUS, -1);
    pages = map(LAST, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    process = fork();
    if (!process)
        wait_on_core_0(!children_have_secret);
    while (!common->ready[0])
        sched_yield();
    /* What ran last on a core keeps its identifier: that shall not be the process. */
    for (int core = CORES - 1; core > READER_CORE; core--)
        go_to(0, core);
    run_before_others();
    go_to(0, READER_CORE);
    if (!children_have_secret) {
        hog = fork();
        if (!hog)
            keep_core_1();
        while (common->ready[0] != 2)
            sched_yield();
        go_to(process, MOVER_CORE);
    }
    for (int child = LAST - CHILDREN; child < LAST; child++) {
        pid_t id;
        if (child >= 0 && (pipe(begin[child]) || pipe(ready[child])))
            fail("pipe");
        id = fork();
        if (id < 0)
            fail("fork");
        if (!id && child >= 0)
            use_identifier(child, children_have_secret, begin[child][0], ready[child][1]);
        if (!id)
            _exit(0);
        if (child < 0) {
            wait_for(id, "child");
        } else {
            children[child] = id;
            hear(ready[child]);
        }
    }
    if (children_have_secret) {
        visitor = visit_other_cores();
        tell_all(begin, ready);
        tell_all(begin, ready);
        go_to(process, MOVER_CORE);
    }
    /* The process is switched to on core 1 while nobody else is there. */
    go_to(0, MOVER_CORE + 1);
    common->stop[0] = 1;
    if (hog)
        wait_for(hog, "hog");
    if (visitor)
        wait_for(visitor, "visitor");
    usleep(1000);
    if (!children_have_secret)
        tell_all(begin, ready);
    common->go[0] = 1;
    wait_for(process, "process");
    for (int child = 0; child < LAST; child++) {
        kill(children[child], SIGKILL);
        waitpid(children[child], 0, 0);
    }
    return say_what_was_found();
}

/* taken: keepers of secrets run on core 0, each with an identifier of its own, and stop. Then a hog keeps core 0, which does not
 * switch any more, and so keeps their entries. A director on core 2 begins children until all identifiers were given out,
 * and on, so that those of the keepers are given out again. Now and then one of many processes that have run on core 0 goes on, on
 * core 1. Some get a keeper's identifier, and if they get what core 0 has of it, too, they read the secret. */
enum { STOPPED = 96, CHILDREN_BETWEEN = LAST - 1, HOG_PRIORITY = DIRECTOR_PRIORITY + 1 };

/* Begins a process, of these or a keeper; gives it when it has run on core 0 and stopped. */
static pid_t begin_on_core_0(int number, int has_secret)
{
    int status;
    pid_t id = fork();

    if (id < 0)
        fail("fork");
    if (!id) {
        go_to(0, READER_CORE);
        if (has_secret)
            pages[number * WORDS + SHARED_WORD] = SECRET + number;
        else
            unmap(pages, LAST);
        raise(SIGSTOP);
        for (volatile int page = 0; !has_secret && page < LAST; page++)
            look(page);
        _exit(0);
    }
    if (waitpid(id, &status, WUNTRACED) != id || !WIFSTOPPED(status))
        fail("process");
    return id;
}

static pid_t begin_hog(void)
{
    struct sched_param before_all = {.sched_priority = HOG_PRIORITY};
    pid_t id = fork();

    if (id < 0)
        fail("fork");
    if (id) {
        while (!common->ready[0])
            sched_yield();
        return id;
    }
    go_to(0, READER_CORE);
    if (syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &before_all))
        fail("SCHED_FIFO");
    common->ready[0] = 1;
    while (!common->stop[0])
        ;
    _exit(0);
}

static int taken(void)
{
    struct sigaction action = {.sa_handler = caught};
    pid_t stopped[STOPPED], keepers[LAST], hog;

    sigaction(SIGSEGV, &action, 0);
    common = (struct common *)map((sizeof *common + PAGE - 1) / PAGE, MAP_SHARED | MAP_ANONYMOUS, -1);
    pages = map(LAST, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    go_to(0, MOVER_CORE + 1);
    for (int one = 0; one < STOPPED; one++)
        stopped[one] = begin_on_core_0(one, 0);
    for (int one = 0; one < LAST; one++)
        keepers[one] = begin_on_core_0(one, 1);
    hog = begin_hog();
    for (int one = 0; one < STOPPED; one++) {
        for (int child = 0; child < CHILDREN_BETWEEN; child++) {
            pid_t id = fork();
            if (!id)
                _exit(0);
            wait_for(id, "child");
        }
        go_to(stopped[one], MOVER_CORE);
        kill(stopped[one], SIGCONT);
        wait_for(stopped[one], "process");
    }
    common->stop[0] = 1;
    wait_for(hog, "hog");
    for (int one = 0; one < LAST; one++) {
        kill(keepers[one], SIGKILL);
        waitpid(keepers[one], 0, 0);
    }
    return say_what_was_found();
}

/* ---- forks ---------------------------------------------------------------------------------- */

/* fork write-protects the pages of a process and invalidates their entries at its end; until then its other threads may store by
 * the old ones. But a core that has invalidated its whole TLB meanwhile, since identifiers were given out again, may not. So
 * here one process, with many pages, is in fork most of the time, two threads of it store and wander, and two processes
 * fork to use up identifiers. */
enum { FORKED_PAGES = 192, WANDERERS = 2, FORKERS = 2 };

static void *store_and_wander(void *argument)
{
    struct thread *thread = argument;

    while (!common->stop[0]) {
        for (int page = 0; page < OWN_PAGES; page++) {
            draw(thread, CORES);
            store(thread, page);
        }
        go_to(0, draw(thread, CORES));
        verify_all(thread);
    }
    return 0;
}

static void fork_and_wait(void)
{
    pid_t child = fork();

    if (child < 0)
        fail("fork");
    if (!child)
        _exit(0);
    wait_for(child, "child");
}

static int forks(int number)
{
    pid_t forkers[FORKERS];

    common = (struct common *)map((sizeof *common + PAGE - 1) / PAGE, MAP_SHARED | MAP_ANONYMOUS, -1);
    for (int one = 0; one < FORKERS; one++) {
        forkers[one] = fork();
        if (forkers[one] < 0)
            fail("fork");
        if (!forkers[one]) {
            while (!common->stop[0])
                fork_and_wait();
            _exit(0);
        }
    }
    fill(map(FORKED_PAGES, MAP_PRIVATE | MAP_ANONYMOUS, -1), FORKED_PAGES, SECRET);
    for (int one = 0; one < WANDERERS; one++) {
        threads[one].state = one + 1;
        threads[one].own = map(OWN_PAGES, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        if (pthread_create(&threads[one].id, 0, store_and_wander, &threads[one]))
            fail("pthread_create");
    }
    while (number--)
        fork_and_wait();
    common->stop[0] = 1;
    for (int one = 0; one < WANDERERS; one++)
        pthread_join(threads[one].id, 0);
    for (int one = 0; one < FORKERS; one++)
        wait_for(forkers[one], "forker");
    printf("wander: forks: all was as it was stored\n");
    return 0;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, 0, _IOLBF, 0);
    rounds = argc > 3 ? atoi(argv[3]) : 0;
    if (argc > 3 && !strcmp(argv[1], "stress"))
        return stress(atoi(argv[2]), argc > 4 ? atoi(argv[4]) : 1);
    if (argc == 2 && !strcmp(argv[1], "stale"))
        return stale();
    if (argc == 3 && !strcmp(argv[1], "rollover") && (!strcmp(argv[2], "saved") || !strcmp(argv[2], "restored")))
        return rollover(!strcmp(argv[2], "saved"));
    if (argc == 3 && !strcmp(argv[1], "rollover") && !strcmp(argv[2], "taken"))
        return taken();
    if (argc == 3 && !strcmp(argv[1], "forks"))
        return forks(atoi(argv[2]));
    fprintf(stderr, "wander stress PROCESSES ROUNDS [SEED] | wander stale | wander rollover saved|restored|taken | "
                    "wander forks FORKS\n");
    return 2;
}
