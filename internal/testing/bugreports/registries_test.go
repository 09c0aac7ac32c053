package bugreports

import (
	"slices"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
	"github.com/windows-machine-config/wmco/internal/shared/proxy"
)

// registryReports are reports about mirrors, blocked registries, pull secrets and proxies.
func registryReports() []report {
	return slices.Concat(mirrorReports(), accessReports(), pullSecretReports(), noProxyReports(), proxyReports())
}

const (
	byTag       = ":1"
	byDigest    = "@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	mirrorDocs  = "https://docs.redhat.com/en/documentation/openshift_container_platform/4.14/html/images/image-configuration"
	instaslice  = "https://github.com/openshift/instaslice-operator"
	shiftTests  = "https://github.com/openshift/release"
	hypershift  = "https://github.com/openshift/hypershift"
	payloadRepo = "https://github.com/openshift/machine-config-operator/pull/2819"
)

// mirrorReports are reports about mirror sets, with changed host names.
func mirrorReports() []report {
	hub := []mirrors.Set{mirrorSet("ImageTagMirrorSet", mirrorEntry("docker.io", mirrors.NeverContactSource, "192.168.122.1:5000"))}
	library := []mirrors.Set{mirrorSet("ImageTagMirrorSet", mirrorEntry("docker.io/library", "", "192.168.122.1:5000/library"))}
	kueue := []mirrors.Set{
		mirrorSet("ImageDigestMirrorSet", mirrorEntry("r.example.com/kueue/kueue-rhel9-operator", "", "quay.io/tenant/operator-1-0"), mirrorEntry("r.example.com/kueue/kueue-rhel9", "", "quay.io/tenant/kueue-0-11")),
		mirrorSet("ImageTagMirrorSet", mirrorEntry("r.example.com/kueue/kueue-rhel9-operator", "", "quay.io/tenant/operator-1-0"), mirrorEntry("r.example.com/kueue/kueue-rhel9", "", "quay.io/tenant/operator-1-0")),
	}
	whole := []mirrors.Set{mirrorSet("ImageDigestMirrorSet", mirrorEntry("quay.io/openshifttest", "", "m.example.com:6001/openshifttest"), mirrorEntry("registry.redhat.io", "", "m.example.com:6002"))}
	underscores := []mirrors.Set{mirrorSet("ImageTagMirrorSet", mirrorEntry("quay.io/some_team_x/operator", "", "m.example.com:6001/hypershift/operator"))}
	chain := []mirrors.Set{
		mirrorSet("ImageDigestMirrorSet", mirrorEntry("registry.redhat.io/kueue", "", "quay.io/tenant")),
		mirrorSet("ImageDigestMirrorSet", mirrorEntry("quay.io", mirrors.NeverContactSource, "m.example.com/quay")),
	}
	internal := []mirrors.Set{mirrorSet("ImageTagMirrorSet", mirrorEntry("quay.io/kubevirt", mirrors.NeverContactSource, "image-registry.openshift-image-registry.svc:5000/m"))}
	return []report{
		{mirrorDocs, "all of Docker Hub at an address with a port, and never the source", "192.168.122.1:5000/library/nginx", pulledFrom(mirrors.Input{Sets: hub}, "docker.io/library/nginx"+byTag)},
		{mirrorDocs, "what oc-mirror writes of Docker Hub", "192.168.122.1:5000/library/nginx docker.io/library/nginx", pulledFrom(mirrors.Input{Sets: library}, "docker.io/library/nginx"+byTag)},
		{instaslice, "a source that is the beginning of another one's last word", "quay.io/tenant/operator-1-0 r.example.com/kueue/kueue-rhel9-operator",
			pulledFrom(mirrors.Input{Sets: kueue}, "r.example.com/kueue/kueue-rhel9-operator"+byDigest)},
		{shiftTests, "a whole registry as a source beside repositories of another one", "m.example.com:6002/ubi9/ubi registry.redhat.io/ubi9/ubi", pulledFrom(mirrors.Input{Sets: whole}, "registry.redhat.io/ubi9/ubi"+byDigest)},
		{hypershift, "a repository with underscores", "m.example.com:6001/hypershift/operator quay.io/some_team_x/operator", pulledFrom(mirrors.Input{Sets: underscores}, "quay.io/some_team_x/operator"+byTag)},
		{instaslice, "a mirror that another set forbids to contact", "registry.redhat.io/kueue/x", pulledFrom(mirrors.Input{Sets: chain}, "registry.redhat.io/kueue/x"+byDigest)},
		{shiftTests, "an image by digest of a source that has mirrors for tags only, and must not be contacted", "nobody", pulledFrom(mirrors.Input{Sets: internal}, "quay.io/kubevirt/test"+byDigest)},
	}
}

