package mirrors_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
)

// routeCase is a pull, and the places that Linux nodes contact for it, in order. The expected lists were derived by hand
// from the rule: man is containers-registries.conf(5), api the documentation of ImageDigestMirrorSet and
// ImageTagMirrorSet (github.com/openshift/api), mco what OpenShift writes into registries.conf (openshift/runtime-utils).
type routeCase struct {
	rule  string
	in    mirrors.Input
	image string
	want  string // separated by spaces; a trailing ! means that TLS is optional
}

func sets(s ...mirrors.Set) mirrors.Input { return mirrors.Input{Sets: s} }

func access(rule mirrors.Rule, scopes ...string) mirrors.Access {
	return mirrors.Access{Kind: "Image", Name: "cluster", Field: "spec.registrySources", Rule: rule, Scopes: scopes}
}

func (in withAccess) and(rule mirrors.Rule, scopes ...string) mirrors.Input {
	in.Access = append(in.Access, access(rule, scopes...))
	return mirrors.Input(in)
}

type withAccess mirrors.Input

const someDigest = "@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// seed is the example of OpenShift's documentation (Using Windows containers with a mirror registry).
func seed() mirrors.Input {
	return sets(digests("ubi9repo",
		entry("registry.access.redhat.com/ubi9/ubi-minimal", allow, "example.io/example/ubi-minimal", "example.com/example2/ubi-minimal"),
		entry("registry.redhat.io", never, "mirror.example.com"),
		entry("docker-mirror.internal", allow, "docker.io")))
}

func seedCases() []routeCase {
	const ubi = "registry.access.redhat.com/ubi9/ubi-minimal"
	return []routeCase{
		{"api: the part that matches source is replaced by the mirror; the source comes last", seed(), ubi + someDigest,
			"example.io/example/ubi-minimal example.com/example2/ubi-minimal " + ubi},
		{"api: mirrors of a digest set are for digests only", seed(), ubi + ":latest", ubi},
		{"man: an image name must continue with a separator behind the prefix", seed(), ubi + "-more" + someDigest, ubi + "-more"},
		{"man: a namespace below a prefix is in it", seed(), ubi + "/x" + someDigest,
			"example.io/example/ubi-minimal/x example.com/example2/ubi-minimal/x " + ubi + "/x"},
		{"man: another repository of the registry has no table", seed(), "registry.access.redhat.com/ubi9/ubi" + someDigest, "registry.access.redhat.com/ubi9/ubi"},
		{"api: NeverContactSource prevents pulls from the source", seed(), "registry.redhat.io/a/b" + someDigest, "mirror.example.com/a/b"},
		{"mco: NeverContactSource blocks the source, also for tags, for which it has no mirrors", seed(), "registry.redhat.io/a/b:1", ""},
		{"api: docker.io as a mirror", seed(), "docker-mirror.internal/a/b" + someDigest, "docker.io/a/b docker-mirror.internal/a/b"},
		{"man: images of docker.io without a namespace are in library", seed(), "docker-mirror.internal/nginx" + someDigest, "docker.io/library/nginx docker-mirror.internal/nginx"},
		{"man: an image that no table has is pulled as named", seed(), "quay.io/a:1", "quay.io/a"},
	}
}

