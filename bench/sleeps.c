/* Measures the error that this machine alone adds to echoes delayed in both directions. Nothing is
 * sent or computed. An echo begins every EVERY_US; it is due DELAY_US later, and again DELAY_US after that.
 * One process sleeps until each instant or, with `spin`, polls the clock until then. The sum of its
 * two latenesses is the least error that any program can have that delays both ways and waits so.
 *
 * usage: sleeps COUNT EVERY_US DELAY_US [spin]
 * prints one line of JSON: error_us_p50, error_us_p99. */
#define _GNU_SOURCE
#include <err.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

static int64_t now_ns(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

static int spins;

static void wait_until(int64_t at) {
    if (spins) {
        while (now_ns() < at) {}
        return;
    }
    struct timespec deadline = {at / 1000000000, at % 1000000000};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, NULL);
}

static int ascending(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    spins = argc == 5 && !strcmp(argv[4], "spin");
    if (argc != 4 && !spins) errx(2, "usage: sleeps COUNT EVERY_US DELAY_US [spin]");
    const int count = atoi(argv[1]);
    const int64_t every = atoll(argv[2]) * 1000, delay = atoll(argv[3]) * 1000;
    /* Instant at which each echo is due back (its return begins at the actual arrival), and its error. */
    int64_t *due_back = calloc(count, sizeof *due_back), *error = calloc(count, sizeof *error);
    if (!due_back || !error) err(1, "calloc");
    prctl(PR_SET_TIMERSLACK, 1);
    const int64_t begin = now_ns();
    for (int arrived = 0, returned = 0; returned < count;) {
        const int64_t due = begin + arrived * every + delay;
        if (arrived < count && (arrived == returned || due <= due_back[returned])) {
            wait_until(due);
            const int64_t at = now_ns();
            due_back[arrived] = at + delay;
            error[arrived++] = at - due;
        } else {
            wait_until(due_back[returned]);
            error[returned] += now_ns() - due_back[returned];
            returned++;
        }
    }
    qsort(error, count, sizeof *error, ascending);
    printf("{\"error_us_p50\": %.3f, \"error_us_p99\": %.3f}\n", error[count / 2] / 1e3, error[count * 99 / 100] / 1e3);
}
