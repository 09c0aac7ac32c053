package mirrors_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/mirrors"
)

// lines are all that a hosts.toml may consist of, seen with other eyes than the renderer's.
func lines() *regexp.Regexp {
	const (
		host = `([a-z0-9.-]+|\[[0-9a-f:]+\])(:[0-9]+)?`
		url  = `"https?://` + host + `/v2(/[a-z0-9._-]+)*"`
	)
	return regexp.MustCompile(`^(|# [A-Za-z0-9:.,' ]+|server = ("https://` + host + `"|` + url + `)|capabilities = \["(push|pull|pull", "resolve)"\]` +
		`|\[host\.` + url + `(\.header)?\]|\[header\]|override_path = true|ca = \["ca-[0-9a-f]{12}\.pem"(, "ca-[0-9a-f]{12}\.pem")*\]` +
		`|Authorization = "Basic [A-Za-z0-9+/]+=*")$`)
}

// FuzzRender changes all that a user writes into a mirror set. Whatever it is, a file has no line but those of the
// renderer and no table twice, it lies where it belongs, and a source that must not be contacted is not named in it.
func FuzzRender(f *testing.F) {
	for _, in := range goldenCases(f) {
		for _, s := range in.Sets {
			for _, e := range s.Entries {
				first, second := "", "m.example.com"
				if len(e.Mirrors) > 0 {
					first, second = e.Mirrors[0].Location, e.Mirrors[len(e.Mirrors)-1].Location
				}
				f.Add(s.Name, e.Source, first, second, e.Policy == never, e.Tags)
			}
		}
	}
	f.Add("a\nserver = \"x\"", "quay.io\"\n[host]", "m.example.com/\n\"'\\", "m.example.com\u2028", true, true)
	pattern := lines()
	folder := regexp.MustCompile(`^[a-z0-9._\[\]-]+$`)
	f.Fuzz(func(t *testing.T, name, source, first, second string, mustNot, tags bool) {
		policy := allow
		if mustNot {
			policy = never
		}
		e := entry(source, policy, first, second, first)
		e.Tags = tags
		out := mirrors.Render(mirrors.Input{
			Sets:       []mirrors.Set{digests(name, e), config(entry("quay.io/x", "", "m.example.com/x"))},
			PullSecret: pullSecret(`{"m.example.com": {"auth": "bTpwdw=="}}`),
		})
		for _, file := range out.Files {
			if file.Path == mirrors.KubeletConfig {
				continue
			}
			dir, ok := strings.CutSuffix(strings.TrimPrefix(file.Path, mirrors.Folder+`\`), `\hosts.toml`)
			if !ok || !folder.MatchString(dir) || strings.Trim(dir, ".") == "" {
				t.Errorf("file %q", file.Path)
			}
			checkHosts(t, pattern, dir, file.Content)
		}
	})
}

func checkHosts(t *testing.T, pattern *regexp.Regexp, dir, content string) {
	t.Helper()
	tables := map[string]bool{}
	for line := range strings.SplitSeq(content, "\n") {
		if !pattern.MatchString(line) {
			t.Errorf("line %q", line)
		}
		if strings.HasPrefix(line, "[") {
			if tables[line] {
				t.Errorf("table %s is there twice: containerd would ignore the file", line)
			}
			tables[line] = true
		}
	}
	forbidden := strings.HasPrefix(content, "# NeverContactSource")
	if forbidden && regexp.MustCompile(fmt.Sprintf(`"https?://%s(/v2)?"`, regexp.QuoteMeta(dir))).MatchString(content) {
		t.Errorf("the source is among its mirrors:\n%s", content)
	}
	if strings.Count(content, "server = ") != 1 {
		t.Errorf("without a server containerd takes the source:\n%s", content)
	}
}

// FuzzPullSecret checks that the kubelet can read what is written for it, and that no header has anything but a user
// and a password.
func FuzzPullSecret(f *testing.F) {
	for _, in := range goldenCases(f) {
		f.Add(in.PullSecret.DockerConfigJSON)
	}
	f.Add([]byte(`{"auths": {"m.example.com": {"auth": "Og=="}, "": {"auth": "bTpwdw"}, "https://m.example.com/v1/": {"username": "\n", "password": "\""}}}`))
	f.Add([]byte(`{"auths": null, "HttpHeaders": {"a": 1}}`))
	header := regexp.MustCompile(`Authorization = "Basic (.*)"`)
	f.Fuzz(func(t *testing.T, data []byte) {
		out := mirrors.Render(mirrors.Input{
			Sets:       []mirrors.Set{digests("a", entry("quay.io/x", allow, "m.example.com/a/x", "quay.io/y/x", "docker.io/x"))},
			PullSecret: mirrors.PullSecret{Name: "s", DockerConfigJSON: data},
		})
		rendered := false
		for _, file := range out.Files {
			if file.Path == mirrors.KubeletConfig {
				checkKubeletConfig(t, file.Content)
				continue
			}
			rendered = true
			for _, m := range header.FindAllStringSubmatch(file.Content, -1) {
				pair, err := base64.StdEncoding.DecodeString(m[1])
				if err != nil || !strings.Contains(string(pair), ":") {
					t.Errorf("header %q", m[0])
				}
			}
		}
		if !rendered {
			t.Error("a pull secret kept the mirrors from being rendered")
		}
	})
}

// checkKubeletConfig reads as pkg/credentialprovider/config.go of Kubernetes 1.36 does.
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