// prefixCases have prefixes as of https://github.com/openshift/instaslice-operator and https://github.com/openshift/release.
func prefixCases() []routeCase {
	nested := sets(digests("a", entry("quay.io", allow, "m.test/all"), entry("quay.io/team", allow, "m.test/team"), entry("quay.io/team/app", allow, "m.test/app")))
	mixed := sets(digests("a", entry("quay.io", allow, "m.test/all")), tags("b", entry("quay.io/team", allow, "t.test")))
	ports := sets(tags("a", entry("r.test:5000", allow, "m.test:8443/x"), entry("r.test", allow, "n.test")))
	six := sets(tags("a", entry("[fd00::1]:5000/x", allow, "[fd00::2]:5000/y")))
	hub := sets(tags("a", entry("docker.io/library", allow, "m.test/hub"), entry("index.docker.io/team", allow, "m.test/team")))
	const longest, separator = "man: only the table with the longest match is used", "man: the prefix ends at a separator"
	return []routeCase{
		{longest, nested, "quay.io/team/app" + someDigest, "m.test/app quay.io/team/app"},
		{longest, nested, "quay.io/other" + someDigest, "m.test/all/other quay.io/other"},
		{separator, nested, "quay.io/teams/app" + someDigest, "m.test/all/teams/app quay.io/teams/app"},
		{"man: only the longest is used, also when its mirrors are for tags only", mixed, "quay.io/team/app" + someDigest, "quay.io/team/app"},
		{"man: a prefix is host[:port]", ports, "r.test:5000/app:1", "m.test:8443/x/app r.test:5000/app"},
		{"man: a host without port is another prefix", ports, "r.test/app:1", "n.test/app r.test/app"},
		{"man: hosts may be addresses", six, "[fd00::1]:5000/x/app:1", "[fd00::2]:5000/y/app [fd00::1]:5000/x/app"},
		{"man: the namespace of docker.io must include library", hub, "docker.io/library/nginx:1", "m.test/hub/nginx docker.io/library/nginx"},
		{"man: docker.io", hub, "docker.io/team/app:1", "m.test/team/app docker.io/team/app"},
		{"man: the location takes the place of the prefix, also of one with underscores", // https://github.com/openshift/hypershift
			sets(tags("a", entry("quay.io/some_team_x/operator", allow, "m.test/hypershift/operator"))), "quay.io/some_team_x/operator:1", "m.test/hypershift/operator quay.io/some_team_x/operator"},
		{"man: the location takes the place of the prefix: it may have another last name",
			sets(digests("a", entry("quay.io/team/app", allow, "m.test/else"))), "quay.io/team/app" + someDigest, "m.test/else quay.io/team/app"},
		{"man: the location takes the place of the prefix: it may have no path",
			sets(digests("a", entry("quay.io/team", allow, "m.test"))), "quay.io/team/app" + someDigest, "m.test/app quay.io/team/app"},
		{"man: a whole repository may be a mirror of a registry's root; nothing is left for the path",
			sets(digests("a", entry("quay.io/app", allow, "m.test"))), "quay.io/app" + someDigest, "quay.io/app"},
	}
}

func wildcardCases() []routeCase {
	wild := sets(digests("a", entry("*.example.com", allow, "m.test/copies"), entry("*.deep.example.com", allow, "d.test"), entry("a.example.com", allow, "a.test")))
	shut := sets(digests("a", entry("*.example.com", never, "m.test")))
	const rule = "api: *.redhat.io with mirror.local/redhat makes mirror.local/redhat/product/repo"
	return []routeCase{
		{rule, wild, "b.example.com/x/y" + someDigest, "m.test/copies/x/y b.example.com/x/y"},
		{"man: a wildcard is for subdomains, of any depth", wild, "b.c.example.com/x" + someDigest, "m.test/copies/x b.c.example.com/x"},
		{"man: a wildcard is for subdomains, not for the domain", wild, "example.com/x" + someDigest, "example.com/x"},
		{"man: a wildcard begins at a dot", wild, "badexample.com/x" + someDigest, "badexample.com/x"},
		{"man: a wildcard is of the host, not of the path", wild, "r.test/b.example.com/x" + someDigest, "r.test/b.example.com/x"},
		{"man: the longest match is used", wild, "a.example.com/x" + someDigest, "a.test/x a.example.com/x"},
		{"api: the host of a wildcard is replaced; one with a port gives no name of a mirror", wild, "b.example.com:5000/x" + someDigest, "b.example.com:5000/x"},
		{"man: a host with a port is a subdomain, too", shut, "b.example.com:5000/x" + someDigest, ""},
	}
}

func kindCases() []routeCase {
	both := sets(digests("a", entry("quay.io", allow, "d.test")), tags("b", entry("quay.io", allow, "t.test")))
	same := sets(digests("a", entry("quay.io", allow, "m.test", "d.test")), tags("b", entry("quay.io", allow, "m.test")))
	neverTags := sets(digests("a", entry("quay.io", allow, "d.test")), tags("b", entry("quay.io", never, "t.test")))
	windowsConfig := sets(config(entry("quay.io", allow, "m.test")))
	byDigest := entry("quay.io", allow, "m.test")
	byDigest.For = mirrors.Digests
	return []routeCase{
		{"api: digest sets are for digests", both, "quay.io/a" + someDigest, "d.test/a quay.io/a"},
		{"api: tag sets are for tags", both, "quay.io/a:1", "t.test/a quay.io/a"},
		{"api: the same mirror in both", same, "quay.io/a" + someDigest, "m.test/a d.test/a quay.io/a"},
		{"mco: NeverContactSource of a tag set blocks the source for digests, too", neverTags, "quay.io/a" + someDigest, "d.test/a"},
		{"WindowsConfig: pullBy DigestAndTag", windowsConfig, "quay.io/a:1", "m.test/a quay.io/a"},
		{"WindowsConfig: pullBy DigestAndTag", windowsConfig, "quay.io/a" + someDigest, "m.test/a quay.io/a"},
		{"WindowsConfig: pullBy Digest", sets(config(byDigest)), "quay.io/a:1", "quay.io/a"},
		{"WindowsConfig: pullBy Digest", sets(config(byDigest)), "quay.io/a" + someDigest, "m.test/a quay.io/a"},
	}
}

