package mirrors_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
)

// update rewrites the golden files: go test ./internal/shared/mirrors -update.
var update = flag.Bool("update", false, "rewrite the golden files")

const (
	never = mirrors.NeverContactSource
	allow = mirrors.AllowContactingSource
)

// Builders of inputs, so that a case reads like the objects that it represents.

func digests(name string, entries ...mirrors.Entry) mirrors.Set {
	for i := range entries {
		entries[i].For = mirrors.Digests
	}
	return mirrors.Set{Kind: "ImageDigestMirrorSet", Name: name, Field: "spec.imageDigestMirrors", Entries: entries}
}

func tags(name string, entries ...mirrors.Entry) mirrors.Set {
	for i := range entries {
		entries[i].For = mirrors.Tags
	}
	return mirrors.Set{Kind: "ImageTagMirrorSet", Name: name, Field: "spec.imageTagMirrors", Entries: entries}
}

func config(entries ...mirrors.Entry) mirrors.Set {
	return mirrors.Set{Kind: "WindowsConfig", Name: "cluster", Field: "spec.registries.mirrors", Entries: entries}
}

func entry(source string, policy mirrors.Policy, locations ...string) mirrors.Entry {
	e := mirrors.Entry{Source: source, Policy: policy}
	for _, l := range locations {
		e.Mirrors = append(e.Mirrors, mirrors.Mirror{Location: l})
	}
	return e
}

func pullSecret(auths string) mirrors.PullSecret {
	return mirrors.PullSecret{Name: "openshift-config/pull-secret", DockerConfigJSON: []byte(`{"auths": ` + auths + `}`)}
}

