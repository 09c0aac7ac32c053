// Loaded into Wine's server, which creates and binds the sockets of all programs: each socket belongs to the network namespace of the
// program, and the namespace alone decides whether a port is free.
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    request_size = 64,   // union generic_request
    bind_code = 0x12003, // IOCTL_AFD_BIND
    inet6 = 23,          // Windows' AF_INET6; its AF_INET is Linux'
};

static int client = -1;     // the pipe of the thread whose request the server works on
static int binding;         // that request binds a socket; its address has not been read
static in_port_t wanted;    // the port in that address

// read notes whose request comes. The server refuses ports that any program of the host uses, whatever its namespace. It does not look at
// port 0, so that is what it gets to see.
ssize_t read(int fd, void *buffer, size_t size) {
    ssize_t got = syscall(SYS_read, fd, buffer, size);
    if (size == request_size && got == request_size) {
        client = fd;
        binding = ((int *)buffer)[3] == bind_code; // behind the header
        wanted = 0;
    } else if (binding && fd == client && got >= 8) {
        unsigned short *address = (unsigned short *)buffer + 2;
        if (address[0] == AF_INET || address[0] == inet6) {
            wanted = address[1];
            address[1] = 0;
        }
        binding = 0;
    }
    return got;
}

int bind(int fd, const struct sockaddr *address, socklen_t size) {
    struct sockaddr_in6 own; // its port is where that of a sockaddr_in is
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

// network_of_client opens the network namespace of the client's process, unless it is the server's; else it returns -1.
static int network_of_client(void) {
    struct stat pipe;
    if (client < 0 || fstat(client, &pipe) || !S_ISFIFO(pipe.st_mode)) return -1;
    DIR *processes = opendir("/proc");
    if (!processes) return -1;
    ino_t own = inode("/proc/self/ns/net");
    int found = -1;
    for (struct dirent *e; found < 0 && (e = readdir(processes));) {
        int pid = atoi(e->d_name);
        char path[32];
        snprintf(path, sizeof path, "/proc/%d/ns/net", pid);
        ino_t other = pid > 0 ? inode(path) : 0;
        if (other && other != own && has_pipe(pid, pipe.st_ino)) found = open(path, O_RDONLY | O_CLOEXEC);
    }
    closedir(processes);
    return found;
}

int socket(int domain, int type, int protocol) {
    int there = domain == AF_INET || domain == AF_INET6 ? network_of_client() : -1;
    if (there < 0) return syscall(SYS_socket, domain, type, protocol);
    int here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), made = -1;
    if (here >= 0 && !setns(there, CLONE_NEWNET)) {
        made = syscall(SYS_socket, domain, type, protocol);
        if (setns(here, CLONE_NEWNET)) abort();
    }
    if (here >= 0) close(here);
    close(there);
    return made;
}