func orderCases() []routeCase {
	pull := func(rule, want string, list ...mirrors.Entry) routeCase {
		var all []mirrors.Set
		for i, e := range list {
			all = append(all, digests(string(rune('a'+i)), e))
		}
		return routeCase{rule, sets(all...), "s.test/x" + someDigest, want}
	}
	of := func(locations ...string) mirrors.Entry { return entry("s.test", allow, locations...) }
	return []routeCase{
		pull("api: the order of the list is the priority", "z.test/x a.test/x m.test/x s.test/x", of("z.test", "a.test", "m.test")),
		pull("api: a, b, c and c, d, e make a, b, c, d, e", "a.test/x b.test/x c.test/x d.test/x e.test/x s.test/x",
			of("a.test", "b.test", "c.test"), of("c.test", "d.test", "e.test")),
		pull("mco: (B, C) and (A, B) make (A, B, C)", "a.test/x b.test/x c.test/x s.test/x", of("b.test", "c.test"), of("a.test", "b.test")),
		pull("mco: what nothing orders is sorted", "a.test/x b.test/x s.test/x", of("b.test"), of("a.test")),
		pull("api: contradicting orders are not rejected", "a.test/x b.test/x s.test/x", of("a.test", "b.test"), of("b.test", "a.test")),
		pull("mco: the source at the end of the list is tried once", "a.test/x s.test/x", of("a.test", "s.test")),
		pull("mco: the source before others keeps its place, and comes last again", "s.test/x a.test/x s.test/x", of("s.test", "a.test")),
		pull("mco: a list of nothing but the source is no mirror set", "s.test/x", entry("s.test", never, "s.test")),
		pull("api: without mirrors, the source is pulled from", "s.test/x", entry("s.test", allow)),
		pull("mco: NeverContactSource without mirrors is ignored", "s.test/x", entry("s.test", never)),
		pull("mco: NeverContactSource of one entry holds for the source", "a.test/x b.test/x", entry("s.test", allow, "a.test"), entry("s.test", never, "b.test")),
		pull("c/image: a blocked source is not queried as its own mirror either", "a.test/x", entry("s.test", never, "s.test", "a.test")),
		pull("api: a longer source has a policy of its own", "b.test/x s.test/x", entry("s.test", never, "a.test"), entry("s.test/x", allow, "b.test/x")),
	}
}

