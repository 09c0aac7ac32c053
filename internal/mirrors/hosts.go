package mirrors

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// How a hosts.toml begins. What it names as server is contacted after all other hosts. Where it names none, and where it
// is not TOML, containerd puts the registry there (ConfigureHosts, loadHostDir). Capabilities of the server keep it from
// being asked what an image is, and not from being asked for the content (Fetch): so a registry that must not be
// contacted must not be the server at all.
const (
	allowed = "# AllowContactingSource: after the mirrors containerd goes on to the registry.\nserver = %q\n"
	last    = "# NeverContactSource: the last of the mirrors stands where the registry would.\n"
	// Without a host that can pull, all pulls fail at once. Names below .invalid exist nowhere (RFC 6761).
	closed = "# NeverContactSource, and no mirror: nothing is pulled.\nserver = \"https://never-contact-source.invalid\"\ncapabilities = [\"push\"]\n"
)

// files renders the registry. Values need no escaping: see repository, and base64 is of harmless letters too.
func (g registry) files(folder string) []File {
	folder = Folder + `\` + folder + `\`
	var (
		files  []File
		toml   strings.Builder
		secret bool
	)
	hosts := g.mirrors
	switch n := len(hosts); {
	case !g.never:
		fmt.Fprintf(&toml, allowed, "https://"+registryOf(g.host))
	case n == 0:
		toml.WriteString(closed)
	default:
		toml.WriteString(last)
		hosts[n-1].write(&toml, true)
		hosts = hosts[:n-1]
	}
	for _, m := range hosts {
		m.write(&toml, false)
	}
	for _, m := range g.mirrors {
		secret = secret || m.basic != ""
		for _, ca := range m.cas {
			files = appendNew(files, []File{{Path: folder + caName(ca), Content: ca}})
		}
	}
	return append(files, File{Path: folder + "hosts.toml", Content: toml.String(), Secret: secret})
}

// write writes the mirror as a table of its own, or as the server, whose keys belong to no table.
func (m mirror) write(toml *strings.Builder, server bool) {
	header := "header"
	if server {
		fmt.Fprintf(toml, "server = %q\n", m.url)
	} else {
		header = fmt.Sprintf("host.%q.header", m.url)
		fmt.Fprintf(toml, "\n[host.%q]\n", m.url)
	}
	capabilities := `["pull"]` // digests only
	if m.tags {
		capabilities = `["pull", "resolve"]`
	}
	fmt.Fprintf(toml, "capabilities = %s\noverride_path = true\n", capabilities)
	var names []string
	for _, ca := range m.cas {
		names = append(names, fmt.Sprintf("%q", caName(ca)))
	}
	if len(names) > 0 {
		fmt.Fprintf(toml, "ca = [%s]\n", strings.Join(names, ", "))
	}
	if m.basic != "" { // in this spelling, which is the one that Go replaces when the registry asks for a token instead
		fmt.Fprintf(toml, "[%s]\nAuthorization = %q\n", header, "Basic "+m.basic)
	}
}

// caName is after the content, so that a new CA needs no old file changed. It ends in .pem, as files ending in .crt
// containerd trusts for the registry itself while there is no hosts.toml (loadCertFiles).
func caName(ca string) string {
	sum := sha256.Sum256([]byte(ca))
	return fmt.Sprintf("ca-%x.pem", sum[:6])
}
