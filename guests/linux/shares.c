/* shares: what processes map alike is shared, and nothing beside it.
 *
 *   shares              memory that moves beside a file that two processes share, and mappings that grow
 *   shares places       at how many addresses four processes have what all of them map
 *
 * Checks what a scheme could let others reach: pages that come beside a shared mapping without a fault, and those that
 * grow to where a scheme has others. Mappings that a scheme refuses are left out. Ends with status 0 if every value was
 * the expected one. Where a scheme lets processes share what they map alike, they have to find the same address by
 * themselves: `places` counts, one place then for each way to map it; each process has other places free than the others.
 */
#define PROGRAM "shares"
#include "expect.h"

#include <sys/shm.h>

/* In a slot of its own (2 MB) above 2 GB, where nothing is relocated; and where such places begin. */
#define FILE_PLACE 0xa8000000ul
#define LOWEST_PLACE 0x80000000ul

static int is_permitted(volatile uint32_t *at, int writes)
{
    struct sigaction action = {.sa_handler = caught};

    sigaction(SIGSEGV, &action, 0);
    if (sigsetjmp(back, 1))
        return 0;
    if (writes)
        *at = (uintptr_t)at;
    else
        (void)*at;
    return 1;
}

/* A byte to the other end, or from it. */
static void tell(int to)
{
    if (write(to, "", 1) != 1)
        fail("turn");
}

static void hear(int from)
{
    char byte;

    if (read(from, &byte, 1) != 1)
        fail("turn");
}

/* Moves a page of its own to an address, which tells the kernel of no fault there. */
static volatile uint32_t *move_to(uintptr_t place)
{
    volatile uint32_t *at = map(1, MAP_PRIVATE | MAP_ANONYMOUS, -1);

    at[0] = place;
    at = mremap((void *)at, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)place);
    if (at == MAP_FAILED)
        fail("mremap");
    expect("memory that moved", at, place);
    return at;
}