func accessCases() []routeCase {
	plain := mirrors.Input{}
	mirrored := sets(digests("a", entry("s.test", allow, "m.test/c", "n.test"), entry("s.test/team", allow, "m.test/t")))
	cycle := sets(tags("a", entry("a.test", allow, "b.test"), entry("b.test", allow, "a.test")))
	neverCycle := sets(tags("a", entry("a.test", never, "b.test"), entry("b.test", allow, "a.test")))
	const blocked, insecure, allowed = "man: blocked", "man: insecure", "mco: allowedRegistries"
	return []routeCase{
		{blocked, withAccess(plain).and(mirrors.Blocked, "s.test"), "s.test/x:1", ""},
		{blocked, withAccess(plain).and(mirrors.Blocked, "s.test/team"), "s.test/team/x:1", ""},
		{blocked + ", by wildcard", withAccess(plain).and(mirrors.Blocked, "*.s.test"), "a.s.test/x:1", ""},
		{"c/image: a blocked source with mirrors is pulled from these", withAccess(mirrored).and(mirrors.Blocked, "s.test"), "s.test/x" + someDigest, "m.test/c/x n.test/x"},
		{"mco: what is blocked is so in longer prefixes", withAccess(mirrored).and(mirrors.Blocked, "s.test"), "s.test/team/x" + someDigest, "m.test/t/x"},
		{"c/image: a blocked registry is not queried as a mirror", withAccess(mirrored).and(mirrors.Blocked, "m.test"), "s.test/x" + someDigest, "n.test/x s.test/x"},
		{blocked + ", by its name in full", withAccess(sets(tags("a", entry("s.test", allow, "docker.io")))).and(mirrors.Blocked, "docker.io/library"), "s.test/nginx:1", "s.test/nginx"},
		{blocked + ", by its name in full", withAccess(plain).and(mirrors.Blocked, "docker.io/library"), "docker.io/library/nginx:1", ""},
		{insecure, withAccess(plain).and(mirrors.Insecure, "s.test"), "s.test/x:1", "s.test/x!"},
		{"mco: insecure holds in longer prefixes", withAccess(mirrored).and(mirrors.Insecure, "s.test"), "s.test/team/x" + someDigest, "m.test/t/x s.test/team/x!"},
		{allowed + " blocks all others", withAccess(plain).and(mirrors.Allowed, "s.test"), "quay.io/x:1", ""},
		{allowed + " may be repositories", withAccess(plain).and(mirrors.Allowed, "s.test/team"), "s.test/x:1", ""},
		{allowed + " is of the image's own name: its mirrors need not be in it", withAccess(mirrored).and(mirrors.Allowed, "s.test"), "s.test/x" + someDigest, "m.test/c/x n.test/x s.test/x"},
		{allowed + " is of the image's own name", withAccess(mirrored).and(mirrors.Allowed, "m.test", "n.test"), "s.test/x" + someDigest, ""},
		{"man: a mirror's own mirrors are not queried", cycle, "a.test/x:1", "b.test/x a.test/x"},
		{"c/image: a source that must not be contacted is not queried as a mirror of others", neverCycle, "b.test/x:1", "b.test/x"},
	}
}

// nestedCases have scopes within sources (https://github.com/openshift/runtime-utils/pull/16).
func nestedCases() []routeCase {
	mirrored := sets(digests("a", entry("s.test", allow, "m.test/c"), entry("*.wild.test", allow, "w.test")), tags("b", entry("s.test", allow, "t.test"), entry("s.test/team", allow, "m.test/t")))
	shut := sets(tags("a", entry("s.test", never, "m.test"), entry("s.test/own", never, "m.test/!")))
	const inherits, insecure = "mco: a scope without mirrors inherits those around it, with the rest of its path", "c/image: a mirror is insecure by its own location"
	return []routeCase{
		{inherits, withAccess(mirrored).and(mirrors.Insecure, "s.test/copies"), "s.test/copies/x" + someDigest, "m.test/c/copies/x s.test/copies/x!"},
		{inherits, withAccess(mirrored).and(mirrors.Blocked, "s.test/copies"), "s.test/copies/x" + someDigest, "m.test/c/copies/x"},
		{"the nearest source counts", withAccess(mirrored).and(mirrors.Insecure, "s.test/team/x"), "s.test/team/x/y:1", "m.test/t/x/y s.test/team/x/y!"},
		{"the nearest source counts, also when its mirrors are for tags only", withAccess(mirrored).and(mirrors.Insecure, "s.test/team/x"), "s.test/team/x/y" + someDigest, "s.test/team/x/y!"},
		{"of a wildcard, the host goes", withAccess(mirrored).and(mirrors.Insecure, "a.wild.test/x"), "a.wild.test/x/y" + someDigest, "w.test/x/y a.wild.test/x/y!"},
		{"a host with a port has no name at the mirrors of a wildcard", withAccess(mirrored).and(mirrors.Insecure, "a.wild.test:5000"), "a.wild.test:5000/x" + someDigest, "a.wild.test:5000/x!"},
		{"an entry whose mirrors cannot be used inherits none", shut, "s.test/own/x:1", ""},
		{insecure, withAccess(mirrored).and(mirrors.Insecure, "m.test"), "s.test/x" + someDigest, "m.test/c/x! s.test/x"},
		{insecure + ", not by what is nested in it", withAccess(mirrored).and(mirrors.Insecure, "m.test/c/x"), "s.test/x" + someDigest, "m.test/c/x s.test/x"},
	}
}

