/* net: how soon a process answers a packet, and how evenly it sends them.
 *
 *   net reply PACKETS     a command comes every 2 ms, a process answers it; from command to reply
 *   net period PACKETS    a process sends a packet every 500 us, another one works every 1,000 us
 *
 * The two applications of Chanteperdrix and Cochran 2009, section 5.2, by UDP over the loopback device in
 * place of a wire: the kernel's own time stamps say when a packet arrives, after the driver's work and
 * before anybody is woken. What sends the commands is a process too, with the highest priority; it
 * sleeps when the answering one is woken, so that one switch lies in between, as on a wire. Prints the
 * least, the average, the most and the standard deviation in microseconds.
 */
#define _GNU_SOURCE
#include <math.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WARM_UP = 20, COMMAND_PERIOD_US = 2000, SEND_PERIOD_US = 500, OTHER_PERIOD_US = 1000 };
enum { HIGHEST = 60, TESTED = 50, OTHER = 40 };

_Noreturn static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void run_with_priority(int priority)
{
    struct sched_param wanted = {.sched_priority = priority};

    /* the C library's own function is empty */
    if (syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &wanted))
        fail("sched_setscheduler");
}

static void bring_up_loopback(int any_socket)
{
    struct ifreq device = {.ifr_name = "lo", .ifr_flags = IFF_UP};

    if (ioctl(any_socket, SIOCSIFFLAGS, &device))
        fail("lo");
}

/* A socket at a port of the loopback device, which gives packets with the time of their arrival. */
static int bound(int port)
{
    struct sockaddr_in place = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int made = socket(AF_INET, SOCK_DGRAM, 0), on = 1;

    if (made < 0)
        fail("socket");
    bring_up_loopback(made);
    if (bind(made, (struct sockaddr *)&place, sizeof place)
        || setsockopt(made, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on))
        fail("bind");
    return made;
}

static void send_to(int from, int port, double content)
{
    struct sockaddr_in place = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    if (sendto(from, &content, sizeof content, 0, (struct sockaddr *)&place, sizeof place) < 0)
        fail("sendto");
}

/* Waits for a packet: what it says, and when it came, in microseconds. */
static double receive(int at, double *arrived_us)
{
    char control[64];
    double content;
    struct iovec data = {&content, sizeof content};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *part;
    struct timespec stamp;

    if (recvmsg(at, &message, 0) != sizeof content)
        fail("recvmsg");
    part = CMSG_FIRSTHDR(&message);
    if (!part || part->cmsg_type != SCM_TIMESTAMPNS)
        fail("time stamp");
    memcpy(&stamp, CMSG_DATA(part), sizeof stamp);
    /* less than a day, so that the microseconds are exact */
    *arrived_us = stamp.tv_sec % 86400 * 1e6 + stamp.tv_nsec / 1e3;
    return content;
}

static void wait_until(struct timespec *next, int period_us)
{
    next->tv_nsec += period_us * 1000L;
    if (next->tv_nsec >= 1000000000L) {
        next->tv_nsec -= 1000000000L;
        next->tv_sec++;
    }
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, next, 0);
}

static struct {
    double least, most, sum, squares;
    int count;
} found;

static void note(double us)
{
    if (!found.count || us < found.least)
        found.least = us;
    if (us > found.most)
        found.most = us;
    found.sum += us;
    found.squares += us * us;
    found.count++;
}

static void print(const char *name)
{
    double average = found.sum / found.count;

    printf("net %s: %d packets, least %.1f average %.1f most %.1f deviation %.2f us\n", name, found.count,
           found.least, average, found.most, sqrt(found.squares / found.count - average * average));
}

static void reply(int packets)
{
    enum { COMMANDS = 5001, REPLIES = 5002 };
    int commands = bound(COMMANDS), replies = bound(REPLIES);
    struct timespec next;
    pid_t child = fork();

    if (child < 0)
        fail("fork");
    if (!child) {
        static volatile char state[1024];
        run_with_priority(TESTED);
        for (;;) {
            double arrived;
            receive(commands, &arrived);
            for (unsigned byte = 0; byte < sizeof state; byte += 32)
                state[byte]++;
            send_to(commands, REPLIES, arrived);
        }
    }
    run_with_priority(HIGHEST);
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (int packet = -WARM_UP; packet < packets; packet++) {
        double command, answered;
        wait_until(&next, COMMAND_PERIOD_US);
        send_to(replies, COMMANDS, 0);
        command = receive(replies, &answered);
        if (packet >= 0)
            note(answered - command);
    }
    kill(child, SIGKILL);
    waitpid(child, 0, 0);
    print("reply");
}

static void period(int packets)
{
    enum { PORT = 5003 };
    int socket = bound(PORT);
    double before = 0, sent;
    struct timespec next;
    pid_t child = fork();

    if (child < 0)
        fail("fork");
    clock_gettime(CLOCK_MONOTONIC, &next);
    if (!child) {
        run_with_priority(OTHER);
        for (;;)
            wait_until(&next, OTHER_PERIOD_US);
    }
    run_with_priority(HIGHEST);
    for (int packet = -WARM_UP; packet < packets; packet++) {
        wait_until(&next, SEND_PERIOD_US);
        send_to(socket, PORT, 0);
        receive(socket, &sent);
        if (packet >= 0)
            note(sent - before);
        before = sent;
    }
    kill(child, SIGKILL);
    waitpid(child, 0, 0);
    print("period");
}

int main(int argc, char **argv)
{
    int packets = argc > 2 ? atoi(argv[2]) : 0;

    if (packets > 0 && !strcmp(argv[1], "reply"))
        reply(packets);
    else if (packets > 0 && !strcmp(argv[1], "period"))
        period(packets);
    else {
        fprintf(stderr, "net: see the head of guests/linux/net.c\n");
        return 2;
    }
    return 0;
}
