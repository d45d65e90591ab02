/* Measures the ceiling of an iSCSI-shaped request/response stream over loopback TCP, which no target
 * and no initiator can exceed.
 *
 * The client keeps DEPTH requests of 48 bytes outstanding; the server answers each with
 * 48 + PAYLOAD bytes. Everything that is ready is sent in one writev on both sides, and neither side
 * spins: the shape of a perfect target and initiator. Without MEMORY every payload is the same few
 * bytes, which never leave the server's cache. With it each payload lies at a random place (a
 * multiple of PAYLOAD) in MEMORY MiB, as the blocks of an LU do: the ceiling for a target that sends
 * random blocks from memory.
 *
 * usage: tcp_echo DEPTH PAYLOAD SECONDS SERVER_CPU CLIENT_CPU [MEMORY]
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
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { REQUEST = 48, BATCH = 64, INPUT = 1 << 20 };

/* Memory of the payloads, and the number that fit. 0: one fixed payload follows the header. */
static char *memory;
static size_t places;

static void die(const char *operation) {
    perror(operation);
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
    sched_setaffinity(0, sizeof set, &set); /* fails on a machine without this core */
}

/* Returns the next random place: xorshift64 (Marsaglia, 2003). */
static size_t next_place(void) {
    static unsigned long long x = 88172645463325252ULL;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return (size_t)(x % places);
}

/* Sends `count` messages, BATCH per writev: copies of `message`, or its header and a payload from
 * memory. */
static int send_messages(int fd, char *message, size_t length, size_t count) {
    struct iovec v[2 * BATCH];
    while (count > 0) {
        size_t batch = count < BATCH ? count : BATCH, left = batch * length;
        int pieces = 0, first = 0;
        for (size_t i = 0; i < batch; i++) {
            if (places == 0) {
                v[pieces++] = (struct iovec){message, length};
                continue;
            }
            v[pieces++] = (struct iovec){message, REQUEST};
            v[pieces++] = (struct iovec){memory + next_place() * (length - REQUEST), length - REQUEST};
        }
        while (left > 0) {
            ssize_t r = writev(fd, v + first, pieces - first);
            if (r < 0 && errno == EINTR) continue;
            if (r < 0) return -1;
            size_t sent = (size_t)r;
            left -= sent;
            while (sent > 0 && sent >= v[first].iov_len) sent -= v[first++].iov_len;
            if (sent > 0) v[first] = (struct iovec){(char *)v[first].iov_base + sent, v[first].iov_len - sent};
        }
        count -= batch;
    }
    return 0;
}

/* Waits for input and reads it; returns the number of complete messages, or -1 at the end. */
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

/* Allocates memory like that of an LU: written once, in huge pages where available. */
static void make_memory(size_t bytes, size_t payload) {
    memory = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) die("mmap");
    madvise(memory, bytes, MADV_HUGEPAGE);
    memset(memory, 7, bytes);
    places = bytes / payload;
}

static double cpu_seconds(int who) {
    struct rusage u;
    getrusage(who, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

int main(int argc, char **argv) {
    if (argc != 6 && argc != 7) {
        fprintf(stderr, "usage: tcp_echo DEPTH PAYLOAD SECONDS SERVER_CPU CLIENT_CPU [MEMORY]\n");
        return 2;
    }
    size_t depth = strtoul(argv[1], 0, 10), response = REQUEST + strtoul(argv[2], 0, 10);
    double seconds = strtod(argv[3], 0);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t al = sizeof a;
    if (bind(listener, (void *)&a, al) || listen(listener, 1) || getsockname(listener, (void *)&a, &al)) die("listen");
    if (argc == 7) make_memory(strtoul(argv[6], 0, 10) << 20, response - REQUEST);
    double before = cpu_seconds(RUSAGE_SELF);
    pid_t child = fork();
    if (child == 0) serve(listener, response, atoi(argv[4]));
    places = 0; /* the client's messages are its requests */
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
           (double)messages / (t - start), cpu_seconds(RUSAGE_CHILDREN) * per, (cpu_seconds(RUSAGE_SELF) - before) * per);
}
