/* Counts what a process asks of the disk below one folder, and at one of these calls does harm.

   Loaded by LD_PRELOAD, so that it sees every library's calls and not only Python's. A call
   counts if its path, or what its descriptor is open on, lies below the folder. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { WATCH = 0, SHORT = -1, SIGNAL = 1000 }; /* or an errno; or SIGNAL + its number */

static char folder[PATH_MAX];
static long left = -1;
static int harm, log_to = -1;

/* Watch a folder: at its call number `at` (from 1; 0 for never) do `what`; list calls in `file`. */
void attack_arm(const char *path, long at, int what, const char *file) {
    if (!realpath(path, folder)) folder[0] = 0;
    harm = what;
    left = at ? at : LONG_MAX;
    log_to = file ? open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
}

static int is_below(const char *path) {
    char whole[PATH_MAX * 2];
    size_t length = strlen(folder);
    if (!length || !path) return 0;
    if (path[0] != '/') {
        if (!getcwd(whole, PATH_MAX)) return 0;
        strcat(whole, "/");
        strncat(whole, path, PATH_MAX - 1);
        path = whole;
    }
    return !strncmp(path, folder, length) && (path[length] == '/' || !path[length]);
}

static int is_open_below(int descriptor, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return path[0] == '/' && is_below(path);
}

/* Return whether the call goes on; otherwise errno says how it fails. `count` may be cut short. */
static int goes_on(const char *name, const char *path, size_t *count) {
    if (left < 0) return 1;
    if (log_to >= 0) dprintf(log_to, "%s %s\n", name, path);
    if (--left) return 1;
    left = -1; /* one harm a process */
    if (harm >= SIGNAL) {
        kill(getpid(), harm - SIGNAL);
        return 1;
    }
    if (harm == SHORT) {
        if (count && *count > 1) *count /= 2;
        return 1;
    }
    errno = harm;
    return harm == WATCH;
}

#define REAL(result, name, ...) \
    static result (*real)(__VA_ARGS__); \
    if (!real) real = (result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

#define ON_PATH(result, bad, name, watched, parameters, ...) \
    result name parameters { \
        REAL(result, name, TYPES_##name); \
        if (is_below(watched) && !goes_on(#name, watched, NULL)) return bad; \
        return real(__VA_ARGS__); \
    }
#define TYPES_rename const char *, const char *
ON_PATH(int, -1, rename, to, (const char *from, const char *to), from, to)
#define TYPES_link const char *, const char *
ON_PATH(int, -1, link, to, (const char *from, const char *to), from, to)
#define TYPES_unlink const char *
ON_PATH(int, -1, unlink, path, (const char *path), path)
#define TYPES_mkdir const char *, mode_t
ON_PATH(int, -1, mkdir, path, (const char *path, mode_t mode), path, mode)
#define TYPES_fopen const char *, const char *
ON_PATH(FILE *, NULL, fopen, path, (const char *path, const char *mode), path, mode)
#define TYPES_fopen64 const char *, const char *
ON_PATH(FILE *, NULL, fopen64, path, (const char *path, const char *mode), path, mode)

#define IS_NEW(flags) ((flags) & (O_CREAT | O_WRONLY | O_RDWR) ? "create" : "open")
#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        va_list rest; \
        va_start(rest, flags); \
        int mode = va_arg(rest, int); \
        va_end(rest); \
        REAL(int, name, const char *, int, ...); \
        if (is_below(path) && !goes_on(IS_NEW(flags), path, NULL)) return -1; \
        return real(path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

#define OPEN_AT(name) \
    int name(int at, const char *path, int flags, ...) { \
        va_list rest; \
        va_start(rest, flags); \
        int mode = va_arg(rest, int); \
        va_end(rest); \
        REAL(int, name, int, const char *, int, ...); \
        if (is_below(path) && !goes_on(IS_NEW(flags), path, NULL)) return -1; \
        return real(at, path, flags, mode); \
    }
OPEN_AT(openat)
OPEN_AT(openat64)

#define ON_OPEN(result, name, parameters, types, count, ...) \
    result name parameters { \
        char path[PATH_MAX]; \
        REAL(result, name, types); \
        if (left > 0 && is_open_below(fd, path) && !goes_on(#name, path, count)) return -1; \
        return real(__VA_ARGS__); \
    }
#define COMMA ,
ON_OPEN(ssize_t, write, (int fd, const void *bytes, size_t size), int COMMA const void * COMMA size_t, &size, fd, bytes, size)
ON_OPEN(ssize_t, pwrite, (int fd, const void *bytes, size_t size, off_t at), int COMMA const void * COMMA size_t COMMA off_t, &size, fd, bytes, size, at)
ON_OPEN(ssize_t, pwrite64, (int fd, const void *bytes, size_t size, off64_t at), int COMMA const void * COMMA size_t COMMA off64_t, &size, fd, bytes, size, at)
ON_OPEN(ssize_t, read, (int fd, void *bytes, size_t size), int COMMA void * COMMA size_t, &size, fd, bytes, size)
ON_OPEN(ssize_t, pread, (int fd, void *bytes, size_t size, off_t at), int COMMA void * COMMA size_t COMMA off_t, &size, fd, bytes, size, at)
ON_OPEN(ssize_t, pread64, (int fd, void *bytes, size_t size, off64_t at), int COMMA void * COMMA size_t COMMA off64_t, &size, fd, bytes, size, at)
ON_OPEN(int, fsync, (int fd), int, NULL, fd)
ON_OPEN(int, ftruncate, (int fd, off_t size), int COMMA off_t, NULL, fd, size)
ON_OPEN(int, ftruncate64, (int fd, off64_t size), int COMMA off64_t, NULL, fd, size)
