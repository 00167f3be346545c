/* lat: the papers' benchmarks of switching, for cores that lmbench's packages do not run on.
 *
 *   lat ctx KILOBYTES PROCESSES...   switch between processes in a ring
 *   lat pipe | fifo | unix | fcntl   round trip between two processes
 *   lat fork | exec | sh             make a process and wait for its end
 *   lat bw_pipe | bw_unix            10 MB between two processes, in MB/s
 *   lat extreme private|shared PROCESSES PAGES...   visit pages and yield
 *   lat null                         does nothing (what exec and sh run)
 *
 * The protocols are those of lmbench 3 (lat_ctx: Staelin, "lmbench3: measuring scalability", and
 * McVoy and Staelin, USENIX 1996, section 6.6) and of Wiggins et al. 2003, section 4.2; the code
 * is not. Times are medians of REPETITIONS, in microseconds, one line for each result. The variable
 * LAT_HOPS says how many switches a repetition of `ctx` makes, 2000 if it is not set. With LAT_PHASES set,
 * cycles belong to phase 3 while one process does all of the pipes' work, and to phase 4 while it is passed
 * around (the simulator's instrumentation device, docs/board.md).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { REPETITIONS = 5, MOST_PROCESSES = 96, TOKEN = 4 };

static const char *self;

_Noreturn static void fail(const char *what)
{
    perror(what);
    _exit(1);
}

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

static void begin_phase(unsigned phase)
{
    enum { DEVICE = 0x101ff000, PHASE = 0x18 / 4 };
    static volatile unsigned *device;

    if (!getenv("LAT_PHASES"))
        return;
    if (!device)
        device = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, open("/dev/mem", O_RDWR | O_SYNC), DEVICE);
    if (device == MAP_FAILED)
        fail("phase");
    device[PHASE] = phase;
}

static int ascending(const void *a, const void *b)
{
    double difference = *(const double *)a - *(const double *)b;

    return (difference > 0) - (difference < 0);
}

/* The median time of one of ROUNDS rounds that `run` makes, after one run to warm up. */
static double measure(void (*run)(void *, int), void *state, int rounds)
{
    double times[REPETITIONS];

    run(state, 1);
    for (int repetition = 0; repetition < REPETITIONS; repetition++) {
        double start = now_us();
        run(state, rounds);
        times[repetition] = (now_us() - start) / rounds;
    }
    qsort(times, REPETITIONS, sizeof *times, ascending);
    return times[REPETITIONS / 2];
}

static void pass(int from, int to, int bytes)
{
    char token[TOKEN];

    if (read(from, token, bytes) != bytes || write(to, token, bytes) != bytes)
        fail("pass");
}

static void reap(const pid_t *children, int count)
{
    for (int child = 0; child < count; child++) {
        kill(children[child], SIGKILL);
        waitpid(children[child], 0, 0);
    }
}

/* ---- ring ---------------------------------------------------------------------------------- */

struct ring {
    int processes, words, pipes[MOST_PROCESSES][2];
    int *array;
};

/* Every process sums an array of its own; in the overhead one process sums one for all. */
static int sum(const struct ring *ring)
{
    int total = 0;

    for (int word = 0; word < ring->words; word++)
        total += ring->array[word];
    return total;
}

static volatile int sink;

static void laps(void *state, int rounds)
{
    struct ring *ring = state;
    char token[TOKEN] = "";

    while (rounds--) {
        if (write(ring->pipes[0][1], token, TOKEN) != TOKEN)
            fail("write");
        if (read(ring->pipes[ring->processes - 1][0], token, TOKEN) != TOKEN)
            fail("read");
        sink = sum(ring);
    }
}

static void laps_alone(void *state, int rounds)
{
    struct ring *ring = state;
    char token[TOKEN] = "";

    while (rounds--)
        for (int index = 0; index < ring->processes; index++) {
            if (write(ring->pipes[index][1], token, TOKEN) != TOKEN
                || read(ring->pipes[index][0], token, TOKEN) != TOKEN)
                fail("overhead");
            sink = sum(ring);
        }
}

