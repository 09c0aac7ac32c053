// Loaded into Wine's processes of containers: as on Windows, a name with a dot is not tried with the suffix. Wine resolves names by glibc,
// and resolv.conf has no such option.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <resolv.h>

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    int (*next)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = dlsym(RTLD_NEXT, "getaddrinfo");
    if (!(_res.options & RES_INIT)) res_init(); // each thread has its own
    _res.options &= ~RES_DNSRCH;
    return next(name, service, hints, found);
}
