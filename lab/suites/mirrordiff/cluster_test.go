package mirrordiff

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
)

// cluster is the configuration of registries of a cluster.
type cluster struct {
	digests, tags              []entry
	allowed, blocked, insecure []string // fields of registrySources
	release                    string   // image of OpenShift's release
}

// entry is a source with its mirrors. Each entry is in its own object.
type entry struct {
	source  string
	mirrors []string
	never   bool // NeverContactSource
}

// pull is an image in a pod.
type pull struct {
	name string
	kind mirrors.Kind
}

func (p pull) String() string { return fmt.Sprintf("%s by %s", p.name, p.kind) }

// generator generates clusters and pulls. It uses only a few names, so that many of them are related.
type generator struct{ *rand.Rand }

func newGenerator(seed uint64) generator { return generator{rand.New(rand.NewPCG(seed, 0))} }

func (c generator) one(of ...string) string { return of[c.IntN(len(of))] }

func (c generator) path() string { return c.one("", "", "/team", "/team/app", "/copies", "/library") }

func (c generator) host() string {
	return c.one("a.test", "b.a.test", "c.b.a.test", "r.test", "r.test:5000", "b.a.test:5000", "m.test", "n.test", "a.test.a.test", "docker.io", "quay.io", "Up.test")
}

// scope returns a name that can have a wildcard, in contrast to mirrors.
func (c generator) scope() string {
	if c.IntN(6) == 0 {
		return c.one("*.test", "*.a.test", "*.b.a.test")
	}
	return c.host() + c.path()
}

// scopes returns random scopes. Some of them are within the sources of a cluster.
func (c generator) scopes(in cluster) (list []string) {
	for range c.IntN(4) {
		scope := c.scope()
		if all := append(slices.Clone(in.digests), in.tags...); len(all) > 0 && c.IntN(3) == 0 {
			scope = c.below(all[c.IntN(len(all))].source)
		}
		list = append(list, scope)
	}
	return list
}

// below returns a scope within a scope.
func (c generator) below(scope string) string {
	if strings.HasPrefix(scope, "*.") {
		return scope
	}
	return scope + c.one("/team", "/x", "/team/x")
}

func (c generator) entries() (list []entry) {
	for range c.IntN(4) {
		e := entry{source: c.scope(), never: c.IntN(4) == 0}
		if c.IntN(4) > 0 { // few sources with wildcards, because OpenShift fails if a scope is nested in them
			e.source = c.host() + c.path()
		}
		if len(list) > 0 && c.IntN(4) == 0 {
			e.source = c.below(list[0].source)
		}
		for range 1 + c.IntN(3) {
			if m := c.host() + c.path(); !slices.Contains(e.mirrors, m) { // the API server rejects duplicates
				e.mirrors = append(e.mirrors, m)
			}
		}
		list = append(list, e)
	}
	return list
}

func (c generator) cluster() cluster {
	out := cluster{digests: c.entries(), tags: c.entries(), release: c.host() + "/team/release@" + someDigest}
	if c.IntN(3) > 0 {
		out.insecure = c.scopes(out)
	}
	switch c.IntN(4) { // the machine config operator rejects configurations with both
	case 0:
		out.allowed = c.scopes(out)
	case 1, 2:
		out.blocked = c.scopes(out)
	}
	return out
}

// pull returns a pull of a random image whose name is related to the names in the cluster's configuration.
func (c generator) pull(in cluster) pull {
	near := []string{c.host() + c.path(), "quay.io/team/release", in.repository()}
	for _, e := range append(in.digests, in.tags...) {
		near = append(near, e.source)
		near = append(near, e.mirrors...)
	}
	for _, list := range [][]string{in.allowed, in.blocked, in.insecure} {
		near = append(near, list...)
	}
	name := strings.Replace(c.one(near...), "*", c.one("b", "x", "c.b"), 1) + c.one("", "/x", "/team/app", "/copies/x")
	if !strings.Contains(name, "/") {
		name += "/x"
	}
	return pull{name, mirrors.Kind(c.one(string(mirrors.Digests), string(mirrors.Tags)))}
}

