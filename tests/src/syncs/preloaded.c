/* Stands between a process and its disk. Kills it as it enters its n-th sync of a file, counted over all threads; has
   every sync fail while a file is there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_long entered;

static int enter(const char *sync, int file) {
    const char *at = getenv("KILL_AT_SYNC"), *broken = getenv("FAIL_SYNCS_WHILE");
    if (at && atomic_fetch_add(&entered, 1) + 1 == atol(at)) {
        kill(getpid(), SIGKILL);
        for (;;) pause();
    }
    if (broken && access(broken, F_OK) == 0) {
        errno = EIO;
        return -1;
    }
    return ((int (*)(int))dlsym(RTLD_NEXT, sync))(file);
}

int fsync(int file) {
    return enter("fsync", file);
}

int fdatasync(int file) {
    return enter("fdatasync", file);
}
