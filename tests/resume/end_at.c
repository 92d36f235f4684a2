/* Loaded into a training process: it ends, as if killed, at the END_AT-th time that it opens, writes, syncs or renames a
   file below END_FOLDER. A write is then half done. Each such event adds a byte to the file END_COUNT, if that is set. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_long seen;
static atomic_char watched[4096]; /* by file descriptor */

static int below(const char *path) {
    const char *folder = getenv("END_FOLDER");
    return folder && strncmp(path, folder, strlen(folder)) == 0;
}

/* Whether this event is the last. */
static int last(void) {
    const char *count = getenv("END_COUNT"), *at = getenv("END_AT");
    if (count) {
        int fd = openat(AT_FDCWD, count, O_WRONLY | O_CREAT | O_APPEND, 0600);
        ssize_t (*write_)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
        write_(fd, ".", 1);
        close(fd);
    }
    return at && atomic_fetch_add(&seen, 1) + 1 == atol(at);
}

int open64(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    int mode = va_arg(more, int);
    va_end(more);
    int writes = (flags & (O_WRONLY | O_RDWR)) && below(path);
    if (writes && last()) _exit(77);
    int (*open_)(const char *, int, ...) = dlsym(RTLD_NEXT, "open64");
    int fd = open_(path, flags, mode);
    if (fd >= 0 && fd < 4096) watched[fd] = writes;
    return fd;
}

ssize_t write(int fd, const void *bytes, size_t n) {
    ssize_t (*write_)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
    if (fd >= 0 && fd < 4096 && watched[fd] && last()) {
        write_(fd, bytes, n / 2);
        _exit(77);
    }
    return write_(fd, bytes, n);
}

int fsync(int fd) {
    int (*fsync_)(int) = dlsym(RTLD_NEXT, "fsync");
    if (fd >= 0 && fd < 4096 && watched[fd] && last()) _exit(77);
    return fsync_(fd);
}

int rename(const char *from, const char *to) {
    int (*rename_)(const char *, const char *) = dlsym(RTLD_NEXT, "rename");
    if (below(to) && last()) _exit(77);
    return rename_(from, to);
}
