// Loaded into Wine's processes of containers: as on Windows, a name with a dot is not resolved with the suffix. Wine resolves names with glibc,
// and resolv.conf has no option for this.
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
