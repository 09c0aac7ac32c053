package mirrors_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
)

func TestInvalidCAsAreRejected(t *testing.T) {
	good := ca(t)
	tests := map[string]struct {
		ca      string
		message string
	}{
		"text":                {"no certificate", "line 1: no certificate found"},
		"key":                 {"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "line 1: private key found"},
		"good, then key":      {good + "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "private key found"},
		"good, then cut":      {good + good[:len(good)/2], "its END line is missing"},
		"no DER":              {"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "line 1: parsing a certificate"},
		"good, then a remark": {good + "\nthe end\n", ""},
	}
	for name, test := range tests {
		in := mirrors.Input{Sets: []mirrors.Set{config(mirrors.Entry{Source: "quay.io", Mirrors: []mirrors.Mirror{{Location: "m.example.com", CA: test.ca}}})}}
		out := mirrors.Render(in)
		switch {
		case test.message == "" && (len(out.Problems) != 0 || out.Table.CAs[0] != good || out.Table.Sources[0].Mirrors[0].CA != 1):
			t.Errorf("%s: %v", name, out)
		case test.message != "" && (len(out.Problems) != 1 || !strings.Contains(out.Problems[0].Message, test.message) || out.Table != nil):
			t.Errorf("%s: %v", name, out)
		}
	}
}

// TestInvalidEntryDoesNotAffectOthers adds each invalid entry to valid sets, which must not change.
func TestInvalidEntryDoesNotAffectOthers(t *testing.T) {
	cases := goldenCases(t)
	fine := cases["sources"]
	want := mirrors.Render(fine).Table
	for i, bad := range cases["refused"].Sets[0].Entries[:7] {
		got := mirrors.Render(mirrors.Input{Sets: append(slices.Clone(fine.Sets), digests("bad", bad))}).Table
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("entry %d (-want +got):\n%s", i, diff)
		}
	}
}

// TestManyAndLongNames: tools that mirror a whole catalog write an entry for each repository.
func TestManyAndLongNames(t *testing.T) {
	var entries []mirrors.Entry
	for i := range 10000 {
		name := fmt.Sprintf("%05d", i)
		source := fmt.Sprintf("r%d.test/%s", i%2000, strings.Repeat(name, 48))
		entries = append(entries, entry(source, allow, "m.test/"+strings.Repeat(name, 48), source))
	}
	began := time.Now()
	out := mirrors.Render(sets(digests("a", entries...)))
	if err := out.Table.Check(); err != nil || len(out.Problems) > 0 {
		t.Fatalf("%v, %v", err, out.Problems)
	}
	router := mirrors.NewRouter(*out.Table)
	for _, e := range entries {
		registry, repository, _ := strings.Cut(e.Source, "/")
		if route := router.Route(mirrors.Name{Registry: registry, Repository: repository}, mirrors.Digests); len(route.Attempts) != 2 {
			t.Fatalf("%s: %v", e.Source, route)
		}
	}
	if hosts := out.Table.Hosts(endpoint()); len(hosts) != 1 {
		t.Errorf("%d files", len(hosts))
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestLongestPullSecretEntryWins(t *testing.T) {
	k := mirrors.ReadKeyring(pullSecret(`{
		"m.test/a/b/c": {"auth": "Yzpwdw=="}, "https://m.test/v2/a": {"username": "a", "password": "p\"w'\n"}, "m.test": {"auth": "bTpwdw"}, "m.test/none": {},
		"m.test:5000": {"identitytoken": "t"}, "https://index.docker.io/v1/": {"auth": "aHViOnB3"}, "*.wild.test": {"auth": "dzpwdw=="},
		"https://same.test/v1/": {"auth": "bG9uZzpwdw=="}, "same.test": {"auth": "c2hvcnQ6cHc="}, "bad.test": {"auth": "!"}, "UPPER.test": {"auth": "dTpwdw=="}
	}`).DockerConfigJSON)
	for name, user := range map[string]string{
		"m.test/a/b/c": "c", "m.test/a/b/c/d": "c", "m.test/a/b": "a", "m.test/a/bc": "a", "m.test/ab": "m", "m.test/none": "", "m.test/none/x": "",
		"docker.io/library/nginx": "hub", "registry-1.docker.io/x": "hub", "a.wild.test/x": "", "same.test/x": "short", "bad.test/x": "", "m.test:5001/x": "", "upper.test/x": "u",
	} {
		registry, repository, _ := strings.Cut(name, "/")
		c, ok := k.For(mirrors.Name{Registry: registry, Repository: repository})
		if c.User != user || ok != (user != "") {
			t.Errorf("%s: user %q (%t), want %q", name, c.User, ok, user)
		}
	}
	if c, ok := k.For(mirrors.Name{Registry: "m.test:5000", Repository: "x"}); !ok || c.IdentityToken != "t" {
		t.Errorf("got %v", c)
	}
}

// TestPullSecretsOfOtherToolsAreRead: https://github.com/devspace-sh/devspace/issues/2324,
// https://github.com/containers/image/blob/main/docs/containers-auth.json.5.md
func TestPullSecretsOfOtherToolsAreRead(t *testing.T) {
	for text, want := range map[string]struct{ user, problem string }{
		`{"auths":{"https://index.docker.io/v1/":{},"quay.io":{}},"credsStore":"wincred"}`: {}, // Docker Desktop keeps credentials elsewhere
		`{"credHelpers":{"quay.io":"secretservice"}}`:                                      {},
		"\ufeff" + `{"auths":{"quay.io":{"auth":"dTpw"}}}`:                                 {"", mirrors.InvalidPullSecret},
		`{"auths":{"quay.io":{"auth":"dTpw\n"}}}`:                                          {"u", ""},
		`{"auths":{"quay.io/":{"auth":"dTpw"}}}`:                                           {"u", ""},
	} {
		out := mirrors.Render(mirrors.Input{PullSecret: mirrors.PullSecret{Name: "openshift-config/pull-secret", DockerConfigJSON: []byte(text)}})
		c, _ := mirrors.ReadKeyring([]byte(out.KubeletConfig)).For(mirrors.Name{Registry: "quay.io", Repository: "team/x"})
		problem := ""
		for _, p := range out.Problems {
			problem += p.Reason
		}
		if c.User != want.user || problem != want.problem {
			t.Errorf("%s: user %q, problem %q; want %+v", text, c.User, problem, want)
		}
	}
}
