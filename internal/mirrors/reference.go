package mirrors

import (
	"errors"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// dockerHub is the name of Docker Hub in images; its registry answers under another name.
const (
	dockerHub         = "docker.io"
	dockerHubOld      = "index.docker.io"
	dockerHubRegistry = "registry-1.docker.io"
)

// repository is a registry, and a path in it or none. Both are of letters that mean nothing special to TOML or in a
// URL: what parseRepository refuses cannot reach a file.
type repository struct{ host, path string }

func (r repository) String() string {
	if r.path == "" {
		return r.host
	}
	return r.host + "/" + r.path
}

// parseRepository reads what people write as source or mirror, in the grammar of image names (distribution/reference):
// a host with or without a port, then path components. The host becomes lower case, as Windows does not tell the
// folders of QUAY.IO and quay.io apart. The error tells what is allowed and not the text; where only the host is fine,
// it comes with the host.
func parseRepository(text string) (repository, error) {
	text, plain := strings.CutPrefix(text, "http://")
	text = strings.TrimPrefix(strings.TrimPrefix(text, "https://"), "docker://") // as the original
	host, path, hasPath := strings.Cut(text, "/")
	host = strings.ToLower(host)
	if !validHost(host) {
		return repository{}, errors.New("a host is needed, with or without a port, as in quay.io or registry.example.com:5000")
	}
	if host == dockerHubOld { // images under this name are pulled as docker.io (distribution/reference)
		host = dockerHub
	}
	if plain {
		return repository{host: host}, errors.New("http:// is not allowed here; plain http is asked for with insecure in WindowsConfig, spec.registries.mirrors")
	}
	if hasPath && !validPath(path) {
		return repository{host: host}, errors.New("after the host only names of lower-case letters, digits and single separators . _ - are allowed, " +
			"with / between them and without tag or digest, as in quay.io/team/image")
	}
	return repository{host: host, path: path}, nil
}

// validHost allows what can be the host of an image, in lower case.
func validHost(host string) bool {
	const (
		label   = `[a-z0-9]([a-z0-9-]*[a-z0-9])?`
		maxName = 253 // of the DNS; with a port, the name of the folder stays below the 255 of Windows
	)
	parts := regexp.MustCompile(`^(` + label + `(\.` + label + `)*|\[([0-9a-f:]+)\])(:([0-9]+))?$`).FindStringSubmatch(host)
	if parts == nil || len(host) > maxName {
		return false
	}
	if address := parts[5]; address != "" {
		if _, err := netip.ParseAddr(address); err != nil {
			return false
		}
	}
	if port := parts[7]; port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		return err == nil && n > 0
	}
	return true
}

// validPath allows what can be the path of an image.
func validPath(path string) bool {
	const component = `[a-z0-9]+((\.|__?|-+)[a-z0-9]+)*`
	return regexp.MustCompile(`^` + component + `(/` + component + `)*$`).MatchString(path)
}

// nameable says whether an image can be of this host. A first component without dot and colon, except localhost,
// counts as a part of the path at docker.io (distribution/reference).
func nameable(host string) bool { return host == "localhost" || strings.ContainsAny(host, ".:") }

// folderOf is the folder that containerd looks for first on Windows (config_windows.go and hostDirectory in hosts.go):
// ":port" becomes "_port_", and colons that are left go. For an address like [fd00::1], without a port, containerd takes
// the last group for one.
func folderOf(host string) string {
	if i := strings.LastIndexByte(host, ':'); i > 0 {
		host = host[:i] + "_" + host[i+1:] + "_"
	}
	return strings.ReplaceAll(host, ":", "")
}

// isDevice says whether Windows takes a name for a device: CON and others, also with anything behind a dot
// (learn.microsoft.com, "Naming Files, Paths, and Namespaces").
func isDevice(folder string) bool {
	name, _, _ := strings.Cut(folder, ".")
	if slices.Contains([]string{"con", "prn", "aux", "nul"}, name) {
		return true
	}
	return len(name) == 4 && (strings.HasPrefix(name, "com") || strings.HasPrefix(name, "lpt")) && name[3] >= '0' && name[3] <= '9'
}

// registryOf is the host that is contacted for images of a host.
func registryOf(host string) string {
	if host == dockerHub {
		return dockerHubRegistry
	}
	return host
}

// sameRegistry says whether two hosts are the same registry, also where one has the port that the other leaves out.
func sameRegistry(a, b string) bool {
	plain := func(host string) string {
		return registryOf(strings.TrimSuffix(strings.TrimSuffix(host, ":443"), ":80"))
	}
	return plain(a) == plain(b)
}

// cutPath cuts the path of a source off the end of a mirror's: what is before it is the prefix.
func cutPath(mirror, source string) (prefix string, ok bool) {
	if source == "" || mirror == source {
		return strings.TrimSuffix(mirror, source), true
	}
	return strings.CutSuffix(mirror, "/"+source)
}

// within says whether a path is the scope or below it.
func within(path, scope string) bool {
	return scope == "" || path == scope || strings.HasPrefix(path, scope+"/")
}

// shown is what users wrote, fit for a message: quoted, cut, and not at all where it may hold a password.
func shown(text string) string {
	const most = 200
	switch {
	case strings.ContainsAny(text, "@?"):
		return "(not shown: before @ or behind ? there may be a password)"
	case len(text) > most:
		text = text[:most] + "..."
	}
	return strconv.Quote(text)
}
