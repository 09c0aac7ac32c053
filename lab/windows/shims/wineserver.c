// Loaded into Wine's server, which serves all programs of a host. The server creates and binds their sockets: with this library, each socket is
// in the network namespace of its program, and only this namespace decides whether a port is free. The server has their registry: with this
// library, the computer name in it is that of the program's UTS namespace.
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <uchar.h>
#include <unistd.h>

enum {
    request_size = 64,   // union generic_request
    bind_code = 0x12003, // IOCTL_AFD_BIND
    inet6 = 23,          // Windows' AF_INET6; its AF_INET is Linux'
    short_name = 15,     // length of a NetBIOS name, in upper case
};

// A reply is union generic_reply for a request of a registry value.
struct reply {
    unsigned error, size;
    int type;
    unsigned total;
    char rest[48];
};

static int client = -1;     // the pipe of the thread whose request the server is handling
static int binding;         // whether the request binds a socket whose address has not been read yet
static in_port_t wanted;    // the port in this address
static size_t longest;      // for a request of the computer name, the maximum length of the name; otherwise 0
static unsigned room;       // the number of bytes that the client accepts in the reply

// longest_name returns the maximum length of the computer name in a registry value, by the value's name, or 0 for other values.
static size_t longest_name(const void *value, ssize_t size) {
    static const char16_t host[] = u"Hostname", computer[] = u"ComputerName";
    if (size == sizeof host - sizeof *host && !memcmp(value, host, size)) return HOST_NAME_MAX;
    if (size == sizeof computer - sizeof *computer && !memcmp(value, computer, size)) return short_name;
    return 0;
}

// read records the client and the kind of a request. The server rejects a port that any program of the host uses, regardless of its namespace. It
// does not check port 0, so this function passes port 0 to it.
ssize_t read(int fd, void *buffer, size_t size) {
    ssize_t got = syscall(SYS_read, fd, buffer, size);
    if (size == request_size && got == request_size) {
        client = fd;
        binding = ((int *)buffer)[3] == bind_code; // after the header
        wanted = 0;
        longest = 0;
        room = ((unsigned *)buffer)[2];
    } else if (binding && fd == client && got >= 8) {
        unsigned short *address = (unsigned short *)buffer + 2;
        if (address[0] == AF_INET || address[0] == inet6) {
            wanted = address[1];
            address[1] = 0;
        }
        binding = 0;
    } else if (fd == client) {
        longest = longest_name(buffer, got);
    }
    return got;
}

int bind(int fd, const struct sockaddr *address, socklen_t size) {
    struct sockaddr_in6 own; // its port is at the same offset as in a sockaddr_in
    if (wanted && size <= sizeof own && (address->sa_family == AF_INET || address->sa_family == AF_INET6)) {
        memcpy(&own, address, size);
        own.sin6_port = wanted;
        address = (struct sockaddr *)&own;
    }
    wanted = 0;
    return syscall(SYS_bind, fd, address, size);
}

static ino_t inode(const char *path) {
    struct stat s;
    return stat(path, &s) ? 0 : s.st_ino;
}

static int has_pipe(int pid, ino_t pipe) {
    char path[300];
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *files = opendir(path);
    if (!files) return 0;
    int found = 0;
    for (struct dirent *e; !found && (e = readdir(files));) {
        snprintf(path, sizeof path, "/proc/%d/fd/%s", pid, e->d_name);
        found = inode(path) == pipe;
    }
    closedir(files);
    return found;
}

// namespace_of_client opens the namespace of the client's process. It returns -1 if this is the server's own namespace.
static int namespace_of_client(const char *kind) {
    struct stat pipe;
    if (client < 0 || fstat(client, &pipe) || !S_ISFIFO(pipe.st_mode)) return -1;
    DIR *processes = opendir("/proc");
    if (!processes) return -1;
    char path[32];
    snprintf(path, sizeof path, "/proc/self/ns/%s", kind);
    ino_t own = inode(path);
    int found = -1;
    for (struct dirent *e; found < 0 && (e = readdir(processes));) {
        int pid = atoi(e->d_name);
        snprintf(path, sizeof path, "/proc/%d/ns/%s", pid, kind);
        ino_t other = pid > 0 ? inode(path) : 0;
        if (other && other != own && has_pipe(pid, pipe.st_ino)) found = open(path, O_RDONLY | O_CLOEXEC);
    }
    closedir(processes);
    return found;
}

// enter moves the server into the namespace of the client's process. It returns the server's own namespace for leave, or -1 if they are the same.
static int enter(const char *kind) {
    int there = namespace_of_client(kind);
    if (there < 0) return -1;
    char path[32];
    snprintf(path, sizeof path, "/proc/self/ns/%s", kind);
    int here = open(path, O_RDONLY | O_CLOEXEC);
    if (here < 0 || setns(there, 0)) abort();
    close(there);
    return here;
}

static void leave(int here) {
    if (here < 0) return;
    if (setns(here, 0)) abort();
    close(here);
}

int socket(int domain, int type, int protocol) {
    int here = domain == AF_INET || domain == AF_INET6 ? enter("net") : -1;
    int made = syscall(SYS_socket, domain, type, protocol);
    leave(here);
    return made;
}

// name_of_client writes the computer name of the client, and returns its size in bytes, or 0 if it is the server's name.
static size_t name_of_client(char16_t *name) {
    char whole[HOST_NAME_MAX + 1] = "";
    int here = enter("uts");
    if (here < 0) return 0;
    int failed = gethostname(whole, sizeof whole);
    leave(here);
    if (failed) return 0;
    size_t length = strnlen(whole, longest);
    for (size_t i = 0; i < length; i++) name[i] = longest == short_name ? toupper(whole[i]) : whole[i];
    name[length] = 0;
    return (length + 1) * sizeof *name;
}

// writev sends replies with data, write all others.
ssize_t writev(int fd, const struct iovec *parts, int count) {
    char16_t name[HOST_NAME_MAX + 1];
    size_t size = longest && parts[0].iov_len == sizeof(struct reply) ? name_of_client(name) : 0;
    longest = 0;
    if (!size) return syscall(SYS_writev, fd, parts, count);
    struct reply reply;
    memcpy(&reply, parts[0].iov_base, sizeof reply);
    reply.total = size;
    reply.size = count == 1 ? 0 : size < room ? size : room;
    struct iovec own[] = {{&reply, sizeof reply}, {name, reply.size}};
    ssize_t sent = syscall(SYS_writev, fd, own, 2); // atomic, because it is a pipe and the size is below PIPE_BUF
    return sent < 0 ? sent : (ssize_t)(sizeof reply + (count == 1 ? 0 : parts[1].iov_len));
}

ssize_t write(int fd, const void *buffer, size_t size) {
    struct iovec part = {(void *)buffer, size};
    return writev(fd, &part, 1);
}
