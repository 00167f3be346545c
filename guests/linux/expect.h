/* What stress, meet and wander share: memory that must have a value, children that must end well, and how to
 * say that it is not so. Each names itself in PROGRAM before it includes this. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* CACHEFLUSH: ARM's own system call, which the C library has no name for. */
enum { PAGE = 4096, WORDS = PAGE / 4, CACHEFLUSH = 0x0f0002 };

static int worker;

_Noreturn static void wrong(const char *what, const volatile void *at, unsigned have, unsigned want)
{
    printf(PROGRAM ": worker %d, %s at %p: 0x%08x instead of 0x%08x\n", worker, what, at, have, want);
    _exit(1);
}

_Noreturn static void fail(const char *what)
{
    printf(PROGRAM ": worker %d, %s: %s\n", worker, what, strerror(errno));
    _exit(1);
}

static void expect(const char *what, const volatile uint32_t *at, uint32_t want)
{
    uint32_t have = *at;

    if (have != want)
        wrong(what, at, have, want);
}

static inline void wait_for(pid_t child, const char *what)
{
    int status;

    if (waitpid(child, &status, 0) != child)
        fail(what);
    if (status)
        wrong(what, 0, status, 0);
}

static inline void fill(volatile uint32_t *at, int pages, uint32_t seed)
{
    for (int word = 0; word < pages * WORDS; word += 7)
        at[word] = seed + word;
}

static inline void verify(const char *what, const volatile uint32_t *at, int pages, uint32_t seed)
{
    for (int word = 0; word < pages * WORDS; word += 7)
        expect(what, at + word, seed + word);
}

static volatile uint32_t *map(int pages, int flags, int file)
{
    void *at = mmap(0, pages * PAGE, PROT_READ | PROT_WRITE, flags, file, 0);

    if (at == MAP_FAILED)
        fail("mmap");
    return at;
}

static void unmap(volatile uint32_t *at, int pages)
{
    if (munmap((void *)at, pages * PAGE))
        fail("munmap");
}

static inline int scratch_file(int pages)
{
    char name[32] = "/tmp/" PROGRAM "-XXXXXX";
    int file = mkstemp(name);

    if (file < 0 || ftruncate(file, pages * PAGE))
        fail("file");
    unlink(name);
    return file;
}

/* mov r0, #N; mov pc, lr: a function that gives a number below 256, made visible to fetches. */
static inline void write_code(uint32_t *at, uint32_t number)
{
    at[0] = 0xe3a00000 | number;
    at[1] = 0xe1a0f00e;
    syscall(CACHEFLUSH, at, at + 2, 0);
}

static __thread sigjmp_buf back;

static inline void caught(int signal)
{
    siglongjmp(back, signal);
}
