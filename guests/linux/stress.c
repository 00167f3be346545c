/* stress: programs that use memory in every way and check what they read.
 *
 *   stress [PROCESSES [ROUNDS [SEED]]]
 *   stress limits      says what a mapping above 32 MB meets
 *   stress dirty SECONDS   two processes in turns write what they share
 *
 * PROCESSES at a time, each with random numbers of its own, do ROUNDS of: copy on write after fork,
 * mmap, munmap, mremap and mprotect, mappings beyond 32 MB, memory shared at different addresses, file mappings against
 * read() and write(), threads, signals, ptrace, exec, code that is written and run. Ends with status
 * 0 if every value was the expected one.
 */
#define PROGRAM "stress"
#include "expect.h"

#include <pthread.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/shm.h>
#include <time.h>

enum { MOST_PAGES = 16, LARGE = 40 << 20 };

static uint32_t state;

static uint32_t draw(uint32_t below)
{
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state % below;
}

/* ---- what a round may do -------------------------------------------------------------------- */

static void copy_on_write(void)
{
    int pages = 1 + draw(MOST_PAGES), parent_first = draw(2);
    uint32_t seed = draw(1u << 31);
    volatile uint32_t *at = map(pages, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    pid_t child;

    fill(at, pages, seed);
    child = fork();
    if (child < 0)
        fail("fork");
    if (!child) {
        if (parent_first)
            sched_yield();
        verify("memory of the parent in the child", at, pages, seed);
        fill(at, pages, ~seed);
        sched_yield();
        verify("memory of the child", at, pages, ~seed);
        _exit(0);
    }
    if (parent_first) {
        fill(at, pages, seed ^ 0x55);
        seed ^= 0x55;
    }
    sched_yield();
    verify("memory of the parent", at, pages, seed);
    wait_for(child, "child of copy on write");
    verify("memory of the parent after its child", at, pages, seed);
    unmap(at, pages);
}

static void move_and_protect(void)
{
    int pages = 2 + draw(MOST_PAGES - 1), half = pages / 2;
    uint32_t seed = draw(1u << 31);
    volatile uint32_t *at = map(pages, MAP_PRIVATE | MAP_ANONYMOUS, -1), *moved;

    fill(at, pages, seed);
    moved = mremap((void *)at, pages * PAGE, 2 * pages * PAGE, MREMAP_MAYMOVE);
    if (moved == MAP_FAILED)
        fail("mremap");
    verify("moved memory", moved, pages, seed);
    for (int word = pages * WORDS; word < 2 * pages * WORDS; word += 97)
        expect("new memory", moved + word, 0);
    if (mprotect((void *)moved, half * PAGE, PROT_READ))
        fail("mprotect");
    verify("protected memory", moved, half, seed);
    if (mprotect((void *)moved, half * PAGE, PROT_READ | PROT_WRITE))
        fail("mprotect");
    fill(moved, half, seed);
    unmap(moved + half * WORDS, 2 * pages - half);
    verify("memory beside what was unmapped", moved, half, seed);
    unmap(moved, half);
}

/* What was taken away faults, and nothing of what was there before is seen when it returns. */
static void take_away(void)
{
    struct sigaction action = {.sa_handler = caught}, before;
    volatile uint32_t *at = map(1, MAP_PRIVATE | MAP_ANONYMOUS, -1);

    at[0] = 1;
    sigaction(SIGSEGV, &action, &before);
    if (mprotect((void *)at, PAGE, PROT_READ))
        fail("mprotect");
    if (!sigsetjmp(back, 1)) {
        at[0] = 2;
        wrong("write to read-only memory", at, at[0], 1);
    }
    unmap(at, 1);
    if (!sigsetjmp(back, 1))
        wrong("read of unmapped memory", at, at[0], 0);
    sigaction(SIGSEGV, &before, 0);
    at = mmap((void *)at, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (at == MAP_FAILED)
        fail("mmap");
    expect("fresh memory", at, 0);
    unmap(at, 1);
}

/* A counter that two processes raise in turns, at addresses that are not the same. */
static void share(void)
{
    int rounds = 20, turn[2][2];
    volatile uint32_t *at, *other;
    int identifier = shmget(IPC_PRIVATE, 2 * PAGE, IPC_CREAT | 0600);
    pid_t child;
    char byte = 0;

    if (identifier < 0 || pipe(turn[0]) || pipe(turn[1]))
        fail("share");
    at = shmat(identifier, 0, 0);
    if (at == (void *)-1)
        fail("shmat");
    at[0] = 0;
    child = fork();
    if (child < 0)
        fail("fork");
    if (!child) {
        volatile uint32_t *gap = map(1 + draw(8), MAP_PRIVATE | MAP_ANONYMOUS, -1);
        gap[0] = 1;
        other = shmat(identifier, 0, 0);
        if (other == (void *)-1)
            fail("shmat");
        for (int round = 0; round < rounds; round++) {
            if (read(turn[0][0], &byte, 1) != 1)
                fail("turn");
            expect("shared memory in the child", other, 2 * round + 1);
            other[0]++;
            expect("the same at another address", at, 2 * round + 2);
            if (write(turn[1][1], &byte, 1) != 1)
                fail("turn");
        }
        _exit(0);
    }
    for (int round = 0; round < rounds; round++) {
        expect("shared memory in the parent", at, 2 * round);
        at[0]++;
        if (write(turn[0][1], &byte, 1) != 1 || read(turn[1][0], &byte, 1) != 1)
            fail("turn");
    }
    wait_for(child, "child of shared memory");
    shmdt((void *)at);
    shmctl(identifier, IPC_RMID, 0);
    for (int end = 0; end < 4; end++)
        close(turn[end / 2][end % 2]);
}

/* A shared file mapping, a private one of the same pages, and the file itself. */
static void file(void)
{
    int file = scratch_file(2);
    volatile uint32_t *shared = map(2, MAP_SHARED, file), *private = map(2, MAP_PRIVATE, file);
    uint32_t word = draw(1u << 31), copy;
    off_t at = draw(2 * WORDS) * 4;

    shared[at / 4] = word;
    if (pread(file, &copy, 4, at) != 4)
        fail("read");
    if (copy != word)
        wrong("file after a write to its mapping", shared, copy, word);
    word = ~word;
    if (pwrite(file, &word, 4, at) != 4)
        fail("write");
    expect("mapping after a write to its file", shared + at / 4, word);
    expect("private mapping after a write to its file", private + at / 4, word);
    private[at / 4] = 1;
    expect("mapping beside a private copy", shared + at / 4, word);
    expect("private copy", private + at / 4, 1);
    unmap(shared, 2);
    unmap(private, 2);
    close(file);
}

static void *thread_main(void *argument)
{
    volatile uint32_t *at = argument;

    for (int round = 0; round < 50; round++) {
        for (int word = 0; word < WORDS; word += 64)
            at[word] += 1;
        sched_yield();
    }
    return 0;
}

/* Threads write while the process forks: the child sees some state, the parent loses nothing. */
static void threads(void)
{
    volatile uint32_t *at = map(3, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    pthread_t thread[3];
    pid_t child;

    for (long index = 0; index < 3; index++)
        if (pthread_create(&thread[index], 0, thread_main, (void *)(at + index * WORDS)))
            fail("pthread_create");
    child = fork();
    if (child < 0)
        fail("fork");
    if (!child) {
        uint32_t before = at[0];
        sched_yield();
        expect("memory of a child forked among threads", at, before);
        _exit(0);
    }
    for (int index = 0; index < 3; index++)
        pthread_join(thread[index], 0);
    for (int index = 0; index < 3; index++)
        for (int word = 0; word < WORDS; word += 64)
            expect("memory of a thread", at + index * WORDS + word, 50);
    wait_for(child, "child of threads");
    unmap(at, 3);
}

static volatile sig_atomic_t signals;

static void count(int signal)
{
    (void)signal;
    signals++;
}

static void signal_self(void)
{
    struct sigaction action = {.sa_handler = count};
    int before = signals;

    sigaction(SIGUSR1, &action, 0);
    for (int index = 0; index < 5; index++)
        raise(SIGUSR1);
    if (signals != before + 5)
        wrong("signals", 0, signals, before + 5);
}

/* Another process' memory, read and written by way of the kernel. */
static void trace(void)
{
    static volatile uint32_t word;
    uint32_t want = draw(1u << 31);
    pid_t child;
    int status;

    word = want;
    child = fork();
    if (child < 0)
        fail("fork");
    if (!child) {
        word = want + 1; /* dirty in the cache */
        if (ptrace(PTRACE_TRACEME, 0, 0, 0))
            fail("ptrace");
        raise(SIGSTOP);
        expect("memory after another process wrote it", &word, want + 2);
        _exit(0);
    }
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
        fail("stop");
    errno = 0;
    status = ptrace(PTRACE_PEEKDATA, child, (void *)&word, 0);
    if ((uint32_t)status != want + 1)
        wrong("another process' memory", &word, status, want + 1);
    if (ptrace(PTRACE_POKEDATA, child, (void *)&word, (void *)(uintptr_t)(want + 2)))
        fail("poke");
    ptrace(PTRACE_DETACH, child, 0, 0);
    wait_for(child, "traced child");
    expect("memory of the tracer", &word, want);
}

static void run(void)
{
    pid_t child = fork();

    if (child < 0)
        fail("fork");
    if (!child) {
        execl("/proc/self/exe", "stress", "null", (char *)0);
        fail("exec");
    }
    wait_for(child, "program");
}

/* Code is written and run, three times at the same address. */
static void code(void)
{
    uint32_t *at = mmap(0, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED)
        fail("mmap");
    for (int index = 0; index < 3; index++) {
        uint32_t number = draw(256), have;
        write_code(at, number);
        have = ((uint32_t(*)(void))at)();
        if (have != number)
            wrong("code that was just written", at, have, number);
        sched_yield();
    }
    unmap(at, 1);
}

/* More than the low 32 MB hold: in the parent, in its child, and small again afterwards. */
static void large(void)
{
    uint32_t seed = draw(1u << 31), step = 300 * WORDS;
    volatile uint32_t *at = mmap(0, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pid_t child;

    if (at == MAP_FAILED && errno == ENOMEM)
        return; /* guaranteed FCSE */
    if (at == MAP_FAILED)
        fail("mmap");
    for (uint32_t word = 0; word < LARGE / 4; word += step)
        at[word] = seed + word;
    child = fork();
    if (child < 0)
        fail("fork");
    sched_yield();
    for (uint32_t word = 0; word < LARGE / 4; word += step)
        expect("large memory", at + word, seed + word);
    if (!child)
        _exit(0);
    wait_for(child, "child of a large process");
    unmap(at, LARGE / PAGE);
    sched_yield();
}

static void (*const parts[])(void) = {
    copy_on_write, move_and_protect, take_away, share, file, threads,
    signal_self,   trace,            run,       code,  large,
};

/* Says what mappings meet that do not fit in 32 MB. */
static int limits(void)
{
    void *at = mmap(0, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    printf("stress: a mapping of 40 MB: %s\n", at == MAP_FAILED ? strerror(errno) : "made");
    at = mmap((void *)(64ul << 20), PAGE, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    printf("stress: a mapping at 64 MB: %s\n", at == MAP_FAILED ? strerror(errno) : "made");
    return 0;
}

/* Where others may have a page of these, a switch that keeps lines has to clean all of them first. */
static int dirty(int seconds)
{
    volatile uint32_t *at = map(MOST_PAGES, MAP_SHARED | MAP_ANONYMOUS, -1);
    time_t end = time(0) + seconds;
    pid_t child = fork();

    if (child < 0)
        fail("fork");
    do {
        fill(at, MOST_PAGES, worker);
        sched_yield();
    } while (time(0) < end);
    if (!child)
        _exit(0);
    wait_for(child, "process that writes");
    return 0;
}

int main(int argc, char **argv)
{
    int processes = argc > 1 ? atoi(argv[1]) : 4, rounds = argc > 2 ? atoi(argv[2]) : 20;
    uint32_t seed = argc > 3 ? atoi(argv[3]) : 1;
    int failed = 0;

    if (argc > 1 && !strcmp(argv[1], "null"))
        return 0;
    if (argc > 1 && !strcmp(argv[1], "limits"))
        return limits();
    if (argc > 2 && !strcmp(argv[1], "dirty"))
        return dirty(atoi(argv[2]));
    setvbuf(stdout, 0, _IOLBF, 0);
    for (worker = 0; worker < processes; worker++) {
        pid_t child = fork();
        if (child < 0)
            fail("fork");
        if (!child) {
            state = seed * 2654435761u + worker * 40503u + 1;
            for (int round = 0; round < rounds; round++)
                parts[draw(sizeof parts / sizeof *parts)]();
            _exit(0);
        }
    }
    for (int child = 0; child < processes; child++) {
        int status;
        if (wait(&status) < 0)
            fail("wait");
        failed += status != 0;
    }
    printf("stress: %d processes, %d rounds each, %d failed\n", processes, rounds, failed);
    return failed != 0;
}
