package mirrors

import (
	"fmt"
	"slices"
	"strings"
)

// Name is an image's name without tag and digest.
type Name struct {
	// Registry is the host, with or without port, as in the image's name; Repository is the path after it.
	Registry, Repository string
}

// ParseName parses a registry and a repository as containerd requests them, by the grammar of image names.
func ParseName(registry, repository string) (Name, error) {
	const most = 255 // of a whole name (distribution/reference)
	host := strings.ToLower(registry)
	switch {
	case !validHost(host):
		return Name{}, fmt.Errorf("%.64q is not a registry", registry)
	case len(host)+len(repository) >= most || !pathPattern.MatchString(repository):
		return Name{}, fmt.Errorf("%.64q is not a repository", repository)
	}
	return Name{Registry: host, Repository: repository}, nil
}

// String returns the name as users write it.
func (n Name) String() string { return n.Registry + "/" + n.Repository }

// inFull adds the namespace that names of Docker Hub images may omit.
func (n Name) inFull() Name {
	if n.Registry == dockerHub && !strings.Contains(n.Repository, "/") {
		n.Repository = "library/" + n.Repository
	}
	return n
}

// Attempt is one registry from which to request an image.
type Attempt struct {
	Name
	// Host is the host to contact. It differs from the registry in the name only for Docker Hub.
	Host string
	// Insecure and CA are the settings of the registry; CA is PEM.
	Insecure bool
	CA       string
	// IsSource is true for the registry in the image's name.
	IsSource bool
}

// Route lists the registries from which to request an image, in order.
type Route struct {
	Attempts []Attempt
	// Skipped are the reasons why other registries are skipped, for messages.
	Skipped []string
}

// Router finds routes. It is immutable and safe for concurrent use.
type Router struct {
	table   Table
	sources scopes
	index   map[string]int
	allowed scopes
}

// NewRouter returns a router for a table.
func NewRouter(t Table) *Router {
	r := &Router{table: t, index: map[string]int{}, allowed: newScopes(t.Allowed)}
	var prefixes []string
	for i, s := range t.Sources {
		prefixes = append(prefixes, s.Prefix)
		r.index[s.Prefix] = i
	}
	r.sources = newScopes(prefixes)
	return r
}

// Route returns the registries for an image and a kind of reference.
func (r *Router) Route(n Name, kind Kind) Route {
	if n.Registry == dockerHubOld {
		n.Registry = dockerHub
	}
	n = n.inFull()
	if r.table.IsRestricted && !r.allowed.cover(n.String()) {
		return Route{Skipped: []string{fmt.Sprintf("%s is not in the allowed registries (%s)", n, r.table.RestrictedBy)}}
	}
	var route Route
	s, prefix := r.find(n)
	for _, l := range s.of(kind) {
		if to, ok := l.replace(n, prefix); ok {
			route.add(r, Attempt{Name: to, Insecure: l.Insecure, CA: r.ca(l)})
		} else {
			route.Skipped = append(route.Skipped, fmt.Sprintf("mirror %s gives no valid name for %s", l.At, n))
		}
	}
	route.add(r, Attempt{Name: n, Insecure: s.Insecure, IsSource: true})
	return route
}

// find returns the source for a name; its prefix is empty if there is none.
func (r *Router) find(n Name) (s Source, prefix string) {
	prefix = r.sources.longest(n.String())
	if prefix == "" {
		return Source{}, ""
	}
	return r.table.Sources[r.index[prefix]], prefix
}

func (r *Router) ca(l Location) string {
	if l.CA < 1 || l.CA > len(r.table.CAs) {
		return ""
	}
	return r.table.CAs[l.CA-1]
}

// add adds a registry unless it is blocked, whether as a source or as a mirror: only its own name counts. Whether a mirror may be contacted
// without TLS depends on its own location (newPullClient of containers/image), not on scopes within that.
func (r *Route) add(router *Router, a Attempt) {
	a.Name = a.inFull()
	s, prefix := router.find(a.Name)
	if s.Blocked {
		r.Skipped = append(r.Skipped, fmt.Sprintf("%s must not be contacted: %s is blocked (%s)", a.Name, prefix, s.BlockedBy))
		return
	}
	a.Host = registryOf(a.Registry)
	r.Attempts = append(r.Attempts, a)
}

// of returns the mirrors for a kind of reference.
func (s Source) of(kind Kind) []Location {
	switch {
	case len(s.Mirrors) > 0:
		return s.Mirrors
	case kind == Digests:
		return s.Digests
	}
	return s.Tags
}

// replace replaces the prefix by the location.
func (l Location) replace(n Name, prefix string) (Name, bool) {
	rest, ok := restOf(n.String(), prefix)
	if !ok {
		return Name{}, false
	}
	host, path, ok := strings.Cut(l.At+rest, "/")
	return Name{Registry: host, Repository: path}, ok
}

// restOf returns what follows a prefix in a name or scope. For *.example.com, the whole host is dropped. A host with a port is a subdomain,
// too, but has no name at a mirror, because the port would follow the mirror's path.
func restOf(name, prefix string) (rest string, ok bool) {
	if !strings.HasPrefix(prefix, "*.") {
		return strings.TrimPrefix(name, prefix), true
	}
	host, path, hasPath := strings.Cut(name, "/")
	if hasPath {
		path = "/" + path
	}
	return path, !hasPort(host)
}

// scopes are registries, repositories and subdomains.
type scopes map[string]bool

func newScopes(list []string) scopes {
	s := scopes{}
	for _, scope := range list {
		s[scope] = true
	}
	return s
}

// longest returns the longest scope that covers a name; empty if none does.
func (s scopes) longest(name string) string {
	for rest := name; rest != ""; rest = rest[:max(strings.LastIndexByte(rest, '/'), 0)] {
		if s[rest] {
			return rest
		}
	}
	host, _, _ := strings.Cut(name, "/")
	host = strings.TrimPrefix(host, "*")
	if hasPort(host) {
		host = host[:strings.LastIndexByte(host, ':')]
	}
	for i := range host {
		if host[i] == '.' && s["*"+host[i:]] {
			return "*" + host[i:]
		}
	}
	return ""
}

// cover reports whether one of the scopes covers a name or another scope.
func (s scopes) cover(name string) bool { return s.longest(name) != "" }

// hasPort reports whether a host has a port. IPv6 addresses are in brackets.
func hasPort(host string) bool {
	i := strings.LastIndexByte(host, ':')
	return i > 0 && !strings.HasSuffix(host, "]") && !slices.Contains([]byte(host[i:]), ']')
}
