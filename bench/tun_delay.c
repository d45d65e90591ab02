/* Delays packets between two namespaces as mahimahi's mm-delay does: a TUN interface at each end,
 * one process per direction, one packet per read and per write, a millisecond clock (mahimahi 0.98:
 * src/frontend/delay_queue.cc, src/packet/ferry_queue...). Debian 12 does not package mahimahi; this
 * is a reimplementation of its loop.
 *
 * usage: tun_delay PID_A PID_B DELAY_US
 * creates `eth0` in the network namespaces of both processes, prints "ready", runs until killed */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

struct packet {
    struct packet *next;
    long long due_ms;
    int length;
    char bytes[];
};

static long long now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

static int tun_in(const char *pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%s/ns/net", pid);
    int namespace = open(path, O_RDONLY | O_CLOEXEC);
    if (namespace < 0 || setns(namespace, CLONE_NEWNET) < 0) err(1, "enter %s", path);
    close(namespace);
    int tun = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
    if (tun < 0) err(1, "/dev/net/tun");
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    strcpy(request.ifr_name, "eth0");
    if (ioctl(tun, TUNSETIFF, &request) < 0) err(1, "make eth0");
    return tun;
}

static void carry(int from, int to, long long delay_ms) {
    struct packet *first = NULL, **last = &first;
    static char bytes[65536];
    for (;;) {
        long long wait = first ? first->due_ms - now_ms() : -1;
        struct pollfd in = {.fd = from, .events = POLLIN};
        poll(&in, 1, first ? (wait < 0 ? 0 : (int)wait) : -1);
        if (in.revents & POLLIN) {
            int length = (int)read(from, bytes, sizeof bytes);
            if (length > 0) {
                struct packet *packet = malloc(sizeof *packet + (size_t)length);
                *packet = (struct packet){.due_ms = now_ms() + delay_ms, .length = length};
                memcpy(packet->bytes, bytes, (size_t)length);
                *last = packet;
                last = &packet->next;
            }
        }
        while (first && first->due_ms <= now_ms()) {
            struct packet *packet = first;
            first = packet->next;
            if (!first) last = &first;
            if (write(to, packet->bytes, (size_t)packet->length) < 0) {
                /* The interface is down: the packet is lost, as with mm-delay. */
            }
            free(packet);
        }
    }
}

int main(int count, char **words) {
    if (count != 4) errx(2, "usage: tun_delay PID_A PID_B DELAY_US");
    int a = tun_in(words[1]), b = tun_in(words[2]);
    long long delay_ms = atoll(words[3]) / 1000;
    pid_t parent = getpid();
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) return 1;
        carry(b, a, delay_ms);
    }
    puts("ready");
    fflush(stdout);
    carry(a, b, delay_ms);
}
