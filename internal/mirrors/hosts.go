package mirrors

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Endpoint is where WICD answers containerd.
type Endpoint struct {
	// URL as in https://127.0.0.1:10280, without a path.
	URL string
	// CA is the path of a file with the certificate of that address.
	CA string
	// Client is the path of a file with the certificate and the key by which WICD knows that a request is containerd's.
	Client string
}

// What WICD's answer to containerd says of a registry that wants credentials that the node does not have, of an image that no registry has
// that may be asked, where another one may not, of one for which none may be asked, and of content that is not what its digest says.
const (
	RefusesCredentials = "it refuses the credentials that the node has for it, or wants some"
	NobodyHasIt        = "no registry that may be asked has it"
	NobodyMayBeAsked   = "no registry may be asked for"
	Damaged            = "what it has is not what the digest says"
)

// maxFolders is how many registries have folders of their own; with more, all are asked for at WICD.
const maxFolders = 512

// defaultFolder is what containerd reads of registries that have no folder of their own.
const defaultFolder = "_default"

// Hosts are the hosts.toml files that send containerd to WICD with what the table has something to say of, by their
// paths. None holds a secret. Where a registry may be contacted, it is the one that containerd asks after WICD, and so
// without WICD. Otherwise WICD stands where the registry would: containerd asks nobody else.
//
// Capabilities of the server keep it from being asked what an image is, and not from being asked for the content (Fetch
// of containerd), so that a registry that must not be contacted must not be the server at all.
func (t Table) Hosts(e Endpoint) map[string]string {
	files := map[string]string{}
	if t.isEmpty() {
		return files
	}
	registries, others, othersClosed := t.registries()
	if len(registries) > maxFolders {
		others = true
		for _, r := range registries {
			othersClosed = othersClosed || r.isClosed
		}
		registries = nil
	}
	for _, host := range slices.Sorted(maps.Keys(registries)) {
		r, path := registries[host], Folder+`\`+folderOf(host)+`\hosts.toml`
		if _, taken := files[path]; taken { // two addresses that containerd looks for in the same folder
			r.isClosed = true
		}
		files[path] = e.hostsTOML(r.server(), r.isClosed)
	}
	if others {
		files[Folder+`\`+defaultFolder+`\hosts.toml`] = e.hostsTOML("", othersClosed)
	}
	return files
}

// registry is what hosts.toml says of one registry.
type registry struct {
	host string
	// isClosed says that a part of it must not be contacted; isInsecure that all of it may be without TLS.
	isClosed, isInsecure bool
	// isChosen says that the table has the whole registry as a source, before any wildcard.
	isChosen bool
}

// registries are those that have folders, by host; others says whether all others are asked for at WICD, and closed
// that no other may be contacted without it.
func (t Table) registries() (all map[string]registry, others, closed bool) {
	all = map[string]registry{}
	others, closed = t.IsRestricted, t.IsRestricted
	for _, s := range t.Sources {
		host, path, _ := strings.Cut(s.Prefix, "/")
		if strings.HasPrefix(host, "*.") {
			others, closed = true, closed || s.Blocked
			continue
		}
		r := all[host]
		r.host = host
		r.isClosed = r.isClosed || s.Blocked
		r.isInsecure = r.isInsecure || s.Insecure && path == ""
		r.isChosen = r.isChosen || path == ""
		all[host] = r
	}
	allowed := newScopes(t.Allowed)
	for _, scope := range t.Allowed {
		if host, path, _ := strings.Cut(scope, "/"); path == "" && !strings.HasPrefix(host, "*.") {
			r := all[host]
			r.host = host
			all[host] = r
		}
	}
	blocked := newScopes(nil)
	for _, s := range t.Sources {
		if s.Blocked && strings.HasPrefix(s.Prefix, "*.") {
			blocked[s.Prefix] = true
		}
	}
	for host, r := range all {
		r.isClosed = r.isClosed || t.IsRestricted && !allowed.cover(host) || !r.isChosen && blocked.cover(host)
		all[host] = r
	}
	return all, others, closed
}

// server is how containerd asks the registry itself. With http and skip_verify, it tries https first, without verifying
// the certificate (ConfigureHosts).
func (r registry) server() string {
	if r.isInsecure {
		return fmt.Sprintf("server = %q\nskip_verify = true\n", "http://"+registryOf(r.host))
	}
	return fmt.Sprintf("server = %q\n", "https://"+registryOf(r.host))
}

// How files begin, and how those of former versions did.
const (
	openFile   = "# WICD is asked first, and the registry itself where WICD has no image or is not there.\n"
	closedFile = "# The registry must not be contacted, or only for some images: only WICD is asked.\n"
)

// IsOurs tells whether WICD wrote a hosts.toml.
func IsOurs(content string) bool {
	return slices.ContainsFunc([]string{openFile, closedFile, "# AllowContactingSource: ", "# NeverContactSource"}, func(begin string) bool {
		return strings.HasPrefix(content, begin)
	})
}

// hostsTOML renders a file. No value needs escaping: see repository and Endpoint.
func (e Endpoint) hostsTOML(server string, isClosed bool) string {
	keys := fmt.Sprintf("capabilities = [\"pull\", \"resolve\", \"referrers\"]\nca = '%s'\nclient = '%s'\n", e.CA, e.Client)
	if isClosed {
		return closedFile + fmt.Sprintf("server = %q\n", e.URL) + keys
	}
	return openFile + server + fmt.Sprintf("\n[host.%q]\n", e.URL) + keys
}
