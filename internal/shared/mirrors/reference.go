package mirrors

import (
	"errors"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// dockerHub is the name of Docker Hub in images; its registry has another host name.
const (
	dockerHub         = "docker.io"
	dockerHubOld      = "index.docker.io"
	dockerHubRegistry = "registry-1.docker.io"
)

// repository is a registry with an optional path. Both consist of characters without special meaning in TOML or URLs:
// text that parseRepository rejects cannot reach a file.
type repository struct{ host, path string }

func (r repository) String() string {
	if r.path == "" {
		return r.host
	}
	return r.host + "/" + r.path
}

// scope is a registry, a repository with everything below it, or the subdomains of a domain.
type scope struct {
	repository
	// wild is true if the host is a domain whose subdomains are meant.
	wild bool
}

func (s scope) String() string {
	if s.wild {
		return "*." + s.host
	}
	return s.repository.String()
}

// parseScope parses a repository, as parseRepository does, or *.example.com. It rejects hosts for which Windows cannot
// have a folder, because containerd could not be configured for them.
func parseScope(text string) (scope, error) {
	if domain, wild := strings.CutPrefix(text, "*."); wild {
		domain = strings.ToLower(domain)
		if !validHost(domain) || strings.ContainsAny(domain, ":[") {
			return scope{}, errors.New("a wildcard stands for subdomains only, without port and path, as in *.example.com")
		}
		return scope{repository{host: domain}, true}, nil
	}
	if strings.Contains(text, "*") {
		return scope{}, errors.New("a wildcard can only stand before a domain, as in *.example.com")
	}
	r, err := parseRepository(text)
	if err == nil && device.MatchString(folderOf(r.host)) {
		return scope{}, errors.New("Windows reserves this name for a device, so containerd cannot have a folder for it; use another name for the registry")
	}
	return scope{repository: r}, err
}

// parseRepository parses a source or mirror as users write it, by the grammar of image names (distribution/reference): a
// host with an optional port, then path components. The host is converted to lower case, because Windows does not
// distinguish the folders of QUAY.IO and quay.io. The error names what is allowed, not the text. If only the host is
// valid, it is returned together with the error.
func parseRepository(text string) (repository, error) {
	text, plain := strings.CutPrefix(text, "http://")
	text = strings.TrimPrefix(strings.TrimPrefix(text, "https://"), "docker://") // as the original
	host, path, hasPath := strings.Cut(text, "/")
	host = strings.ToLower(host)
	if !validHost(host) {
		return repository{}, errors.New("it must begin with a host, with or without a port, such as quay.io or registry.example.com:5000")
	}
	if host == dockerHubOld { // images under this name are pulled as docker.io (distribution/reference)
		host = dockerHub
	}
	if plain {
		return repository{host: host}, errors.New("http:// is not allowed here; for plain HTTP, set insecure in spec.registries of WindowsConfig")
	}
	if hasPath && !pathPattern.MatchString(path) {
		return repository{host: host}, errors.New("after the host, only names of lower-case letters, digits and single separators . _ - are allowed, " +
			"separated by / and without tag or digest, such as quay.io/team/image")
	}
	return repository{host: host, path: path}, nil
}

// validHost reports whether a text can be the host of an image, in lower case.
func validHost(host string) bool {
	const maxName = 253 // of DNS; with a port, the folder's name stays below the 255 of Windows
	if len(host) > maxName {
		return false
	}
	var name, port string
	var hasPort bool
	if end := strings.LastIndexByte(host, ']'); end > 0 {
		name, port = host[:end+1], host[end+1:]
		port, hasPort = strings.CutPrefix(port, ":")
		if !hasPort && port != "" {
			return false
		}
	} else {
		name, port, hasPort = strings.Cut(host, ":")
	}
	if hasPort {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return false
		}
	}
	if strings.HasPrefix(name, "[") {
		address, err := netip.ParseAddr(strings.Trim(name, "[]"))
		return err == nil && address.Is6() && address.Zone() == "" && name == strings.ToLower(name)
	}
	return namePattern.MatchString(name)
}

// namePattern matches the name of a host, and pathPattern the path of an image: components of letters and digits with single
// separators between them, which are a dot, one or two underscores, or hyphens (distribution/reference).
var (
	namePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)
	pathPattern = regexp.MustCompile(`^[a-z0-9]+((\.|__?|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|__?|-+)[a-z0-9]+)*)*$`)
)

// canNameHost reports whether an image name can contain this host. A first component without dot and colon, except localhost,
// counts as a part of the path at docker.io (distribution/reference).
func canNameHost(host string) bool { return host == "localhost" || strings.ContainsAny(host, ".:") }

// folderOf returns the folder in which containerd looks first on Windows (config_windows.go and hostDirectory in
// hosts.go): ":port" becomes "_port_", and other colons are removed. In an address like [fd00::1], without a port,
// containerd takes the last group for the port.
func folderOf(host string) string {
	if i := strings.LastIndexByte(host, ':'); i > 0 {
		host = host[:i] + "_" + host[i+1:] + "_"
	}
	return strings.ReplaceAll(host, ":", "")
}

// device matches names that Windows takes for a device: CON and others, with any extension (learn.microsoft.com, "Naming Files, Paths,
// and Namespaces").
var device = regexp.MustCompile(`^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)`)

// registryOf returns the host to contact for images of a host.
func registryOf(host string) string {
	if host == dockerHub {
		return dockerHubRegistry
	}
	return host
}

// quoted returns users' text for a message: quoted, truncated, and omitted if it may contain a password.
func quoted(text string) string {
	const most = 200
	switch {
	case strings.ContainsAny(text, "@?"):
		return "(not shown: it may contain a password before @ or after ?)"
	case len(text) > most:
		text = text[:most] + "..."
	}
	return strconv.Quote(text)
}
