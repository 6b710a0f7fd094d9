/* Kills its process as it enters its n-th sync of a file, counted over all threads: `strace` counts for each apart. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_long entered;

static void enter(void) {
    const char *at = getenv("KILL_AT_SYNC");
    if (at && atomic_fetch_add(&entered, 1) + 1 == atol(at)) {
        kill(getpid(), SIGKILL);
        for (;;) pause();
    }
}

int fsync(int file) {
    enter();
    return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(file);
}

int fdatasync(int file) {
    enter();
    return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(file);
}
