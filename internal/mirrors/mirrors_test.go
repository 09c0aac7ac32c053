package mirrors_test

import (
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

	"github.com/windows-machine-config/wmco/internal/mirrors"
)

// update rewrites the golden files: go test ./internal/mirrors -update.
var update = flag.Bool("update", false, "rewrite the golden files")

const (
	never = mirrors.NeverContactSource
	allow = mirrors.AllowContactingSource
)

// Builders of inputs, so that a case reads like the objects it stands for.

func digests(name string, entries ...mirrors.Entry) mirrors.Set {
	return mirrors.Set{Kind: "ImageDigestMirrorSet", Name: name, Field: "spec.imageDigestMirrors", Entries: entries}
}

func tags(name string, entries ...mirrors.Entry) mirrors.Set {
	for i := range entries {
		entries[i].Tags = true
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

// goldenCases have their results in testdata/<name>: the files as they lie on drive C: of a node, and problems.txt.
// payload/containerd gives the same files to containerd.
func goldenCases(t testing.TB) map[string]mirrors.Input {
	return map[string]mirrors.Input{
		"digests-and-tags": {Sets: []mirrors.Set{
			digests("a",
				entry("mcr.microsoft.com/oss", allow, "second.example.com/copies/oss", "first.example.com:5000/oss"),
				entry("quay.io", "", "https://first.example.com:5000/team/quay", "docker://third.example.com")),
			tags("b", entry("mcr.microsoft.com/oss", allow, "first.example.com:5000/oss", "third.example.com/oss")),
		}},
		"never": {Sets: []mirrors.Set{
			digests("a", entry("registry.example.com", never, "first.example.com/x", "second.example.com")),
			digests("b", entry("mcr.microsoft.com", never, "first.example.com/mcr")),
			tags("c", entry("mcr.microsoft.com", never, "second.example.com/mcr")),
			digests("d", entry("blocked.example.com", never)),
		}},
		"never-wins": {Sets: []mirrors.Set{
			digests("a", entry("quay.io/team", "", "m.example.com/quay/team")),
			digests("b", entry("quay.io/other", never, "m.example.com/quay/other")),
		}},
		"conflict": {Sets: []mirrors.Set{
			digests("open", entry("quay.io/a", allow, "m.example.com/x/a"), entry("quay.io/b", allow, "m.example.com/y/b")),
			digests("shut", entry("gcr.io/a", never, "m.example.com/x/a")),
			tags("shut", entry("gcr.io/b", allow, "m.example.com/x/b", "n.example.com/b")),
			digests("fine", entry("ghcr.io", allow, "m.example.com")),
		}},
		"ports": {Sets: []mirrors.Set{tags("a",
			entry("registry.example.com:5000", never, "m.example.com:8443/copies"),
			entry("[fd00::1]:5000/x", allow, "[fd00::2]:5000/x"),
			entry("localhost:5000", allow, "m.example.com"),
		)}},
		"docker-hub": {Sets: []mirrors.Set{
			digests("a", entry("docker.io/library", allow, "m.example.com/hub/library")),
			tags("b", entry("index.docker.io/team", "", "m.example.com/hub/team")),
			digests("c", entry("docker-mirror.internal", allow, "docker.io")),
		}, PullSecret: pullSecret(`{"https://index.docker.io/v1/": {"auth": "aHViOnB3"}}`)},
		"http-and-ca": {Sets: []mirrors.Set{config(
			mirrors.Entry{Source: "mcr.microsoft.com", Tags: true, Mirrors: []mirrors.Mirror{
				{Location: "plain.example.com:5000", PlainHTTP: true},
				{Location: "private.example.com/mcr", CA: "# ours\n" + ca(t)},
				{Location: "both.example.com", PlainHTTP: true, CA: ca(t)},
				{Location: "broken.example.com", CA: "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"},
			}})}},
		"credentials": {
			Sets: []mirrors.Set{
				digests("a", entry("quay.io/team", allow, "m.example.com/x/team", "quay.io/team", "quay.io/copies/team", "anyone.example.com/team")),
				digests("b", entry("mcr.microsoft.com", never, "m.example.com/y", "m.example.com:5000")),
				digests("c", entry("gcr.io", allow, "token.example.com", "wild.example.com")),
			},
			PullSecret: pullSecret(`{
				"quay.io": {"auth": "c291cmNlOnB3"},
				"m.example.com": {"auth": "aG9zdDpwdw=="},
				"https://m.example.com/v2/x": {"username": "team-x", "password": "p\"w'\n"},
				"m.example.com:5000": {"auth": "cG9ydDpwdw"},
				"token.example.com": {"identitytoken": "secret-token"},
				"*.example.com": {"auth": "d2lsZDpwdw=="},
				"other.example.org": {"auth": "b3RoZXI6cHc="}
			}`),
		},
		"organizations": {
			Sets: []mirrors.Set{
				digests("a", entry("mcr.microsoft.com/a", allow, "m.example.com/x/a", "n.example.com/a"), entry("mcr.microsoft.com/b", allow, "m.example.com/x/b", "n.example.com/b")),
				digests("b", entry("quay.io", allow, "o.example.com/x")),
			},
			PullSecret: pullSecret(`{
				"m.example.com/x/a": {"auth": "YTpwdw=="},
				"m.example.com/x/b": {"auth": "Yjpwdw=="},
				"n.example.com/a": {"auth": "bjpwdw=="},
				"n.example.com/b": {"auth": "bjpwdw=="},
				"o.example.com/x/only": {"auth": "bzpwdw=="}
			}`),
		},
		"malformed-secret": {
			Sets:       []mirrors.Set{digests("a", entry("quay.io", allow, "m.example.com"))},
			PullSecret: mirrors.PullSecret{Name: "openshift-config/pull-secret", DockerConfigJSON: []byte(`{"auths": {"m.example.com": "hunter2"`)},
		},
		"malformed-entries": {
			Sets: []mirrors.Set{digests("a", entry("quay.io", allow, "m.example.com"))},
			PullSecret: pullSecret(`{"bad.example.com": {"auth": "hunter2!"}, "worse.example.com": {"username": 4711}, "no colon": {"auth": "aHVudGVyMg=="},
				"m.example.com": {"auth": "bTpwdw=="}, "a b": {"auth": "bTpwdw=="}, "none.example.com": null}`),
		},
		"refused": {Sets: []mirrors.Set{digests("a",
			entry("*.example.com", never, "m.example.com"),
			entry("registry", never, "m.example.com"),
			entry("aux.example.com", allow, "m.example.com"),
			entry("quay.io/Team", allow, "m.example.com/team"),
			entry("quay.io/team:latest", allow, "m.example.com/team"),
			entry("https://user:hunter2@quay.io", allow, "m.example.com"),
			entry("http://quay.io", allow, "m.example.com"),
			entry("", allow, "m.example.com"),
			entry("ghcr.io/team/image", allow, "m.example.com/copies/image", "m.example.com/copies/myteam/image", "m.example.com/copies/team/image", "http://m.example.com/team/image"),
			entry("gcr.io/team:latest", never, "m.example.com/team"),
			entry("nvcr.io/*", never, "m.example.com/team"),
			entry("registry.example.com", "Sometimes", "https://registry.example.com:443", "m.example.com/\"]\n[host.\"https://evil.example.com"),
		)}},
	}
}

func TestRender(t *testing.T) {
	cases := goldenCases(t)
	for name, in := range cases {
		t.Run(name, func(t *testing.T) {
			out := mirrors.Render(in)
			got := map[string]string{}
			for _, f := range out.Files {
				got[strings.ReplaceAll(strings.TrimPrefix(f.Path, `C:\`), `\`, "/")] = f.Content
				holds := strings.Contains(f.Content, "Authorization") || f.Path == mirrors.KubeletConfig
				if f.Secret != holds {
					t.Errorf("%s: Secret is %t", f.Path, f.Secret)
				}
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
		if name := filepath.Base(filepath.Dir(dir)); cases[name].Sets == nil && name != "fuzz" {
			t.Errorf("testdata/%s belongs to no case", name)
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
		t.Fatalf("%v; run go test ./internal/mirrors -update and read the difference", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got), if it is meant run go test -update:\n%s", dir, diff)
	}
}

func TestTheOrderOfSetsDoesNotMatterAndNothingGivenIsChanged(t *testing.T) {
	var all []mirrors.Set
	for name, in := range goldenCases(t) {
		for _, s := range in.Sets {
			s.Name = name + "-" + s.Name
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b mirrors.Set) int { return strings.Compare(a.Kind+a.Name, b.Kind+b.Name) })
	secret := goldenCases(t)["credentials"].PullSecret
	want := mirrors.Render(mirrors.Input{Sets: all, PullSecret: secret})
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		shuffled := slices.Clone(all)
		random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		before := slices.Clone(shuffled)
		got := mirrors.Render(mirrors.Input{Sets: shuffled, PullSecret: secret})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("another order gave something else (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(before, shuffled); diff != "" {
			t.Fatalf("the input was changed:\n%s", diff)
		}
	}
}

func TestNoSecretIsInAProblem(t *testing.T) {
	secrets := []string{"hunter2", "4711", "secret-token", "c291cmNlOnB3", "aG9zdDpwdw", "team-x", "p\"w"}
	for name, in := range goldenCases(t) {
		for _, p := range mirrors.Render(in).Problems {
			for _, s := range secrets {
				if strings.Contains(fmt.Sprint(p), s) {
					t.Errorf("%s: %q is in %v", name, s, p)
				}
			}
		}
	}
}

// TestDefectsOfTheOriginal: the original named folders with the colon of a port, which Windows does not allow, lost the order of
// mirrors and their organizations (OCPBUGS-47696), and merged entries so that one without policy undid NeverContactSource.
func TestDefectsOfTheOriginal(t *testing.T) {
	read := func(policies ...mirrors.Policy) mirrors.File {
		var entries []mirrors.Entry
		for _, p := range policies {
			entries = append(entries, entry("host.example.com:5000/z", p, "z.example.com/org/z", "a.example.com/org/z"))
		}
		out := mirrors.Render(mirrors.Input{Sets: []mirrors.Set{digests("a", entries...)}})
		if len(out.Files) != 1 {
			t.Fatalf("files: %v", out.Files)
		}
		return out.Files[0]
	}
	file := read("")
	if want := mirrors.Folder + `\host.example.com_5000_\hosts.toml`; file.Path != want {
		t.Errorf("the file is %s, want %s", file.Path, want)
	}
	z, a := strings.Index(file.Content, `[host."https://z.example.com/v2/org"]`), strings.Index(file.Content, `[host."https://a.example.com/v2/org"]`)
	if z < 0 || a < z {
		t.Errorf("the order of mirrors was lost, or (OCPBUGS-47696) their organization:\n%s", file.Content)
	}
	for _, policies := range [][]mirrors.Policy{{"", never}, {never, ""}, {allow, never}} {
		if file := read(policies...); strings.Contains(file.Content, "host.example.com") {
			t.Errorf("policies %q, and the source is contacted:\n%s", policies, file.Content)
		}
	}
	if file := read(never); strings.Contains(file.Content, "resolve") {
		t.Errorf("a mirror for digests is asked for tags, because it is the server:\n%s", file.Content)
	}
}

func TestAMirrorForDigestsAndForTagsIsForBothWhicheverComesFirst(t *testing.T) {
	forDigests, forTags := entry("quay.io", allow, "m.example.com"), entry("quay.io", allow, "m.example.com")
	forTags.Tags = true
	for _, entries := range [][]mirrors.Entry{{forDigests, forTags}, {forTags, forDigests}} {
		out := mirrors.Render(mirrors.Input{Sets: []mirrors.Set{config(entries...)}})
		if len(out.Files) != 1 || !strings.Contains(out.Files[0].Content, `["pull", "resolve"]`) || len(out.Problems) != 0 {
			t.Errorf("got %v", out)
		}
	}
}

func TestWithoutAnythingNothingIsRendered(t *testing.T) {
	if out := mirrors.Render(mirrors.Input{}); len(out.Files)+len(out.Problems) != 0 {
		t.Errorf("got %v", out)
	}
	inert := mirrors.Input{Sets: []mirrors.Set{digests("a", entry("quay.io", allow))}, PullSecret: pullSecret(`{}`)}
	want := []mirrors.File{{Path: mirrors.KubeletConfig, Content: `{"auths": {}}`, Secret: true}}
	if diff := cmp.Diff(mirrors.Output{Files: want}, mirrors.Render(inert)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestAPullSecretWithoutItsKeyIsTold is about a Secret that was made for another purpose, or with the wrong key.
func TestAPullSecretWithoutItsKeyIsTold(t *testing.T) {
	out := mirrors.Render(mirrors.Input{PullSecret: mirrors.PullSecret{Name: "openshift-config/pull-secret"}})
	if len(out.Files) != 0 || len(out.Problems) != 1 {
		t.Fatalf("got %v", out)
	}
	p := out.Problems[0]
	if p.Kind != "Secret" || p.Name != "openshift-config/pull-secret" || p.Field != "data[.dockerconfigjson]" || p.Reason != mirrors.InvalidPullSecret {
		t.Errorf("got %+v", p)
	}
}

func TestAReadablePullSecretIsHandedOnByteForByte(t *testing.T) {
	secret := goldenCases(t)["credentials"].PullSecret
	for _, f := range mirrors.Render(mirrors.Input{PullSecret: secret}).Files {
		if f.Path != mirrors.KubeletConfig || f.Content != string(secret.DockerConfigJSON) {
			t.Errorf("%s is not the pull secret", f.Path)
		}
	}
}

func TestCAsThatCannotBeUsedAreRefused(t *testing.T) {
	good := ca(t)
	tests := map[string]struct {
		ca   string
		says string
	}{
		"text":                {"no certificate", "there is no certificate in it"},
		"key":                 {"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "block 1 is no certificate;"},
		"good, then key":      {good + "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "block 2 is no certificate;"},
		"good, then cut":      {good + good[:len(good)/2], "block 2 is cut or damaged"},
		"no DER":              {"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "block 1 is no certificate that can be read"},
		"good, then a remark": {good + "\nthe end\n", ""},
	}
	for name, test := range tests {
		in := mirrors.Input{Sets: []mirrors.Set{config(mirrors.Entry{Source: "quay.io", Mirrors: []mirrors.Mirror{{Location: "m.example.com", CA: test.ca}}})}}
		out := mirrors.Render(in)
		switch {
		case test.says == "" && (len(out.Problems) != 0 || len(out.Files) != 2 || out.Files[0].Content != good):
			t.Errorf("%s: %v", name, out)
		case test.says != "" && (len(out.Problems) != 1 || !strings.Contains(out.Problems[0].Message, test.says) || len(out.Files) != 0):
			t.Errorf("%s: %v", name, out)
		}
	}
}

// TestOneBadEntryHarmsNobodyButItself adds every refused entry to sets that are fine.
func TestOneBadEntryHarmsNobodyButItself(t *testing.T) {
	cases := goldenCases(t)
	fine := cases["digests-and-tags"]
	want := files(mirrors.Render(fine))
	for i, bad := range cases["refused"].Sets[0].Entries[:8] {
		got := files(mirrors.Render(mirrors.Input{Sets: append(slices.Clone(fine.Sets), digests("bad", bad))}))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("entry %d (-want +got):\n%s", i, diff)
		}
	}
}

func files(out mirrors.Output) map[string]string {
	all := map[string]string{}
	for _, f := range out.Files {
		all[f.Path] = f.Content
	}
	return all
}
