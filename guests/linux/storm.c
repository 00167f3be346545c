/* storm: many processes or threads send messages to each other.
 *
 *   storm pipes|sockets|threads [MESSAGES]
 *
 * Each of SENDERS processes (or threads, over pipes) sends MESSAGES messages to each of RECEIVERS
 * others, all at once; a message says who sent it and the how many-th it is. Ends with status 0 if
 * every receiver got every message once and each sender's in order. Stands for hackbench where
 * Debian's armel programs, which are ARMv5TE, do not run.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SENDERS = 20, RECEIVERS = 20 };

struct message {
    int sender, number;
    char text[92];
};

static int messages = 100;
static int ends[RECEIVERS][2]; /* where a receiver reads, where senders write */

_Noreturn static void fail(const char *what)
{
    perror(what);
    _exit(1);
}

/* Pipes and stream sockets may give a message in parts. */
static void read_whole(int from, struct message *message)
{
    for (size_t got = 0; got < sizeof *message;) {
        ssize_t count = read(from, (char *)message + got, sizeof *message - got);
        if (count <= 0)
            fail("read");
        got += count;
    }
}

static void *receive(void *number)
{
    int expected[SENDERS] = {0};
    struct message message;

    for (int left = SENDERS * messages; left; left--) {
        read_whole(ends[(long)number][0], &message);
        if (message.sender < 0 || message.sender >= SENDERS
            || message.number != expected[message.sender]++) {
            fprintf(stderr, "receiver %ld: wrong message\n", (long)number);
            _exit(1);
        }
    }
    return 0;
}

static void *send_all(void *number)
{
    struct message message = {.sender = (long)number};

    memset(message.text, 'x', sizeof message.text);
    for (; message.number < messages; message.number++)
        for (int receiver = 0; receiver < RECEIVERS; receiver++)
            if (write(ends[receiver][1], &message, sizeof message) != sizeof message)
                fail("write");
    return 0;
}

/* Starts all receivers and senders as processes and waits for them; gives how many failed. */
static int as_processes(void)
{
    int failed = 0;

    for (long worker = 0; worker < RECEIVERS + SENDERS; worker++) {
        switch (fork()) {
        case -1:
            fail("fork");
        case 0:
            if (worker < RECEIVERS)
                receive((void *)worker);
            else
                send_all((void *)(worker - RECEIVERS));
            _exit(0);
        }
    }
    for (int worker = 0; worker < RECEIVERS + SENDERS; worker++) {
        int status;
        if (wait(&status) < 0)
            fail("wait");
        failed += status != 0;
    }
    return failed;
}

static int as_threads(void)
{
    pthread_t threads[RECEIVERS + SENDERS];

    for (long worker = 0; worker < RECEIVERS + SENDERS; worker++)
        if (pthread_create(&threads[worker], 0, worker < RECEIVERS ? receive : send_all,
                           (void *)(worker < RECEIVERS ? worker : worker - RECEIVERS)))
            fail("pthread_create");
    for (int worker = 0; worker < RECEIVERS + SENDERS; worker++)
        pthread_join(threads[worker], 0);
    return 0;
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "pipes";
    struct timespec start, end;

    if (argc > 2)
        messages = atoi(argv[2]);
    for (int receiver = 0; receiver < RECEIVERS; receiver++)
        if (strcmp(kind, "sockets") ? pipe(ends[receiver])
                                    : socketpair(AF_UNIX, SOCK_STREAM, 0, ends[receiver]))
            fail(kind);
    clock_gettime(CLOCK_MONOTONIC, &start);
    int failed = strcmp(kind, "threads") ? as_processes() : as_threads();
    clock_gettime(CLOCK_MONOTONIC, &end);
    long microseconds = (end.tv_sec - start.tv_sec) * 1000000 + (end.tv_nsec - start.tv_nsec) / 1000;
    printf("storm of %d messages by %s: %d failed, time %ld.%06ld s\n",
           SENDERS * RECEIVERS * messages, kind, failed, microseconds / 1000000,
           microseconds % 1000000);
    return failed != 0;
}
