/* The ceiling of an iSCSI-shaped request/response stream over loopback TCP: what no target and no initiator can pass.
 *
 * The client keeps DEPTH requests of 48 bytes outstanding; the server answers each with 48 + PAYLOAD bytes. Everything
 * that is ready goes out in one writev on both sides, and nobody spins: the shape of a perfect target and initiator.
 *
 * usage: tcp_echo DEPTH PAYLOAD SECONDS SERVER_CPU CLIENT_CPU
 * prints one line of JSON: messages per second, CPU seconds per 100 000 messages of each side.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { REQUEST = 48, BATCH = 64, INPUT = 1 << 20 };

static void die(const char *what) {
    perror(what);
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set); /* on one core: stays where it is */
}

/* Send `count` copies of a message, BATCH to a writev. */
static int send_messages(int fd, char *message, size_t length, size_t count) {
    size_t sent_of_first = 0;
    while (count > 0) {
        struct iovec v[BATCH];
        int n = count < BATCH ? (int)count : BATCH;
        for (int i = 0; i < n; i++) v[i] = (struct iovec){message, length};
        v[0] = (struct iovec){message + sent_of_first, length - sent_of_first};
        ssize_t r = writev(fd, v, n);
        if (r < 0) {
            if (errno == EINTR) continue;
            return -1;
        }
        size_t total = sent_of_first + (size_t)r;
        count -= total / length;
        sent_of_first = total % length;
    }
    return 0;
}

/* Wait for input, take all of it, return how many whole messages have come; -1 at the end. */
static long receive_messages(int fd, int ep, char *buffer, size_t length, size_t *have) {
    struct epoll_event e;
    for (;;) {
        epoll_wait(ep, &e, 1, -1);
        ssize_t r = recv(fd, buffer, INPUT, MSG_DONTWAIT);
        if (r < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (r <= 0) return -1;
        *have += (size_t)r;
        long whole = (long)(*have / length);
        *have %= length;
        return whole;
    }
}

static int watch(int fd) {
    int one = 1, ep = epoll_create1(0);
    struct epoll_event e = {.events = EPOLLIN};
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (ep < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e)) die("epoll");
    return ep;
}

static void serve(int listener, size_t response, int cpu) {
    pin(cpu);
    int fd = accept(listener, 0, 0), ep = watch(fd);
    char *in = malloc(INPUT), *out = calloc(1, response);
    size_t have = 0;
    long n;
    while ((n = receive_messages(fd, ep, in, REQUEST, &have)) >= 0)
        if (n && send_messages(fd, out, response, (size_t)n)) break;
    _exit(0);
}

static double cpu_seconds(int who) {
    struct rusage u;
    getrusage(who, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

int main(int argc, char **argv) {
    if (argc != 6) {
        fprintf(stderr, "usage: tcp_echo DEPTH PAYLOAD SECONDS SERVER_CPU CLIENT_CPU\n");
        return 2;
    }
    size_t depth = strtoul(argv[1], 0, 10), response = REQUEST + strtoul(argv[2], 0, 10);
    double seconds = strtod(argv[3], 0);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t al = sizeof a;
    if (bind(listener, (void *)&a, al) || listen(listener, 1) || getsockname(listener, (void *)&a, &al)) die("listen");
    pid_t child = fork();
    if (child == 0) serve(listener, response, atoi(argv[4]));
    pin(atoi(argv[5]));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (void *)&a, al)) die("connect");
    int ep = watch(fd);
    char *in = malloc(INPUT), *out = calloc(1, REQUEST);
    size_t have = 0;
    unsigned long messages = 0;
    double start = now(), t = start;
    send_messages(fd, out, REQUEST, depth);
    while ((t = now()) - start < seconds) {
        long n = receive_messages(fd, ep, in, response, &have);
        if (n < 0) die("recv");
        messages += (unsigned long)n;
        if (n && send_messages(fd, out, REQUEST, (size_t)n)) die("writev");
    }
    shutdown(fd, SHUT_RDWR);
    close(fd);
    waitpid(child, 0, 0);
    double per = 1e5 / (double)messages;
    printf("{\"messages_per_s\": %.0f, \"server_cpu_s_per_100k\": %.4f, \"client_cpu_s_per_100k\": %.4f}\n",
           (double)messages / (t - start), cpu_seconds(RUSAGE_CHILDREN) * per, cpu_seconds(RUSAGE_SELF) * per);
}
