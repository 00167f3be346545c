/* together: runs a command several times at once, and tells how long that took.
 *
 *   together [-m MICROSECONDS] NUMBER COMMAND...
 *
 * With -m each thread of these is given another core whenever that time is over. What they print is dropped. Ends with
 * status 0 if all do.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

/* The number that was given to the thread that began last. */
static int newest(void)
{
    int found = 0;
    FILE *file = fopen("/proc/loadavg", "r");

    if (!file || fscanf(file, "%*s %*s %*s %*s %d", &found) != 1)
        found = 0;
    if (file)
        fclose(file);
    return found;
}

/* Moves what began after this program and is of its group. */
static void move(int turn)
{
    int cores = sysconf(_SC_NPROCESSORS_ONLN);

    for (int thread = getpid() + 1, last = newest(); thread <= last; thread++) {
        cpu_set_t core;
        if (getpgid(thread) != getpid())
            continue;
        CPU_ZERO(&core);
        CPU_SET((thread + turn) % cores, &core);
        sched_setaffinity(thread, sizeof core, &core);
    }
}

int main(int argc, char **argv)
{
    int period = 0, number, status, failed = 0;
    double begin = now();

    if (argc > 2 && !strcmp(argv[1], "-m")) {
        period = atoi(argv[2]);
        argc -= 2;
        argv += 2;
    }
    if (argc < 3 || (number = atoi(argv[1])) < 1) {
        fprintf(stderr, "together [-m MICROSECONDS] NUMBER COMMAND...\n");
        return 2;
    }
    setpgid(0, 0);
    for (int one = 0; one < number; one++)
        if (!fork()) {
            dup2(open("/dev/null", O_WRONLY), 1);
            execvp(argv[2], argv + 2);
            _exit(127);
        }
    for (int turn = 0; number;) {
        int ended = waitpid(-1, &status, period ? WNOHANG : 0);
        if (ended > 0) {
            number--;
            failed += status != 0;
        } else {
            usleep(period);
            move(turn++);
        }
    }
    printf("together: %.6f s, %d failed\n", now() - begin, failed);
    return failed != 0;
}