// rejectedCases have registries that OpenShift blocks, which it also writes into policy.json
// (https://github.com/openshift/machine-config-operator/pull/2819, https://github.com/openshift/openshift-apiserver/pull/475).
func rejectedCases() []routeCase {
	mirrored := sets(digests("a", entry("s.test", allow, "m.test/c", "n.test"), entry("s.test/team", allow, "m.test/t"), entry("o.test", never, "m.test/o")))
	released := func(image string, scopes ...string) mirrors.Input {
		in := withAccess(mirrored).and(mirrors.Rejected, scopes...)
		in.ReleaseImage = image + someDigest
		return in
	}
	const name, place = "policy.json: a name in a rejected scope is not pulled", "registries.conf: what is rejected is blocked"
	const release = "mco: the repository of the release cannot be blocked"
	return []routeCase{
		{name, withAccess(mirrored).and(mirrors.Rejected, "s.test"), "s.test/x" + someDigest, ""},
		{name + ", by a longer source", withAccess(mirrored).and(mirrors.Rejected, "s.test"), "s.test/team/x" + someDigest, ""},
		{name + ", by wildcard and with a port", withAccess(mirrored).and(mirrors.Rejected, "*.test"), "s.test:5000/x:1", ""},
		{"others are", withAccess(mirrored).and(mirrors.Rejected, "s.test/team"), "s.test/x" + someDigest, "m.test/c/x n.test/x s.test/x"},
		{place, withAccess(mirrored).and(mirrors.Rejected, "m.test"), "s.test/x" + someDigest, "n.test/x s.test/x"},
		{"mco: NeverContactSource is no rejection", withAccess(mirrored).and(mirrors.Rejected, "q.test"), "o.test/x" + someDigest, "m.test/o/x"},
		{release + ": it comes from its mirrors", released("s.test/team/release", "s.test"), "s.test/team/release" + someDigest, "m.test/t/release"},
		{release + ", by its own name either", released("s.test/team/release", "s.test/team/release"), "s.test/team/release" + someDigest, "m.test/t/release"},
		{release + ": a scope in it can", released("s.test/team/release", "s.test", "s.test/team/release/x"), "s.test/team/release/x" + someDigest, ""},
		{release + ": without a mirror, its scope is not", released("r.test/team/release", "r.test", "s.test"), "r.test/x:1", "r.test/x"},
		{release + ": nor where its mirrors are", released("s.test/team/release", "*.test"), "s.test/x" + someDigest, "m.test/c/x n.test/x s.test/x"},
	}
}

func allRouteCases() []routeCase {
	return slices.Concat(seedCases(), prefixCases(), wildcardCases(), kindCases(), orderCases(), accessCases(), nestedCases(), rejectedCases())
}

func TestRoutesMatchLinuxNodes(t *testing.T) {
	if n := len(allRouteCases()); n < 60 {
		t.Fatalf("%d cases", n)
	}
	for _, c := range allRouteCases() {
		table := mirrors.Render(c.in).Table
		if table == nil {
			table = &mirrors.Table{}
		}
		if err := table.Check(); err != nil {
			t.Errorf("%s: %v", c.rule, err)
		}
		if got := strings.Join(placesOf(t, *table, c.image), " "); got != c.want {
			t.Errorf("%s\n  pulling %s queries %s\n  want %s", c.rule, c.image, got, c.want)
		}
	}
}

// placesOf returns the places of a route.
func placesOf(t *testing.T, table mirrors.Table, image string) []string {
	t.Helper()
	name, digest, isDigest := strings.Cut(image, "@")
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		name = name[:i]
	}
	kind := mirrors.Tags
	if isDigest && digest != "" {
		kind = mirrors.Digests
	}
	registry, repository, _ := strings.Cut(name, "/")
	n, err := mirrors.ParseName(registry, repository)
	if err != nil {
		t.Fatal(err)
	}
	var places []string
	route := mirrors.NewRouter(table).Route(n, kind)
	for i, a := range route.Attempts {
		place := a.Name.String()
		if a.Insecure {
			place += "!"
		}
		if a.IsSource != (i == len(route.Attempts)-1 && a.Name.String() == n.String()) {
			t.Errorf("%s: %s counts as source: %t", image, place, a.IsSource)
		}
		places = append(places, place)
	}
	if len(places) == 0 && len(route.Skipped) == 0 {
		t.Errorf("%s: no attempts, and no reason", image)
	}
	return places
}