const someDigest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// repository returns the repository of the release image.
func (in cluster) repository() string {
	name, _, _ := strings.Cut(in.release, "@")
	return name
}

// windows returns the configuration in the product's form.
func (in cluster) windows() mirrors.Input {
	out := mirrors.Input{ReleaseImage: in.release}
	add := func(kind, field string, of mirrors.Kind, list []entry) {
		for i, e := range list {
			read := mirrors.Entry{Source: e.source, For: of}
			if e.never {
				read.Policy = mirrors.NeverContactSource
			}
			for _, m := range e.mirrors {
				read.Mirrors = append(read.Mirrors, mirrors.Mirror{Location: m})
			}
			out.Sets = append(out.Sets, mirrors.Set{Kind: kind, Name: fmt.Sprint(i), Field: field, Entries: []mirrors.Entry{read}})
		}
	}
	add("ImageDigestMirrorSet", "spec.imageDigestMirrors", mirrors.Digests, in.digests)
	add("ImageTagMirrorSet", "spec.imageTagMirrors", mirrors.Tags, in.tags)
	for _, a := range []struct {
		field string
		rule  mirrors.Rule
		list  []string
	}{{"allowedRegistries", mirrors.Allowed, in.allowed}, {"blockedRegistries", mirrors.Rejected, in.blocked}, {"insecureRegistries", mirrors.Insecure, in.insecure}} {
		out.Access = append(out.Access, mirrors.Access{Kind: "Image", Name: "cluster", Field: "spec.registrySources." + a.field, Rule: a.rule, Scopes: a.list})
	}
	return out
}

// sets returns the mirror sets in OpenShift's form.
func (in cluster) sets() (digests []*configv1.ImageDigestMirrorSet, tags []*configv1.ImageTagMirrorSet) {
	read := func(e entry) (list []configv1.ImageMirror, policy configv1.MirrorSourcePolicy) {
		for _, m := range e.mirrors {
			list = append(list, configv1.ImageMirror(m))
		}
		if e.never {
			policy = configv1.NeverContactSource
		}
		return list, policy
	}
	for _, e := range in.digests {
		list, policy := read(e)
		digests = append(digests, &configv1.ImageDigestMirrorSet{Spec: configv1.ImageDigestMirrorSetSpec{
			ImageDigestMirrors: []configv1.ImageDigestMirrors{{Source: e.source, Mirrors: list, MirrorSourcePolicy: policy}},
		}})
	}
	for _, e := range in.tags {
		list, policy := read(e)
		tags = append(tags, &configv1.ImageTagMirrorSet{Spec: configv1.ImageTagMirrorSetSpec{
			ImageTagMirrors: []configv1.ImageTagMirrors{{Source: e.source, Mirrors: list, MirrorSourcePolicy: policy}},
		}})
	}
	return digests, tags
}

// lower returns the cluster with host names in lower case.
func (in cluster) lower() cluster {
	entries := func(list []entry) (out []entry) {
		for _, e := range list {
			out = append(out, entry{lowerHost(e.source), lowerAll(e.mirrors), e.never})
		}
		return out
	}
	return cluster{
		digests: entries(in.digests), tags: entries(in.tags), release: lowerHost(in.release),
		allowed: lowerAll(in.allowed), blocked: lowerAll(in.blocked), insecure: lowerAll(in.insecure),
	}
}

func lowerAll(list []string) (out []string) {
	for _, name := range list {
		out = append(out, lowerHost(name))
	}
	return out
}

func lowerHost(name string) string {
	host, path, isPath := strings.Cut(name, "/")
	if isPath {
		path = "/" + path
	}
	return strings.ToLower(host) + path
}
