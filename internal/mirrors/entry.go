package mirrors

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// entry is an Entry that was read.
type entry struct {
	at     place
	folder string
	source repository
	never  bool
	// named says that the entry has mirrors, of which mirrors are those that can be used.
	named   bool
	mirrors []mirror
}

// mirror is one host table of a hosts.toml.
type mirror struct {
	at place
	// url is where containerd puts the image's whole path behind, and what a mirror is known by.
	url string
	// repositories are those that the sources have at this mirror.
	repositories []repository
	// self says that it is the source itself.
	self bool
	tags bool
	// cas are bundles of certificates.
	cas []string
	// basic is the mirror's own user and password, in base64.
	basic string
}

func (r *report) readEntry(at place, e Entry) (entry, bool) {
	read := entry{at: at, never: r.readPolicy(at, e.Policy), named: len(e.Mirrors) > 0}
	source, err := parseRepository(e.Source)
	read.source, read.folder = source, folderOf(source.host)
	reason, known := InvalidSource, source.host != ""
	switch {
	case !known && strings.Contains(e.Source, "*"):
		reason, err = WildcardSource, errors.New("containerd has no wildcards for registries; name each registry in an entry of its own")
	case known && !nameable(source.host):
		err, known = errors.New("no image is of this registry: a host without dot and port counts as a path at docker.io; add its domain or its port"), false
	case isDevice(read.folder):
		err, known = errors.New("a folder of this name is a device to Windows, so containerd can have none for it; use another name for the registry"), false
	}
	if err != nil {
		follows := "nothing is mirrored for it"
		switch {
		case read.never && known:
			follows += fmt.Sprintf(", and %s is contacted for no image, because %s must hold", source.host, NeverContactSource)
		case read.never:
			follows += ", and it is contacted in spite of " + string(NeverContactSource)
		}
		r.add(at.in(".source"), reason, "%s: %v. On Windows nodes %s.", shown(e.Source), err, follows)
		read.named = false // this message has said it
		return read, read.never && known
	}
	for i, m := range e.Mirrors {
		if m, ok := r.readMirror(at.in(fmt.Sprintf(".mirrors[%d]", i)), source, m); ok {
			m.tags = e.Tags
			read.mirrors = join(read.mirrors, m)
		}
	}
	return read, true
}

func (r *report) readPolicy(at place, p Policy) (never bool) {
	switch p {
	case "", AllowContactingSource:
		return false
	case NeverContactSource:
		return true
	}
	r.add(at.in(".mirrorSourcePolicy"), InvalidPolicy, "%s is not a policy; %s and %s are. On Windows nodes it is taken as %s.",
		shown(string(p)), AllowContactingSource, NeverContactSource, NeverContactSource)
	return true
}

func (r *report) readMirror(at place, source repository, m Mirror) (mirror, bool) {
	const leftOut = "On Windows nodes this mirror is left out."
	to, err := parseRepository(m.Location)
	if err != nil {
		r.add(at, InvalidMirror, "%s: %v. %s", shown(m.Location), err, leftOut)
		return mirror{}, false
	}
	prefix, ok := cutPath(to.path, source.path)
	if !ok {
		r.add(at, PathDiffers, "%s does not end with %s, the path of source %s, which containerd puts behind what is before it. %s "+
			"Copy the images to a path that ends so, as in %s.", shown(m.Location), source.path, source, leftOut, repository{to.host, source.path})
		return mirror{}, false
	}
	if m.PlainHTTP && m.CA != "" { // containerd would try https first (ConfigureHosts)
		r.add(at, InvalidMirror, "%s asks for plain http and has a CA, which only https can use; take one of them away. %s", shown(m.Location), leftOut)
		return mirror{}, false
	}
	read := mirror{at: at, repositories: []repository{to}, self: prefix == "" && sameRegistry(to.host, source.host)}
	if m.CA != "" {
		ca, err := readCA(m.CA)
		if err != nil {
			r.add(at, InvalidMirror, "the CA of %s cannot be used: %v. %s", shown(m.Location), err, leftOut)
			return mirror{}, false
		}
		read.cas = []string{ca}
	}
	read.url = "https://"
	if m.PlainHTTP {
		read.url = "http://"
	}
	read.url += registryOf(to.host) + "/v2"
	if prefix != "" {
		read.url += "/" + prefix
	}
	return read, true
}

// readCA allows certificates only, as containerd refuses every pull from a registry when it can read none, and skips
// those that it cannot read. What is between them goes, so that a comment makes no other file.
func readCA(text string) (string, error) {
	const wanted = "PEM blocks of type CERTIFICATE are needed, and nothing else"
	var out strings.Builder
	rest := []byte(text)
	for n := 1; len(bytes.TrimSpace(rest)) > 0; n++ {
		block, after := pem.Decode(rest)
		switch {
		case block == nil && out.Len() == 0:
			return "", errors.New("there is no certificate in it; " + wanted)
		case block == nil && bytes.Contains(rest, []byte("-----BEGIN")):
			return "", fmt.Errorf("block %d is cut or damaged; %s", n, wanted)
		case block == nil:
			return out.String(), nil
		case block.Type != "CERTIFICATE":
			return "", fmt.Errorf("block %d is no certificate; %s", n, wanted)
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return "", fmt.Errorf("block %d is no certificate that can be read; %s", n, wanted)
		}
		out.Write(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes}))
		rest = after
	}
	return out.String(), nil
}

// join adds a mirror to a list. One that is there already is not listed twice, as TOML allows no key twice and
// containerd ignores a file that is not TOML, and so contacts the source: it gets what both ask for.
func join(list []mirror, m mirror) []mirror {
	i := slices.IndexFunc(list, func(have mirror) bool { return have.url == m.url })
	if i < 0 {
		return append(list, m)
	}
	list[i].tags = list[i].tags || m.tags
	list[i].self = list[i].self || m.self
	list[i].repositories = appendNew(list[i].repositories, m.repositories)
	list[i].cas = appendNew(list[i].cas, m.cas)
	return list
}

// appendNew appends what is not there yet, to a copy.
func appendNew[T comparable](list, more []T) []T {
	list = slices.Clone(list)
	for _, v := range more {
		if !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return list
}