// accessReports are reports about registries that are blocked or insecure on OpenShift.
func accessReports() []report {
	mirrored := []mirrors.Set{mirrorSet("ImageDigestMirrorSet", mirrorEntry("a.test", "", "quay.io"))}
	with := func(rule mirrors.Rule, release string, scopes ...string) mirrors.Input {
		return mirrors.Input{Sets: mirrored, ReleaseImage: release, Access: []mirrors.Access{{Kind: "Image", Name: "cluster", Field: "spec.registrySources", Rule: rule, Scopes: scopes}}}
	}
	return []report{
		{payloadRepo, "an image of a blocked registry that has mirrors", "nobody", pulledFrom(with(mirrors.Rejected, "", "a.test"), "a.test/x"+byDigest)},
		{payloadRepo, "the release's own image, of a blocked registry that has mirrors", "quay.io/o/release", pulledFrom(with(mirrors.Rejected, "a.test/o/release"+byDigest, "a.test"), "a.test/o/release"+byDigest)},
		{payloadRepo, "a blocked registry with the release's own image, and no mirror of it", "b.test/x", pulledFrom(with(mirrors.Rejected, "b.test/o/release"+byDigest, "b.test"), "b.test/x"+byTag)},
		{"https://github.com/openshift/openshift-apiserver/pull/475", "a source that must never be contacted is no blocked registry", "192.168.122.1:5000/x",
			pulledFrom(mirrors.Input{Sets: []mirrors.Set{mirrorSet("ImageTagMirrorSet", mirrorEntry("foo.test", mirrors.NeverContactSource, "192.168.122.1:5000"))}}, "foo.test/x"+byTag)},
		{"https://github.com/openshift/runtime-utils/pull/16", "an insecure part of a registry that has mirrors", "quay.io/copies/x a.test/copies/x!", pulledFrom(with(mirrors.Insecure, "", "a.test/copies"), "a.test/copies/x"+byDigest)},
		{"https://github.com/openshift/runtime-utils/pull/16", "an insecure part of a mirror, by which the whole mirror is not", "quay.io/copies/x a.test/copies/x",
			pulledFrom(with(mirrors.Insecure, "", "quay.io/copies"), "a.test/copies/x"+byDigest)},
	}
}

func pullSecretReports() []report {
	const devspace, auths = "https://github.com/devspace-sh/devspace/issues/2324", "https://github.com/containers/image/blob/main/docs/containers-auth.json.5.md"
	return []report{
		{devspace, "a pull secret of Docker Desktop, which keeps credentials elsewhere", "none, ", pullUser(`{"auths":{"https://index.docker.io/v1/":{},"quay.io":{}},"credsStore":"wincred"}`)},
		{devspace, "a pull secret that only names helpers", "none, ", pullUser(`{"credHelpers":{"quay.io":"secretservice"}}`)},
		{auths, "a pull secret with a byte order mark", "none, " + mirrors.InvalidPullSecret, pullUser("\ufeff" + `{"auths":{"quay.io":{"auth":"dTpw"}}}`)},
		{auths, "a line break behind a credential", "u, ", pullUser(`{"auths":{"quay.io":{"auth":"dTpw\n"}}}`)},
		{auths, "a slash behind a registry", "u, ", pullUser(`{"auths":{"quay.io/":{"auth":"dTpw"}}}`)},
	}
}

func noProxyReports() []report {
	const docs, bug = "https://github.com/openshift/openshift-docs/issues/25195", "https://issues.redhat.com/browse/OCPBUGS-43570"
	return []report{
		{docs, "noProxy: everything", "taken", noProxy("*")},
		{docs, "noProxy: an asterisk before a domain", "taken", noProxy("*.example.com")},
		{bug, "noProxy: spaces, and a comma at the end", "taken", noProxy("a.example.com, b.example.com ,")},
		{docs, "noProxy: ranges beside domains", "taken", noProxy(".apps.example.com,10.0.0.0/8")},
		{docs, "noProxy: ports, and addresses of IPv6", "taken", noProxy("10.0.0.7:8443,[2001:db8::1]:6443,2001:db8::/64")},
		{docs, "noProxy: an asterisk for a part of an address", "refused", noProxy("10.0.0.*")},
		{docs, "noProxy: a URL", "refused", noProxy("https://registry.example.com")},
		{bug, "noProxy: semicolons", "refused", noProxy("a.example.com;b.example.com")},
		{bug, "noProxy: nothing but spaces between names", "refused", noProxy("a.example.com b.example.com")},
		{bug, "noProxy: quotes", "refused", noProxy(`"a.example.com"`)},
	}
}