/* One of two that share a page of a file moves pages of its own behind it, uses them and gives them back. */
static void beside(void)
{
    enum { PAGES = 15 };
    int file = scratch_file(1), turn[2][2];
    volatile uint32_t *shared = mmap((void *)FILE_PLACE, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
    pid_t child;

    if (shared == MAP_FAILED)
        return;
    if (pipe(turn[0]) || pipe(turn[1]))
        fail("pipe");
    child = fork();
    if (child < 0)
        fail("fork");
    if (!child) {
        shared[0]++;
        for (int round = 0; round < 2; round++) { /* while the other has pages there, and after it */
            tell(turn[1][1]);
            hear(turn[0][0]);
            shared[1]++;
            for (int page = 1; page <= PAGES; page++)
                if (is_permitted(shared + page * WORDS, 0))
                    wrong("read of what another moved behind a file", shared + page * WORDS, 1, 0);
        }
        _exit(0);
    }
    shared[2] = 7;
    hear(turn[1][0]);
    for (int page = 1; page <= PAGES; page++)
        move_to(FILE_PLACE + page * PAGE)[1] = page;
    tell(turn[0][1]);
    hear(turn[1][0]);
    for (int page = 1; page <= PAGES; page++)
        expect("memory behind a file", shared + page * WORDS + 1, page);
    unmap(shared + WORDS, PAGES);
    for (int page = 1; page <= PAGES; page++)
        if (is_permitted(shared + page * WORDS, 1))
            wrong("write of what was behind a file", shared + page * WORDS, 1, 0);
    tell(turn[0][1]);
    wait_for(child, "process that shares a file");
    expect("file that another had pages beside", shared, 1);
    expect("the same, in turns", shared + 1, 2);
    expect("the same, of its own", shared + 2, 7);
    unmap(shared, 1);
    close(file);
    for (int end = 0; end < 4; end++)
        close(turn[end / 2][end % 2]);
}

/* A mapping grows down from the lowest place that is above all relocated ones; as many processes as there are
 * identifiers have what it is then. */
static void grown(void)
{
    enum { PAGES = 16, PROCESSES = 70 };
    volatile uint32_t *at = mmap((void *)LOWEST_PLACE, PAGE, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_GROWSDOWN, -1, 0);
    int pages = 0;

    if (at == MAP_FAILED)
        return;
    while (pages < PAGES && is_permitted(at - (pages + 1) * WORDS, 1))
        pages++;
    for (worker = 1; worker <= PROCESSES; worker++) {
        pid_t child = fork();
        if (child < 0)
            fail("fork");
        if (!child) {
            for (int page = 1; page <= pages; page++)
                expect("memory that has grown", at - page * WORDS, (uintptr_t)(at - page * WORDS));
            _exit(0);
        }
        wait_for(child, "process whose memory has grown");
    }
    worker = 0;
    munmap((void *)(at - pages * WORDS), (pages + 1) * PAGE);
}

/* What a process maps: a segment, or a file that it opens in its own way. */
static void *mapping_of(const char *name, int segment, int way, int protection)
{
    int opened;

    if (segment >= 0)
        return shmat(segment, 0, 0);
    opened = open(name, way);
    if (opened < 0)
        fail("open");
    return mmap(0, PAGE, protection, MAP_SHARED, opened, 0);
}

/* Four processes, of which the first WRITERS open the file for writing, map it and touch it, one after the
 * other, and stay until all have it. */
static void count_places(const char *what, int segment, int writers, int protection)
{
    enum { PROCESSES = 4 };
    char name[] = "/tmp/shares";
    pid_t children[PROCESSES];
    void *at[PROCESSES];
    int ready[2], end[2], places = 0;
    char byte;

    if (pipe(ready) || pipe(end) || close(open(name, O_CREAT | O_RDWR, 0600)) || truncate(name, PAGE))
        fail("file");
    for (worker = 0; worker < PROCESSES; worker++) {
        children[worker] = fork();
        if (children[worker] < 0)
            fail("fork");
        if (!children[worker]) {
            int writes = worker < writers;
            map(1 + worker, MAP_PRIVATE | MAP_ANONYMOUS, -1); /* else all have the same places free */
            volatile uint32_t *mine = mapping_of(name, segment, writes ? O_RDWR : O_RDONLY, writes ? protection : PROT_READ);
            if (mine == MAP_FAILED)
                fail("mapping");
            if (writes && protection & PROT_WRITE)
                mine[0] = worker;
            (void)mine[0];
            close(end[1]);
            if (write(ready[1], &mine, sizeof mine) != sizeof mine || read(end[0], &byte, 1))
                fail("ready");
            unmap(mine, 1);
            _exit(0);
        }
        if (read(ready[0], &at[worker], sizeof at[worker]) != sizeof at[worker])
            fail("ready");
        places++;
        for (int before = 0; before < worker; before++)
            if (at[before] == at[worker]) {
                places--;
                break;
            }
    }
    close(end[1]);
    for (int child = 0; child < PROCESSES; child++)
        wait_for(children[child], "process that maps");
    unlink(name);
    close(end[0]);
    close(ready[0]);
    close(ready[1]);
    printf("shares: %s: %d\n", what, places);
}

static void places(void)
{
    int segment = shmget(IPC_PRIVATE, PAGE, IPC_CREAT | 0600);

    if (segment < 0)
        fail("shmget");
    count_places("a file that all write", -1, 4, PROT_READ | PROT_WRITE);
    count_places("a file that all may write and read", -1, 4, PROT_READ);
    count_places("a file that two write and two read", -1, 2, PROT_READ | PROT_WRITE);
    count_places("a segment that all write", segment, 4, PROT_READ | PROT_WRITE);
    shmctl(segment, IPC_RMID, 0);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, 0, _IOLBF, 0);
    if (argc > 1 && !strcmp(argv[1], "places")) {
        places();
        return 0;
    }
    beside();
    grown();
    printf("shares: 2 parts, 0 failed\n");
    return 0;
}
