package mirrors

import (
	"slices"
	"strings"
)

// exceptRelease exempts the repository of OpenShift's release from the rejected scopes, as OpenShift does
// (getValidBlockedAndAllowedRegistries in https://github.com/openshift/machine-config-operator, pkg/controller/container-runtime-config):
// if one of its mirrors may be contacted, it is pulled from its mirrors; otherwise the scope that contains it is not blocked at all.
func (b *builder) exceptRelease(r *report, at place, rejected []string, image string) []string {
	name, _, isDigest := strings.Cut(image, "@")
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		name = name[:i]
	}
	release, err := parseRepository(name)
	if err != nil || release.path == "" {
		return rejected
	}
	kind := Tags
	if isDigest {
		kind = Digests
	}
	isMirrored := b.isMirrored(release.String(), kind, newScopes(rejected))
	return slices.DeleteFunc(slices.Clone(rejected), func(scope string) bool {
		if !newScopes([]string{scope}).cover(release.String()) {
			return false
		}
		if !isMirrored {
			r.add(at, InvalidScope, "%s contains the repository of the cluster's release, %s, and none of its mirrors may be contacted. It is not blocked, as on Linux nodes.",
				scope, release)
			return true
		}
		b.release = release.String()
		b.source(b.release)
		return false
	})
}

// isMirrored reports whether a repository has a mirror outside of the scopes.
func (b *builder) isMirrored(repository string, kind Kind, closed scopes) bool {
	from := b.named().longest(repository)
	rest, ok := restOf(repository, from)
	return from != "" && ok && slices.ContainsFunc(slices.Concat(b.sources[from].lists[kind]...), func(mirror string) bool { return !closed.cover(mirror + rest) })
}

// isOfRelease reports whether a prefix is in the repository of the release, which takes precedence over the wider rejected scope.
func (b *builder) isOfRelease(prefix, scope string) bool {
	return b.release != "" && newScopes([]string{b.release}).cover(prefix) && (scope == b.release || !newScopes([]string{b.release}).cover(scope))
}