func proxyReports() []report {
	const docs = "https://docs.redhat.com/en/documentation/openshift_container_platform/4.14/html/networking/enable-cluster-wide-proxy"
	return []report{
		{docs, "proxy: a user of a domain, with a backslash", "refused", proxyURL(`http://CORP\svc-user:pa%24s@proxy.example.com:8080`)},
		{docs, "proxy: a user of a domain, as URLs spell it", "taken with a secret", proxyURL(`http://CORP%5Csvc-user:pa%24s@proxy.example.com:8080`)},
		{docs, "proxy: @ in the password", "taken with a secret", proxyURL("http://user:p@ss@proxy.example.com:8080")},
		{docs, "proxy: no scheme", "refused", proxyURL("proxy.example.com:8080")},
		{docs, "proxy: no port", "taken", proxyURL("http://proxy.example.com")},
		{docs, "proxy: a slash at the end", "taken", proxyURL("http://proxy.example.com:8080/")},
		{docs, "proxy: a file for automatic configuration", "refused", proxyURL("http://proxy.example.com:8080/proxy.pac")},
		{docs, "proxy: a scheme in capitals", "taken", proxyURL("HTTP://proxy.example.com:8080")},
	}
}

// proxyURL reports whether a proxy URL is accepted and its password is kept separately. An error that contains the password is returned as it
// is.
func proxyURL(text string) func(*testing.T) string {
	return func(*testing.T) string {
		_, secret, err := proxy.Render(proxy.Config{Object: "Proxy cluster", Path: "status", HTTPProxy: text}, proxy.Inside{})
		switch {
		case err != nil && (strings.Contains(err.Error(), "pa%24s") || strings.Contains(err.Error(), "p@ss")):
			return err.Error()
		case err != nil:
			return "refused"
		case len(secret) > 0:
			return "taken with a secret"
		}
		return "taken"
	}
}

func mirrorEntry(source string, policy mirrors.Policy, to ...string) mirrors.Entry {
	e := mirrors.Entry{Source: source, Policy: policy}
	for _, m := range to {
		e.Mirrors = append(e.Mirrors, mirrors.Mirror{Location: m})
	}
	return e
}

func mirrorSet(kind string, entries ...mirrors.Entry) mirrors.Set {
	s := mirrors.Set{Kind: kind, Name: entries[0].Source, Field: "spec", Entries: entries}
	for i := range s.Entries {
		s.Entries[i].For = mirrors.Digests
		if kind == "ImageTagMirrorSet" {
			s.Entries[i].For = mirrors.Tags
		}
	}
	return s
}

// pulledFrom returns the registries that are tried for an image, in order; ! after one means that TLS is optional.
func pulledFrom(in mirrors.Input, image string) func(*testing.T) string {
	return func(t *testing.T) string {
		table := mirrors.Render(in).Table
		if table == nil {
			table = &mirrors.Table{}
		}
		if err := table.Check(); err != nil {
			t.Fatal(err)
		}
		name, kind := strings.TrimSuffix(image, byTag), mirrors.Tags
		if before, isDigest := strings.CutSuffix(image, byDigest); isDigest {
			name, kind = before, mirrors.Digests
		}
		host, repository, _ := strings.Cut(name, "/")
		n, err := mirrors.ParseName(host, repository)
		if err != nil {
			t.Fatal(err)
		}
		var places []string
		for _, a := range mirrors.NewRouter(*table).Route(n, kind).Attempts {
			place := a.Name.String()
			if a.Insecure {
				place += "!"
			}
			places = append(places, place)
		}
		if places == nil {
			return "nobody"
		}
		return strings.Join(places, " ")
	}
}

// pullUser returns the user for quay.io in a pull secret, and the reported problems.
func pullUser(text string) func(*testing.T) string {
	return func(t *testing.T) string {
		out := mirrors.Render(mirrors.Input{PullSecret: mirrors.PullSecret{Name: "openshift-config/pull-secret", DockerConfigJSON: []byte(text)}})
		n, err := mirrors.ParseName("quay.io", "team/x")
		if err != nil {
			t.Fatal(err)
		}
		user, reported := "none", []string{}
		if c, ok := mirrors.ReadKeyring([]byte(out.KubeletConfig)).For(n); ok {
			user = c.User
		}
		for _, p := range out.Problems {
			reported = append(reported, p.Reason)
		}
		return user + ", " + strings.Join(reported, " ")
	}
}

// noProxy reports whether a list of proxy exceptions is accepted.
func noProxy(text string) func(*testing.T) string {
	return func(*testing.T) string {
		_, _, err := proxy.Render(proxy.Config{Object: "Proxy cluster", Path: "status", HTTPProxy: "http://proxy.example.com:3128", NoProxy: text},
			proxy.Inside{Networks: []string{"10.128.0.0/14"}, APIServer: "api-int.example.com", Domain: "cluster.local"})
		if err != nil {
			return "refused"
		}
		return "taken"
	}
}
