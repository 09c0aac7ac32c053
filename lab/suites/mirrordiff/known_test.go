package mirrordiff

import (
	"strings"

	"go.podman.io/image/v5/docker/reference"
	"go.podman.io/image/v5/pkg/sysregistriesv2"

	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
)

// Names of the differences.
const (
	noName       = "a mirror that makes no name"
	otherPort    = "a prefix without port matches a host with one"
	equalLengths = "a wildcard is as long as the host"
	firstDot     = "a wildcard is compared with the first place where it fits"
	outermost    = "a scope inherits from the outermost source"
	portOfMirror = "a port goes to the mirror of a wildcard"
	upperCase    = "hosts in capitals"
)

// difference is a way in which Windows nodes pull from elsewhere than Linux nodes.
type difference struct{ name, reason string }

// known is the list. Each is undone in the model of Linux nodes: what then still differs is unknown.
func known() []difference {
	return []difference{
		{noName, "On Linux nodes the whole pull fails where one of the mirrors makes no name of the image: nothing is left for its path, or it is at docker.io and in no namespace. " +
			"Windows nodes ask the other places, and library of docker.io (docs/limitations.md)."},
		{otherPort, "refMatchingPrefix of containers/image lets r.test match r.test:5000, which its comment calls unintended, not to be relied upon."},
		{equalLengths, "Of *.a.test and b.a.test, containers/image chooses the first, because both have the same length."},
		{firstDot, "refMatchingSubdomainPrefix of containers/image compares the first place that fits only: a.test.a.test is not in *.test for it."},
		{outermost, "EditRegistriesConfig of openshift/runtime-utils goes through the sources in the order of their names: a scope in a.test and a.test/team inherits from a.test. " +
			"With the mirrors of a.test/team, its images come from where they came before the scope was named."},
		{portOfMirror, "containers/image takes the port of an image's host for that of the wildcard's mirror. Windows nodes ask the source only (docs/limitations.md)."},
		{upperCase, "containers/image compares the bytes of hosts, of which the DNS knows no case. Windows has one folder for both (docs/limitations.md)."},
	}
}

// all is the set of their names.
func all() map[string]bool {
	names := map[string]bool{}
	for _, d := range known() {
		names[d.name] = true
	}
	return names
}

// matches is refMatchingPrefix, without what is undone.
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

// places are those of PullSourcesFromReference, without what is undone.
func (l *linux) places(r *sysregistriesv2.Registry, image reference.Named) (list []sysregistriesv2.PullSource, err error) {
	if len(l.corrects) == 0 {
		return r.PullSourcesFromReference(image)
	}
	_, isDigest := image.(reference.Canonical)
	for _, m := range r.Mirrors {
		if m.PullFromMirror == sysregistriesv2.MirrorByDigestOnly && !isDigest || m.PullFromMirror == sysregistriesv2.MirrorByTagOnly && isDigest {
			continue
		}
		name, makesName := l.rewrite(image, r.Prefix, m.Location)
		named, err := reference.ParseNamed(name)
		switch {
		case !makesName:
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

// rewrite is an image's name with a location in the place of the prefix.
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

// windows returns the places that a Windows node tries.
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
