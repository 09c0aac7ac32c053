package mirrordiff

import (
	"strings"

	"go.podman.io/image/v5/docker/reference"
	"go.podman.io/image/v5/pkg/sysregistriesv2"

	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
)

// Names of the differences.
const (
	noName       = "mirror that results in an invalid name"
	otherPort    = "prefix without port matches a host with a port"
	equalLengths = "wildcard as long as the host"
	firstDot     = "wildcard is compared with its first match only"
	outermost    = "scope inherits from the outermost source"
	portOfMirror = "port is added to the mirror of a wildcard"
	upperCase    = "host names in upper case"
)

// difference is a case in which Windows nodes pull from other locations than Linux nodes.
type difference struct{ name, reason string }

// known returns the known differences. The model of Linux nodes can correct each of them; a difference that remains is unknown.
func known() []difference {
	return []difference{
		{noName, "On Linux nodes the whole pull fails if the name of the image at one of the mirrors is invalid: its path is empty, or it is at docker.io without namespace. " +
			"Windows nodes try the other locations, and library of docker.io (docs/limitations.md)."},
		{otherPort, "In refMatchingPrefix of containers/image, r.test matches r.test:5000. Its comment calls this unintended, and advises against relying on it."},
		{equalLengths, "Of *.a.test and b.a.test, containers/image chooses the first, because both have the same length."},
		{firstDot, "refMatchingSubdomainPrefix of containers/image compares only the first match, so that a.test.a.test does not match *.test."},
		{outermost, "EditRegistriesConfig of openshift/runtime-utils iterates over the sources in the order of their names: a scope in a.test and a.test/team inherits from a.test. " +
			"With the mirrors of a.test/team, adding the scope does not change where its images come from."},
		{portOfMirror, "containers/image uses the port of an image's host as the port of the wildcard's mirror. Windows nodes only try the source (docs/limitations.md)."},
		{upperCase, "containers/image compares host names byte by byte, although the DNS ignores case. Windows has one folder for both (docs/limitations.md)."},
	}
}

// all returns the set of their names.
func all() map[string]bool {
	names := map[string]bool{}
	for _, d := range known() {
		names[d.name] = true
	}
	return names
}

// matches is refMatchingPrefix with corrections.
func (l *linux) matches(name, prefix string) bool {
	host, _, _ := strings.Cut(name, "/")
	suffix, isWildcard := strings.CutPrefix(prefix, "*")
	if !isWildcard {
		isPort := strings.HasPrefix(name, prefix+":")
		return name == prefix || strings.HasPrefix(name, prefix+"/") || isPort && !l.corrects[otherPort]
	}
	host, _, _ = strings.Cut(host, ":")
	if l.corrects[firstDot] {
		return strings.HasSuffix(host, suffix)
	}
	i := strings.Index(host, suffix)
	return i >= 0 && i+len(suffix) == len(host)
}

// places returns the locations of PullSourcesFromReference with corrections.
func (l *linux) places(r *sysregistriesv2.Registry, image reference.Named) (list []sysregistriesv2.PullSource, err error) {
	if len(l.corrects) == 0 {
		return r.PullSourcesFromReference(image)
	}
	_, isDigest := image.(reference.Canonical)
	for _, m := range r.Mirrors {
		if m.PullFromMirror == sysregistriesv2.MirrorByDigestOnly && !isDigest || m.PullFromMirror == sysregistriesv2.MirrorByTagOnly && isDigest {
			continue
		}
		name, ok := l.rewrite(image, r.Prefix, m.Location)
		named, err := reference.ParseNamed(name)
		switch {
		case !ok:
			continue
		case err == nil:
			list = append(list, sysregistriesv2.PullSource{Endpoint: m, Reference: named})
		case !l.corrects[noName]:
			return nil, err
		case strings.HasPrefix(name, "docker.io/"):
			if named, err = reference.ParseNormalizedNamed(name); err == nil {
				list = append(list, sysregistriesv2.PullSource{Endpoint: m, Reference: named})
			}
		}
	}
	return append(list, sysregistriesv2.PullSource{Endpoint: r.Endpoint, Reference: reference.TrimNamed(image)}), nil
}

// rewrite returns the name of an image with its prefix replaced by a location.
func (l *linux) rewrite(image reference.Named, prefix, location string) (name string, ok bool) {
	if !strings.HasPrefix(prefix, "*.") {
		return location + strings.TrimPrefix(image.Name(), prefix), true
	}
	_, port, hasPort := strings.Cut(reference.Domain(image), ":")
	if hasPort && l.corrects[portOfMirror] {
		return "", false
	}
	if hasPort {
		location += ":" + port
	}
	return location + "/" + reference.Path(image), true
}

// windows returns the locations that a Windows node tries.
func windows(router *mirrors.Router, p pull) (places []string, route mirrors.Route, err error) {
	image, err := parse(p)
	if err != nil {
		return nil, mirrors.Route{}, err
	}
	n, err := mirrors.ParseName(reference.Domain(image), reference.Path(image))
	if err != nil {
		return nil, mirrors.Route{}, err
	}
	route = router.Route(n, p.kind)
	for _, a := range route.Attempts {
		place := a.Name.String()
		if a.Insecure {
			place += "!"
		}
		places = append(places, place)
	}
	return places, route, nil
}
