package mirrors_test

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
)

// lines matches the allowed lines of a hosts.toml, independently of the renderer.
func lines() *regexp.Regexp {
	const (
		host = `([a-z0-9.-]+|\[[0-9a-f:.]+\])(:[0-9]+)?`
		wicd = `https://127\.0\.0\.1:10280`
	)
	return regexp.MustCompile(`^(|# [A-Za-z0-9:., ]+|server = "https?://` + host + `"|skip_verify = true|capabilities = \["pull", "resolve", "referrers"\]` +
		`|\[host\."` + wicd + `"\]|ca = 'C:\\k\\containerd\\wicd\.crt'|client = 'C:\\k\\containerd\\client\.pem')$`)
}

// FuzzRender varies everything that a user can write into a mirror set. For any input, a host accepts the table, files
// have only known lines and are in the right folders, and no route contains a source that must not be contacted.
func FuzzRender(f *testing.F) {
	for _, in := range goldenCases(f) {
		for _, s := range in.Sets {
			for _, e := range s.Entries {
				first, second := "", "m.example.com"
				if len(e.Mirrors) > 0 {
					first, second = e.Mirrors[0].Location, e.Mirrors[len(e.Mirrors)-1].Location
				}
				f.Add(s.Name, e.Source, first, second, e.Policy == never, e.For == mirrors.Tags)
			}
		}
	}
	f.Add("a\nserver = \"x\"", "quay.io\"\n[host]", "m.example.com/\n\"'\\", "m.example.com\u2028", true, true)
	pattern, folder := lines(), regexp.MustCompile(`^[a-z0-9._\[\]-]+$`)
	f.Fuzz(func(t *testing.T, name, source, first, second string, mustNot, isTags bool) {
		policy := allow
		if mustNot {
			policy = never
		}
		set := digests(name, entry(source, policy, first, second, first))
		if isTags {
			set = tags(name, set.Entries...)
		}
		out := mirrors.Render(withAccess(sets(set, config(entry("quay.io/x", "", "m.example.com/x")))).and(mirrors.Insecure, second))
		if err := out.Table.Check(); err != nil {
			t.Fatal(err)
		}
		for path, content := range out.Table.Hosts(endpoint()) {
			dir, ok := strings.CutSuffix(strings.TrimPrefix(path, mirrors.Folder+`\`), `\hosts.toml`)
			if !ok || !folder.MatchString(dir) || strings.Trim(dir, ".") == "" {
				t.Errorf("file %q", path)
			}
			for line := range strings.SplitSeq(content, "\n") {
				if !pattern.MatchString(line) {
					t.Errorf("line %q", line)
				}
			}
		}
		checkRoutes(t, *out.Table)
	})
}

// checkRoutes requests an image below each prefix, by both kinds of reference.
func checkRoutes(t *testing.T, table mirrors.Table) {
	t.Helper()
	router := mirrors.NewRouter(table)
	for _, s := range table.Sources {
		registry, repository, _ := strings.Cut(strings.Replace(s.Prefix, "*", "a", 1)+"/some/image", "/")
		n, err := mirrors.ParseName(registry, repository)
		if err != nil {
			continue // longer than a name can be
		}
		for _, kind := range []mirrors.Kind{mirrors.Digests, mirrors.Tags} {
			route := router.Route(n, kind)
			for _, a := range route.Attempts {
				if _, err := mirrors.ParseName(a.Host, a.Repository); err != nil && len(a.Host+a.Repository) < 255 {
					t.Errorf("%s: %v", n, err)
				}
				if s.Blocked && a.Name == n {
					t.Errorf("blocked registry %s is in the route", n)
				}
			}
		}
	}
}

// FuzzPullSecret checks that the kubelet and a keyring can read the rendered pull secret.
func FuzzPullSecret(f *testing.F) {
	for _, in := range goldenCases(f) {
		f.Add(in.PullSecret.DockerConfigJSON)
	}
	f.Add([]byte(`{"auths": {"m.example.com": {"auth": "Og=="}, "": {"auth": "bTpwdw"}, "https://m.example.com/v1/": {"username": "\n", "password": "\""}}}`))
	f.Add([]byte(`{"auths": null, "HttpHeaders": {"a": 1}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		out := mirrors.Render(mirrors.Input{Sets: []mirrors.Set{digests("a", entry("quay.io/x", allow, "m.example.com/a/x"))},
			PullSecret: mirrors.PullSecret{Name: "s", DockerConfigJSON: data}})
		if out.Table == nil {
			t.Error("the pull secret prevented the mirrors from being rendered")
		}
		if out.KubeletConfig != "" {
			checkKubeletConfig(t, out.KubeletConfig)
		}
		c, ok := mirrors.ReadKeyring([]byte(out.KubeletConfig)).For(mirrors.Name{Registry: "m.example.com", Repository: "a/x"})
		if ok == (c == mirrors.Credential{}) {
			t.Errorf("%t with %v", ok, c)
		}
	})
}

// checkKubeletConfig parses like pkg/credentialprovider/config.go of Kubernetes 1.36.
func checkKubeletConfig(t *testing.T, content string) {
	t.Helper()
	var config struct {
		Auths map[string]struct {
			Username, Password, Email, Auth string
		} `json:"auths"`
		Headers map[string]string `json:"HttpHeaders"`
	}
	if err := json.Unmarshal([]byte(content), &config); err != nil {
		t.Fatalf("the kubelet cannot read %q: %v", content, err)
	}
	for key, e := range config.Auths {
		if e.Auth == "" {
			continue
		}
		encoding := base64.RawStdEncoding
		if strings.HasSuffix(strings.TrimSpace(e.Auth), "=") {
			encoding = base64.StdEncoding
		}
		if pair, err := encoding.DecodeString(e.Auth); err != nil || len(strings.SplitN(string(pair), ":", 2)) != 2 {
			t.Errorf("the kubelet refuses the file for its entry %q", key)
		}
	}
}
