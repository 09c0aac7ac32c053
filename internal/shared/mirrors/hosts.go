package mirrors

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Endpoint is where WICD serves containerd.
type Endpoint struct {
	// URL as in https://127.0.0.1:10280, without a path.
	URL string
	// CA is the path of a file with the certificate of that address.
	CA string
	// Client is the path of a file with the certificate and key by which WICD authenticates containerd.
	Client string
}

// Parts of WICD's responses to containerd: a registry requires credentials that the node does not have; no registry that may be contacted
// has the image, and others may not be contacted; none may be contacted; the content does not match its digest.
const (
	RefusesCredentials = "the registry rejects the node's credentials, or requires credentials"
	NotFound           = "no permitted registry has it"
	NoRegistryAllowed  = "no registry is permitted for"
	Damaged            = "the content does not match its digest"
)

// maxFolders is the maximum number of registries with their own folders; if there are more, all are requested from WICD.
const maxFolders = 512

// defaultFolder is the folder that containerd uses for registries without their own.
const defaultFolder = "_default"

// Hosts returns, by path, the hosts.toml files that direct containerd to WICD for everything that the table covers. They contain no
// secrets. A registry that may be contacted is the server, which containerd contacts after WICD, and therefore also without WICD.
// Otherwise WICD is the server, and containerd contacts no other host.
//
// Capabilities prevent containerd from resolving names at the server, but not from fetching content (Fetch of containerd), so a registry
// that must not be contacted must not be the server at all.
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
		if _, taken := files[path]; taken { // two addresses with the same folder in containerd
			r.isClosed = true
		}
		files[path] = e.hostsTOML(r.server(), r.isClosed)
	}
	if others {
		files[Folder+`\`+defaultFolder+`\hosts.toml`] = e.hostsTOML("", othersClosed)
	}
	return files
}

// registry is the content of hosts.toml for one registry.
type registry struct {
	host string
	// isClosed is true if a part of it must not be contacted, isInsecure if all of it may be contacted without TLS.
	isClosed, isInsecure bool
	// isChosen is true if the table has the whole registry as a source, which precedes any wildcard.
	isChosen bool
}

// registries returns those with their own folders, by host. others is true if all others are requested from WICD, closed if they may be
// contacted only through it.
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

// server returns how containerd contacts the registry itself. With http and skip_verify, it tries https first, without verifying the
// certificate (ConfigureHosts).
func (r registry) server() string {
	if r.isInsecure {
		return fmt.Sprintf("server = %q\nskip_verify = true\n", "http://"+registryOf(r.host))
	}
	return fmt.Sprintf("server = %q\n", "https://"+registryOf(r.host))
}

// First lines of the files. IsGenerated also knows those of earlier versions.
const (
	openFile   = "# WICD is asked first, and the registry itself where WICD has no image or is not there.\n"
	closedFile = "# The registry must not be contacted, or only for some images: only WICD is asked.\n"
)

// IsGenerated reports whether WICD wrote a hosts.toml.
func IsGenerated(content string) bool {
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
