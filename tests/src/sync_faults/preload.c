/* LD_PRELOAD library with faults at fsync and fdatasync: kills the process at its n-th sync, counted over all threads;
   fails every sync, or fails or delays those of the audit log, while a marker file exists. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_long entered;

static int is_of_the_audit_log(int file) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    return strstr(path, "/audit/") != NULL;
}

static int enter(const char *sync, int file) {
    const char *at = getenv("KILL_AT_SYNC"), *broken = getenv("FAIL_SYNCS_WHILE"),
               *broken_audit = getenv("FAIL_AUDIT_WHILE"), *held = getenv("HOLD_AUDIT_WHILE");
    if (at && atomic_fetch_add(&entered, 1) + 1 == atol(at)) {
        kill(getpid(), SIGKILL);
        for (;;) pause();
    }
    int is_broken = broken && access(broken, F_OK) == 0;
    if (is_broken || (broken_audit && access(broken_audit, F_OK) == 0 && is_of_the_audit_log(file))) {
        errno = EIO;
        return -1;
    }
    if (held && is_of_the_audit_log(file)) {
        while (access(held, F_OK) == 0) usleep(1000);
    }
    return ((int (*)(int))dlsym(RTLD_NEXT, sync))(file);
}

int fsync(int file) {
    return enter("fsync", file);
}

int fdatasync(int file) {
    return enter("fdatasync", file);
}
