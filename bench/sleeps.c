/* What this machine's timers alone add to echoes that are held back twice, asleep: nothing is sent, nothing is computed. An echo begins every
 * EVERY_US; it is due DELAY_US later, and again DELAY_US after that; one process sleeps until each instant. Its two latenesses are its error: the
 * least that whatever delays both ways and sleeps in between can have here.
 *
 * usage: sleeps COUNT EVERY_US DELAY_US
 * prints one line of JSON: error_us_p50, error_us_p99. */
#define _GNU_SOURCE
#include <err.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

static int64_t now_ns(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

static void sleep_until(int64_t at) {
    struct timespec then = {at / 1000000000, at % 1000000000};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &then, NULL);
}

static int ascending(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    if (argc != 4) errx(2, "usage: sleeps COUNT EVERY_US DELAY_US");
    const int count = atoi(argv[1]);
    const int64_t every = atoll(argv[2]) * 1000, delay = atoll(argv[3]) * 1000;
    /* When each echo is due at the far end, and back; the way back begins when the far end really had it. */
    int64_t *back = calloc(count, sizeof *back), *error = calloc(count, sizeof *error);
    if (!back || !error) err(1, "calloc");
    prctl(PR_SET_TIMERSLACK, 1);
    const int64_t begin = now_ns();
    for (int there = 0, home = 0; home < count;) {
        const int64_t due = begin + there * every + delay;
        if (there < count && (there == home || due <= back[home])) {
            sleep_until(due);
            const int64_t at = now_ns();
            back[there] = at + delay;
            error[there++] = at - due;
        } else {
            sleep_until(back[home]);
            error[home] += now_ns() - back[home];
            home++;
        }
    }
    qsort(error, count, sizeof *error, ascending);
    printf("{\"error_us_p50\": %.3f, \"error_us_p99\": %.3f}\n", error[count / 2] / 1e3, error[count * 99 / 100] / 1e3);
}