static void ring_of(int kilobytes, int processes)
{
    struct ring ring = {.processes = processes, .words = kilobytes * 1024 / (int)sizeof(int)};
    pid_t children[MOST_PROCESSES];
    int hops = getenv("LAT_HOPS") ? atoi(getenv("LAT_HOPS")) : 2000;
    int rounds = hops / processes > 10 ? hops / processes : 10;
    double overhead, lap;

    if (processes < 2 || processes > MOST_PROCESSES) {
        fprintf(stderr, "lat ctx: 2 to %d processes\n", MOST_PROCESSES);
        exit(2);
    }
    ring.array = calloc(1, kilobytes * 1024 + 1);
    memset(ring.array, 0, kilobytes * 1024 + 1); /* really there, not the page of zeros */
    for (int index = 0; index < processes; index++)
        if (pipe(ring.pipes[index]))
            fail("pipe");
    begin_phase(3);
    overhead = measure(laps_alone, &ring, rounds) / processes;
    begin_phase(1);
    for (int child = 1; child < processes; child++) {
        children[child - 1] = fork();
        if (children[child - 1] < 0) {
            int why = errno;
            reap(children, child - 1);
            errno = why;
            fail("fork");
        }
        if (children[child - 1] == 0) {
            memset(ring.array, 0, kilobytes * 1024 + 1);
            for (;;) {
                char token[TOKEN];
                if (read(ring.pipes[child - 1][0], token, TOKEN) != TOKEN)
                    _exit(0);
                sink = sum(&ring);
                if (write(ring.pipes[child][1], token, TOKEN) != TOKEN)
                    _exit(0);
            }
        }
    }
    begin_phase(4);
    lap = measure(laps, &ring, rounds) / processes;
    begin_phase(1);
    reap(children, processes - 1);
    for (int index = 0; index < processes; index++) {
        close(ring.pipes[index][0]);
        close(ring.pipes[index][1]);
    }
    free(ring.array);
    printf("lat ctx %d KB %d processes: %.2f us (overhead %.2f us)\n", kilobytes, processes,
           lap - overhead, overhead);
}

/* ---- two processes ------------------------------------------------------------------------- */

struct channel {
    int in, out;
};

static void round_trips(void *state, int rounds)
{
    struct channel *channel = state;
    char byte = 0;

    while (rounds--)
        if (write(channel->out, &byte, 1) != 1 || read(channel->in, &byte, 1) != 1)
            fail("round trip");
}

/* Ends of two channels, of which the child gets the other ends. */
static void ping_pong(const char *name, struct channel here, struct channel there, int rounds)
{
    pid_t child = fork();
    double time;

    if (child < 0)
        fail("fork");
    if (!child)
        for (;;)
            pass(there.in, there.out, 1);
    time = measure(round_trips, &here, rounds);
    reap(&child, 1);
    printf("lat %s: %.2f us\n", name, time);
}

static void over_pipes(void)
{
    int to[2], from[2];

    if (pipe(to) || pipe(from))
        fail("pipe");
    ping_pong("pipe", (struct channel){from[0], to[1]}, (struct channel){to[0], from[1]}, 500);
}

static void over_fifos(void)
{
    int to, from;

    if (mkfifo("/tmp/lat-to", 0600) || mkfifo("/tmp/lat-from", 0600))
        fail("mkfifo");
    to = open("/tmp/lat-to", O_RDWR);
    from = open("/tmp/lat-from", O_RDWR);
    unlink("/tmp/lat-to");
    unlink("/tmp/lat-from");
    ping_pong("fifo", (struct channel){from, to}, (struct channel){to, from}, 500);
}

static void over_sockets(void)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
        fail("socketpair");
    ping_pong("unix", (struct channel){ends[0], ends[0]}, (struct channel){ends[1], ends[1]}, 500);
}

static void lock_byte(int file, int type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_len = 1};

    if (fcntl(file, F_SETLKW, &lock))
        fail("fcntl");
}

static void lock_rounds(void *state, int rounds)
{
    struct channel *files = state;

    while (rounds--) {
        lock_byte(files->in, F_WRLCK);
        lock_byte(files->out, F_UNLCK);
        lock_byte(files->out, F_WRLCK);
        lock_byte(files->in, F_UNLCK);
    }
}

static void over_locks(void)
{
    struct channel files = {open("/tmp/lat-1", O_CREAT | O_RDWR, 0600),
                            open("/tmp/lat-2", O_CREAT | O_RDWR, 0600)};
    pid_t child;
    double time;

    unlink("/tmp/lat-1");
    unlink("/tmp/lat-2");
    if (ftruncate(files.in, 10240) || ftruncate(files.out, 10240))
        fail("ftruncate");
    lock_byte(files.out, F_WRLCK);
    child = fork();
    if (!child) {
        lock_byte(files.in, F_WRLCK);
        for (;;) {
            lock_byte(files.in, F_UNLCK);
            lock_byte(files.out, F_WRLCK);
            lock_byte(files.out, F_UNLCK);
            lock_byte(files.in, F_WRLCK);
        }
    }
    usleep(20000); /* until the child has the first file */
    time = measure(lock_rounds, &files, 250) / 2;
    reap(&child, 1);
    printf("lat fcntl: %.2f us\n", time);
}

/* ---- processes ----------------------------------------------------------------------------- */

