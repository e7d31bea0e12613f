/* Makes the n-th call that writes fail, or kills the process at it: `cc -shared -fPIC preload.c -o preload.so -ldl`.

   FAULT_SCOPE    folders, separated by colons: calls about files elsewhere neither count nor fail
   FAULT_COUNTER  a file of 8 bytes that all processes count in
   FAULT_N        which call fails (0: none, they are counted only)
   FAULT_ERRNO    with which errno
   FAULT_STICKY   1: so do all calls after it
   FAULT_KILL     1: the process is killed at it instead
   FAULT_CLOCK    seconds that the wall clock is ahead (negative: behind) */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static uint64_t *counter;

static void map_counter(void)
{
    const char *path = getenv("FAULT_COUNTER");
    if (counter || !path)
        return;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    void *page = mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (page != MAP_FAILED)
        counter = page;
}

static int within(const char *path)
{
    const char *scope = getenv("FAULT_SCOPE");
    while (scope && *scope) {
        size_t length = strcspn(scope, ":");
        if (!strncmp(path, scope, length))
            return 1;
        scope += length + (scope[length] == ':');
    }
    return 0;
}

static int link_of(int fd, char *out)
{
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(name, out, PATH_MAX - 1);
    if (length < 0)
        return 0;
    out[length] = 0;
    return out[0] == '/';
}

/* Whether a call has to fail; sets errno. */
static int fails(const char *path)
{
    map_counter();
    if (!counter || !within(path))
        return 0;
    uint64_t number = __atomic_add_fetch(counter, 1, __ATOMIC_SEQ_CST);
    const char *n = getenv("FAULT_N"), *sticky = getenv("FAULT_STICKY"), *code = getenv("FAULT_ERRNO");
    uint64_t wanted = n ? strtoull(n, NULL, 10) : 0;
    if (!wanted || number < wanted || (number > wanted && !(sticky && *sticky == '1')))
        return 0;
    if (getenv("FAULT_KILL"))
        kill(getpid(), SIGKILL);
    errno = code ? atoi(code) : EIO;
    return 1;
}

static int fails_at(int folder, const char *path)
{
    char whole[2 * PATH_MAX], base[PATH_MAX];
    if (!path || path[0] == '/')
        return path && fails(path);
    if (folder == AT_FDCWD ? !getcwd(base, sizeof base) : !link_of(folder, base))
        return 0;
    snprintf(whole, sizeof whole, "%s/%s", base, path);
    return fails(whole);
}

static int fails_on(int fd)
{
    char path[PATH_MAX];
    return fd > 2 && link_of(fd, path) && fails(path);
}

#define OPEN(name)                                                                                                     \
    int name(const char *path, int flags, ...)                                                                         \
    {                                                                                                                  \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0;                                      \
        va_end(rest);                                                                                                  \
        return fails_at(AT_FDCWD, path) ? -1 : REAL(name)(path, flags, mode);                                          \
    }
#define OPENAT(name)                                                                                                   \
    int name(int folder, const char *path, int flags, ...)                                                             \
    {                                                                                                                  \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0;                                      \
        va_end(rest);                                                                                                  \
        return fails_at(folder, path) ? -1 : REAL(name)(folder, path, flags, mode);                                    \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

FILE *fopen(const char *path, const char *mode) { return fails_at(AT_FDCWD, path) ? NULL : REAL(fopen)(path, mode); }
FILE *fopen64(const char *path, const char *mode) { return fails_at(AT_FDCWD, path) ? NULL : REAL(fopen64)(path, mode); }
ssize_t write(int fd, const void *data, size_t size) { return fails_on(fd) ? -1 : REAL(write)(fd, data, size); }
ssize_t writev(int fd, const struct iovec *parts, int count) { return fails_on(fd) ? -1 : REAL(writev)(fd, parts, count); }
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return fails_on(fd) ? -1 : REAL(pwrite)(fd, data, size, at); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) { return fails_on(fd) ? -1 : REAL(pwrite64)(fd, data, size, at); }
int fsync(int fd) { return fails_on(fd) ? -1 : REAL(fsync)(fd); }
int fdatasync(int fd) { return fails_on(fd) ? -1 : REAL(fdatasync)(fd); }
int ftruncate(int fd, off_t size) { return fails_on(fd) ? -1 : REAL(ftruncate)(fd, size); }
int ftruncate64(int fd, off64_t size) { return fails_on(fd) ? -1 : REAL(ftruncate64)(fd, size); }
int rename(const char *from, const char *to) { return fails_at(AT_FDCWD, to) ? -1 : REAL(rename)(from, to); }
int renameat(int a, const char *from, int b, const char *to) { return fails_at(b, to) ? -1 : REAL(renameat)(a, from, b, to); }
int renameat2(int a, const char *from, int b, const char *to, unsigned flags) { return fails_at(b, to) ? -1 : REAL(renameat2)(a, from, b, to, flags); }
int mkdir(const char *path, mode_t mode) { return fails_at(AT_FDCWD, path) ? -1 : REAL(mkdir)(path, mode); }
int mkdirat(int folder, const char *path, mode_t mode) { return fails_at(folder, path) ? -1 : REAL(mkdirat)(folder, path, mode); }
int unlink(const char *path) { return fails_at(AT_FDCWD, path) ? -1 : REAL(unlink)(path); }
int unlinkat(int folder, const char *path, int flags) { return fails_at(folder, path) ? -1 : REAL(unlinkat)(folder, path, flags); }
int rmdir(const char *path) { return fails_at(AT_FDCWD, path) ? -1 : REAL(rmdir)(path); }
int chmod(const char *path, mode_t mode) { return fails_at(AT_FDCWD, path) ? -1 : REAL(chmod)(path, mode); }

static long ahead(void)
{
    const char *seconds = getenv("FAULT_CLOCK");
    return seconds ? atol(seconds) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int status = (int)syscall(SYS_clock_gettime, clock, now);
    if (!status && clock == CLOCK_REALTIME)
        now->tv_sec += ahead();
    return status;
}

int gettimeofday(struct timeval *now, void *zone)
{
    (void)zone;
    struct timespec found;
    int status = clock_gettime(CLOCK_REALTIME, &found);
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return status;
}

time_t time(time_t *out)
{
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (out)
        *out = found.tv_sec;
    return found.tv_sec;
}