func ca(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("testdata/ca.pem")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// goldenCases have their results in testdata/<name>: the table, the hosts.toml files as on drive C: of a node, and problems.txt.
// payload/containerd tests containerd with the same files.
func goldenCases(t testing.TB) map[string]mirrors.Input {
	insecure := mirrors.Entry{Source: "mcr.microsoft.com", Mirrors: []mirrors.Mirror{
		{Location: "plain.example.com:5000", Insecure: true},
		{Location: "private.example.com/mcr", CA: "# ours\n" + ca(t)},
		{Location: "both.example.com", Insecure: true, CA: ca(t)},
		{Location: "broken.example.com", CA: "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"},
	}}
	return map[string]mirrors.Input{
		"documents": seed(),
		"sources": sets(
			digests("a", entry("mcr.microsoft.com/oss", allow, "second.example.com/copies", "first.example.com:5000/oss"),
				entry("registry.example.com:5000", never, "m.example.com:8443/copies"), entry("[fd00::1]:5000/x", allow, "[fd00::2]:5000/y"),
				entry("docker.io/library", allow, "m.example.com/hub"), entry("localhost:5000", allow, "m.example.com")),
			tags("b", entry("mcr.microsoft.com/oss", allow, "first.example.com:5000/oss"))),
		"wildcards":       sets(tags("a", entry("*.example.com", allow, "m.test"), entry("quay.io", never, "m.test"))),
		"closed-wildcard": sets(tags("a", entry("*.example.com", never, "m.test"), entry("quay.io", allow, "m.test"), entry("a.example.com", allow, "m.test"))),
		"allowed":         withAccess(seed()).and(mirrors.Allowed, "quay.io", "*.example.com", "registry.access.redhat.com/ubi9"),
		"insecure":        withAccess(sets(config(insecure))).and(mirrors.Insecure, "plain.test:5000", "docker.io", "*.wild.test", "part.test/x"),
		"blocked":         withAccess(sets()).and(mirrors.Blocked, "quay.io", "part.test/x", "bad.test/Path", "nobody*", "*.a.test:1"),
		"refused": sets(digests("a",
			entry("*.example.com/x", never, "m.example.com"),
			entry("registry", never, "m.example.com"),
			entry("aux.example.com", allow, "m.example.com"),
			entry("quay.io/Team", allow, "m.example.com/team"),
			entry("https://user:hunter2@quay.io", allow, "m.example.com"),
			entry("http://quay.io", allow, "m.example.com"),
			entry("", allow, "m.example.com"),
			entry("gcr.io/team:latest", never, "m.example.com/team"),
			entry("ghcr.io", never, "*.example.com", "http://m.example.com"),
			entry("docker.io", never), entry("nvcr.io", "Sometimes", "m.example.com/\"]\n[host.\"https://evil.example.com", "m.example.com"),
		)),
		"pull-secret": {PullSecret: pullSecret(`{"bad.example.com": {"auth": "hunter2!"}, "worse.example.com": {"username": 4711}, "no colon": {"auth": "aHVudGVyMg=="},
			"m.example.com": {"auth": "bTpwdw=="}, "a b": {"auth": "bTpwdw=="}, "*.example.com": {"auth": "bTpwdw=="}, "none.example.com": null}`)},
		"unreadable-secret": {PullSecret: mirrors.PullSecret{Name: "openshift-config/pull-secret", DockerConfigJSON: []byte(`{"auths": {"m.example.com": "hunter2"`)}},
	}
}

// endpoint is WICD's endpoint in a node's hosts.toml.
func endpoint() mirrors.Endpoint {
	return mirrors.Endpoint{URL: "https://127.0.0.1:10280", CA: `C:\k\containerd\wicd.crt`, Client: `C:\k\containerd\client.pem`}
}

func TestRender(t *testing.T) {
	cases := goldenCases(t)
	for name, in := range cases {
		t.Run(name, func(t *testing.T) {
			out := mirrors.Render(in)
			got := map[string]string{}
			if out.Table != nil {
				text, err := json.MarshalIndent(out.Table, "", "  ")
				if err != nil {
					t.Fatal(err)
				}
				got["table.json"] = string(text) + "\n"
				for path, content := range out.Table.Hosts(endpoint()) {
					got[strings.ReplaceAll(strings.TrimPrefix(path, `C:\`), `\`, "/")] = content
				}
			}
			if out.KubeletConfig != "" {
				got["config.json"] = out.KubeletConfig
			}
			if text := problemsText(out); text != "" {
				got["problems.txt"] = text
			}
			golden(t, filepath.Join("testdata", name), got)
		})
	}
	dirs, err := filepath.Glob("testdata/*/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		if _, found := cases[filepath.Base(filepath.Dir(dir))]; !found && filepath.Base(filepath.Dir(dir)) != "fuzz" {
			t.Errorf("%s belongs to no case", dir)
		}
	}
}

func problemsText(out mirrors.Output) string {
	var text strings.Builder
	for _, p := range out.Problems {
		fmt.Fprintf(&text, "%s %s %s: %s\n  %s\n", p.Kind, p.Name, p.Field, p.Reason, p.Message)
	}
	return text.String()
}

// golden compares a folder with files.
func golden(t *testing.T, dir string, got map[string]string) {
	t.Helper()
	if *update {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		for name, content := range got {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	want := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		want[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatalf("%v; run go test ./internal/shared/mirrors -update and read the difference", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got), if it is meant run go test -update:\n%s", dir, diff)
	}
}

func TestRenderIgnoresOrderAndKeepsInput(t *testing.T) {
	var all []mirrors.Set
	for name, in := range goldenCases(t) {
		for _, s := range in.Sets {
			s.Name = name + "-" + s.Name
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b mirrors.Set) int { return strings.Compare(a.Kind+a.Name, b.Kind+b.Name) })
	want := mirrors.Render(mirrors.Input{Sets: all})
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		shuffled := slices.Clone(all)
		random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		before := slices.Clone(shuffled)
		if diff := cmp.Diff(want, mirrors.Render(mirrors.Input{Sets: shuffled})); diff != "" {
			t.Fatalf("another order changed the result (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(before, shuffled); diff != "" {
			t.Fatalf("the input was changed:\n%s", diff)
		}
	}
}

func TestProblemsContainNoSecrets(t *testing.T) {
	for name, in := range goldenCases(t) {
		for _, p := range mirrors.Render(in).Problems {
			for _, s := range []string{"hunter2", "4711", "bTpwdw"} {
				if strings.Contains(fmt.Sprint(p), s) {
					t.Errorf("%s: %q is in %v", name, s, p)
				}
			}
		}
	}
}

// TestDefectsOfTheOriginal: the original used folder names with the colon of a port, which Windows does not allow, lost the
// order of mirrors and their organizations (OCPBUGS-47696), and merged entries so that one without policy overrode
// NeverContactSource.
func TestDefectsOfTheOriginal(t *testing.T) {
	for _, policies := range [][]mirrors.Policy{{"", never}, {never, ""}, {allow, never}} {
		var entries []mirrors.Entry
		for _, p := range policies {
			entries = append(entries, entry("host.example.com:5000/z", p, "z.example.com/org/z", "a.example.com/org/z"))
		}
		table := mirrors.Render(sets(digests("a", entries...))).Table
		if got := strings.Join(placesOf(t, *table, "host.example.com:5000/z/x"+someDigest), " "); got != "z.example.com/org/z/x a.example.com/org/z/x" {
			t.Errorf("policies %q: the route has %s", policies, got)
		}
		hosts := table.Hosts(endpoint())
		content, found := hosts[mirrors.Folder+`\host.example.com_5000_\hosts.toml`]
		if !found || len(hosts) != 1 || strings.Contains(content, "host.example.com") {
			t.Errorf("policies %q, and the files are %q", policies, hosts)
		}
	}
}

func TestEmptyInputRendersNothing(t *testing.T) {
	for _, in := range []mirrors.Input{{}, sets(digests("a", entry("quay.io", allow)), tags("b")), {Access: []mirrors.Access{access(mirrors.Allowed)}}} {
		if out := mirrors.Render(in); out.Table != nil || len(out.Problems) != 0 || out.KubeletConfig != "" {
			t.Errorf("got %v", out)
		}
	}
}

// TestPullSecretWithoutKeyIsReported has a Secret for another purpose, or with the wrong key.
func TestPullSecretWithoutKeyIsReported(t *testing.T) {
	out := mirrors.Render(mirrors.Input{PullSecret: mirrors.PullSecret{Name: "openshift-config/pull-secret"}})
	if out.KubeletConfig != "" || len(out.Problems) != 1 {
		t.Fatalf("got %v", out)
	}
	p := out.Problems[0]
	if p.Kind != "Secret" || p.Name != "openshift-config/pull-secret" || p.Field != "data[.dockerconfigjson]" || p.Reason != mirrors.InvalidPullSecret {
		t.Errorf("got %+v", p)
	}
}

func TestPullSecretIsPassedUnchanged(t *testing.T) {
	secret := pullSecret(`{ "m.example.com" : {"auth": "bTpwdw=="}}`)
	if out := mirrors.Render(mirrors.Input{PullSecret: secret}); out.KubeletConfig != string(secret.DockerConfigJSON) {
		t.Errorf("%s is not the pull secret", out.KubeletConfig)
	}
}
