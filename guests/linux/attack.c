/* attack: tries to reach what belongs to other processes, or to the kernel.
 *
 *   attack [VICTIMS]
 *
 * VICTIMS processes keep a secret at an address that the attacker knows, and one in a file that only they
 * have mapped, all at the same address, where they can; and they run in turns with it.
 * The attacker reads and writes that address as it would appear in the slot of every process
 * identifier, everything else between 32 MB and the kernel in steps, the kernel's memory, and the
 * places of victims that have just died. It may find its own memory (its own slot shows it a second
 * time) and nothing else. Ends with status 0 if it got nothing and changed nothing.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECRET = 0x5ec2e700, MINE = 0x0a77ac4e, SLOT_BITS = 25, SLOTS = 96, MOST = 90 };

#define KERNEL 0xc0000000ul
/* Where the victims have their file, a place that no scheme relocates. */
#define SHARED 0xa8000000ul

static sigjmp_buf back;
static volatile unsigned place[2048] __attribute__((aligned(4096))); /* the same address in all */
static int attempts, found, reached;

static void caught(int signal)
{
    siglongjmp(back, signal);
}

/* Whether a word can be read, and which. */
static int can_read(unsigned long address, unsigned *word)
{
    attempts++;
    if (sigsetjmp(back, 1))
        return 0;
    *word = *(volatile unsigned *)address;
    return 1;
}

static int can_write(unsigned long address, unsigned word)
{
    attempts++;
    if (sigsetjmp(back, 1))
        return 0;
    *(volatile unsigned *)address = word;
    return 1;
}

static void report(const char *what, unsigned long address, unsigned word)
{
    printf("attack: %s 0x%08lx: 0x%08x\n", what, address, word);
    found++;
}

/* Our own slot shows our own memory again: a write there arrives at the place that we know. */
static int is_mine(unsigned long address, unsigned word)
{
    if (word != MINE)
        return 0;
    if (can_write(address, MINE ^ 1) && place[0] == (MINE ^ 1)) {
        place[0] = MINE;
        return 1;
    }
    return 0;
}

static void try_slots(void)
{
    for (unsigned long slot = 1; slot < SLOTS; slot++) {
        unsigned long address = slot << SLOT_BITS | (unsigned long)place;
        unsigned word;

        if (address < KERNEL && can_read(address, &word) && !is_mine(address, word))
            report("read of another's memory at", address, word);
        reached++;
    }
}

/* What is mapped here, and may be read. */
static struct {
    unsigned long start, end;
} mapped[64];

static void read_maps(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[256];

    for (int count = 0; maps && count < 64 && fgets(line, sizeof line, maps); count++) {
        sscanf(line, "%lx-%lx", &mapped[count].start, &mapped[count].end);
        if (strstr(line, "[stack]"))
            mapped[count].start -= 8ul << 20; /* grows when it is touched */
    }
    if (maps)
        fclose(maps);
}

static int is_mapped(unsigned long address)
{
    for (int index = 0; index < 64; index++)
        if (address >= mapped[index].start && address < mapped[index].end)
            return 1;
    return 0;
}

static void try_all(unsigned long step)
{
    read_maps();
    for (unsigned long address = 32ul << 20; address < 0xff000000ul; address += step) {
        unsigned word;

        /* The slot that shows our own memory again has it at the same distance from its start. */
        if (!is_mapped(address) && can_read(address, &word)) {
            unsigned long low = address & ((1ul << SLOT_BITS) - 1);
            unsigned mine;

            if (address >= KERNEL - (16ul << 20) || !can_read(low, &mine) || mine != word)
                report("read of nothing of mine at", address, word);
        }
    }
}

/* What the victims share among them is none of the attacker's. */
static void try_shared(void)
{
    unsigned word;

    if (can_read(SHARED, &word))
        report("read of what others share at", SHARED, word);
    if (can_write(SHARED, 0))
        report("write of what others share at", SHARED, 0);
}

static void try_kernel(void)
{
    static const unsigned long places[] = {KERNEL, KERNEL + 0x8000, KERNEL + 0x4000, 0xffff0000ul};

    for (unsigned index = 0; index < sizeof places / sizeof *places; index++) {
        unsigned word;

        /* The page of the vectors may be read: it holds helpers for user code. */
        if (places[index] != 0xffff0000ul && can_read(places[index], &word))
            report("read of the kernel's memory at", places[index], word);
        if (can_write(places[index], 0))
            report("write of the kernel's memory at", places[index], 0);
    }
}

_Noreturn static void be_victim(int turn, int report_to, int file)
{
    volatile unsigned *shared =
        mmap((void *)SHARED, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
    unsigned secret = SECRET + turn;
    int bad = 0;
    char ready = 0;

    for (unsigned index = 0; index < sizeof place / sizeof *place; index++)
        place[index] = secret;
    if (write(report_to, &ready, 1) != 1)
        _exit(2);
    for (;;) {
        for (unsigned index = 0; index < sizeof place / sizeof *place; index += 64)
            if (place[index] != secret) {
                place[index] = secret;
                bad = 1;
            }
        if (bad) {
            printf("attack: a victim's memory was changed\n");
            _exit(1);
        }
        if (shared != MAP_FAILED && shared[0] != SECRET) {
            printf("attack: what the victims share was changed\n");
            _exit(1);
        }
        usleep(1000);
    }
}

int main(int argc, char **argv)
{
    int victims = argc > 1 ? atoi(argv[1]) : 4, ready[2];
    FILE *file = tmpfile();
    const unsigned secret = SECRET;
    pid_t children[MOST];
    char byte;
    struct sigaction action = {.sa_handler = caught};

    if (victims < 1 || victims > MOST || pipe(ready) || !file || ftruncate(fileno(file), 4096)
        || pwrite(fileno(file), &secret, sizeof secret, 0) != sizeof secret)
        return 2;
    sigaction(SIGSEGV, &action, 0);
    sigaction(SIGBUS, &action, 0);
    for (int victim = 0; victim < victims; victim++) {
        children[victim] = fork();
        if (children[victim] < 0) {
            perror("attack: fork");
            return 2;
        }
        if (!children[victim]) {
            signal(SIGSEGV, SIG_DFL);
            be_victim(victim, ready[1], fileno(file));
        }
        if (read(ready[0], &byte, 1) != 1)
            return 2;
    }
    for (unsigned index = 0; index < sizeof place / sizeof *place; index++)
        place[index] = MINE;
    try_kernel();
    for (int round = 0; round < 3; round++) {
        try_slots();
        try_shared();
        usleep(3000);
    }
    try_all(1 << 20);
    for (int victim = 0; victim < victims; victim++) {
        int status;

        if (waitpid(children[victim], &status, WNOHANG) == children[victim])
            found++;
        kill(children[victim], SIGKILL);
        waitpid(children[victim], &status, 0);
        try_slots();
    }
    if (place[0] != MINE)
        report("change of the attacker's own memory at", (unsigned long)place, place[0]);
    printf("attack: %d victims, %d attempts, %d slots tried, %d succeeded\n", victims, attempts, reached, found);
    return found != 0;
}
