/* A disk that fails at the n-th operation of a process on its files; preloaded into parties.

   DISK_FAULT is "KIND N MANY": what befalls operation N, counted from 1. `failing_disk.py` says what the kinds are.
   Where it is unset, and before N, everything is the system's. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum fate { PASS, REFUSE, FAIL, TEAR, SHORTEN };
static long operations, befallen;

static void *next(const char *name) { return dlsym(RTLD_NEXT, name); }

static void die(void) { kill(getpid(), SIGKILL); pause(); }

/* Leaves a number in the file DISK_TOLD: of operations, or of the one that something befell. */
static void tell(long number) {
    int file = open(getenv("DISK_TOLD"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dprintf(file, "%ld", number);
    close(file);
}

/* What befalls an operation: one that writes, or one that syncs or renames. */
static enum fate fate_of(int writes) {
    char kind[16];
    long first, many;
    const char *plan = getenv("DISK_FAULT");
    if (!plan || sscanf(plan, "%15s %ld %ld", kind, &first, &many) != 3) return PASS;
    long number = __atomic_add_fetch(&operations, 1, __ATOMIC_SEQ_CST);
    if (kind[0] == 'c') { /* count */
        tell(number);
        return PASS;
    }
    if (number < first) return PASS;
    if (kind[0] == 'f' && kind[1] == 'u') { /* full */
        if (number >= first + many || !writes) return PASS;
        tell(number);
        return REFUSE;
    }
    int late = kind[0] == 't' || kind[1] == 'h' ? !writes : kind[1] == 'y' ? writes : number > first;
    if (late || __atomic_fetch_add(&befallen, 1, __ATOMIC_SEQ_CST)) return PASS;
    tell(number);
    if (kind[0] == 'k' || kind[0] == 'p') die(); /* kill, power */
    if (kind[1] == 't') kill(getpid(), SIGTERM); /* stop */
    if (kind[1] == 'r') kill(getpid(), SIGSTOP); /* freeze */
    return kind[0] == 't' ? TEAR : kind[1] == 'h' ? SHORTEN : kind[1] == 'y' ? FAIL : PASS;
}

/* Checks whether it is a file of the party's; its standard streams are somebody else's. */
static int is_file(int file) {
    struct stat found;
    return file > 2 && !fstat(file, &found) && S_ISREG(found.st_mode);
}

#define WRITES(name, extra_types, extra)                                                            \
    ssize_t name(int file, const void *bytes, size_t count extra_types) {                           \
        ssize_t (*real)(int, const void *, size_t extra_types) = next(#name);                       \
        enum fate fate = is_file(file) ? fate_of(1) : PASS;                                         \
        if (fate == REFUSE) { errno = ENOSPC; return -1; }                                          \
        ssize_t done = real(file, bytes, fate >= TEAR && count > 1 ? count / 2 : count extra);      \
        if (fate == TEAR) die();                                                                    \
        return done;                                                                                \
    }
#define AT , off_t place
#define PLACE , place
WRITES(write, , )
WRITES(pwrite, AT, PLACE)
WRITES(pwrite64, AT, PLACE)

/* Keeps what of a file has reached the disk: its bytes under its inode in DISK_SYNCED. */
static void keep(int file) {
    char name[512], bytes[65536];
    struct stat found;
    const char *folder = getenv("DISK_SYNCED");
    if (!folder || fstat(file, &found)) return;
    snprintf(name, sizeof name, "%s/%ld", folder, (long)found.st_ino);
    char source[64];
    snprintf(source, sizeof source, "/proc/self/fd/%d", file);
    int from = open(source, O_RDONLY), to = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ssize_t (*real)(int, const void *, size_t) = next("write");
    for (ssize_t count; (count = read(from, bytes, sizeof bytes)) > 0;) real(to, bytes, count);
    close(from);
    close(to);
}

#define SYNCS(name)                                                                                 \
    int name(int file) {                                                                            \
        int (*real)(int) = next(#name);                                                             \
        int ours = is_file(file);                                                                   \
        if (ours && fate_of(0) == FAIL) { errno = EIO; return -1; }                                 \
        int done = real(file);                                                                      \
        if (ours && !done) keep(file);                                                              \
        return done;                                                                                \
    }
SYNCS(fsync)
SYNCS(fdatasync)

int rename(const char *before, const char *after) {
    int (*real)(const char *, const char *) = next("rename");
    if (fate_of(0) == FAIL) { errno = EIO; return -1; }
    return real(before, after);
}