static void forks(void *state, int rounds)
{
    const char *kind = state;

    while (rounds--) {
        pid_t child = fork();

        if (child < 0)
            fail("fork");
        if (!child) {
            if (!strcmp(kind, "exec")) {
                close(1);
                execl(self, "lat", "null", (char *)0);
            } else if (!strcmp(kind, "sh")) {
                char command[64];
                close(1);
                snprintf(command, sizeof command, "%s null", self);
                execl("/bin/sh", "sh", "-c", command, (char *)0);
            }
            _exit(0);
        }
        waitpid(child, 0, 0);
    }
}

/* ---- bandwidth ----------------------------------------------------------------------------- */

enum { AMOUNT = 10 << 20, CHUNK = 64 << 10 };

static void transfer(void *state, int rounds)
{
    int *ends = state;
    static char chunk[CHUNK];

    while (rounds--) {
        pid_t child = fork();

        if (!child) {
            for (int left = AMOUNT; left > 0;) {
                ssize_t count = write(ends[1], chunk, left < CHUNK ? left : CHUNK);
                if (count < 0)
                    fail("write");
                left -= count;
            }
            _exit(0);
        }
        for (int left = AMOUNT; left > 0;) {
            ssize_t count = read(ends[0], chunk, left < CHUNK ? left : CHUNK);
            if (count <= 0)
                fail("read");
            left -= count;
        }
        waitpid(child, 0, 0);
    }
}

static void bandwidth(const char *kind)
{
    int ends[2];

    if (strcmp(kind, "bw_unix") ? pipe(ends) : socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
        fail(kind);
    printf("lat %s: %.2f MB/s\n", kind, AMOUNT / 1048576.0 * 1e6 / measure(transfer, ends, 1));
}

/* ---- visits -------------------------------------------------------------------------------- */

/* N children map the same pages, read a byte of each and let the next one run. */
static void extreme(int flags, int processes, int pages)
{
    int file = open("/tmp/lat-pages", O_CREAT | O_RDWR, 0600), rounds = 200;
    int start[2], done[2];
    pid_t children[MOST_PROCESSES];
    double time, slowest = 0;
    char byte;

    if (file < 0 || ftruncate(file, pages * 4096) || pipe(start) || pipe(done))
        fail("extreme");
    for (int child = 0; child < processes; child++)
        if (!(children[child] = fork())) {
            volatile char *at = mmap(0, pages * 4096, PROT_READ, flags, file, 0);
            double begin;
            if (at == MAP_FAILED)
                fail("mmap");
            for (int page = 0; page < pages; page++)
                sink = at[page * 4096];
            if (write(done[1], &byte, 1) != 1 || read(start[0], &byte, 1) != 1)
                _exit(1);
            begin = now_us();
            for (int round = 0; round < rounds; round++) {
                for (int page = 0; page < pages; page++)
                    sink = at[page * 4096];
                sched_yield();
            }
            time = (now_us() - begin) / rounds / processes;
            if (write(done[1], &time, sizeof time) != sizeof time)
                _exit(1);
            _exit(0);
        }
    for (int child = 0; child < processes; child++)
        if (read(done[0], &byte, 1) != 1)
            fail("read");
    for (int child = 0; child < processes; child++)
        if (write(start[1], &byte, 1) != 1)
            fail("write");
    for (int child = 0; child < processes; child++) {
        if (read(done[0], &time, sizeof time) != sizeof time)
            fail("read");
        if (time > slowest)
            slowest = time;
        waitpid(children[child], 0, 0);
    }
    unlink("/tmp/lat-pages");
    printf("lat extreme %s %d processes %d pages: %.2f us\n",
           flags == MAP_SHARED ? "shared" : "private", processes, pages, slowest);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    self = argv[0];
    setvbuf(stdout, 0, _IOLBF, 0);
    if (!strcmp(what, "null"))
        return 0;
    if (!strcmp(what, "ctx") && argc > 3)
        for (int count = 3; count < argc; count++)
            ring_of(atoi(argv[2]), atoi(argv[count]));
    else if (!strcmp(what, "pipe"))
        over_pipes();
    else if (!strcmp(what, "fifo"))
        over_fifos();
    else if (!strcmp(what, "unix"))
        over_sockets();
    else if (!strcmp(what, "fcntl"))
        over_locks();
    else if (!strcmp(what, "fork") || !strcmp(what, "exec") || !strcmp(what, "sh"))
        printf("lat %s: %.2f us\n", what, measure(forks, (void *)what, 20));
    else if (!strcmp(what, "bw_pipe") || !strcmp(what, "bw_unix"))
        bandwidth(what);
    else if (!strcmp(what, "extreme") && argc > 4)
        for (int count = 4; count < argc; count++)
            extreme(strcmp(argv[2], "shared") ? MAP_PRIVATE : MAP_SHARED, atoi(argv[3]),
                    atoi(argv[count]));
    else {
        fprintf(stderr, "lat: see the head of guests/linux/lat.c\n");
        return 2;
    }
    return 0;
}
