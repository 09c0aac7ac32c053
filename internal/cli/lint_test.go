package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/cli/clitest"
	"github.com/windows-machine-config/wmco/internal/cli/session"
)

const manifests = "testdata/manifests"

func TestLint(t *testing.T) {
	for name, args := range map[string][]string{
		"lint": {"lint", "-f", manifests}, "lint-all": {"lint", "-f", manifests, "-R", "--all"}, "lint-json": {"lint", "-f", manifests + "/jobs.json", "-o", "json"},
	} {
		t.Run(name, func(t *testing.T) {
			r := clitest.New(t).Run(t, "", args...)
			if r.Code != session.CodeFindings {
				t.Errorf("exit code %d: %s", r.Code, r.Err)
			}
			golden(t, name+".golden", r.Out)
		})
	}
}

func TestLintAcceptsValidManifests(t *testing.T) {
	text, err := os.ReadFile(manifests + "/more/good.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"lint", "-f", manifests + "/more"}, {"lint", "-f", "-"}} {
		r := clitest.New(t).Run(t, string(text), args...)
		if r.Code != session.CodeOK || !strings.Contains(r.Out, "Checked 1 pod for Windows: 0 errors, 0 warnings.") {
			t.Errorf("%v: exit code %d: %s%s", args, r.Code, r.Out, r.Err)
		}
	}
}

// TestLintEscapesHostileText expects terminal control characters in manifests, which may come from others, to be replaced.
func TestLintEscapesHostileText(t *testing.T) {
	const images = `kind: Pod
metadata: {name: "\e[2J"}
spec: {os: {name: windows}, containers: [{name: a, image: "a\e[2J:ltsc2019"}, {name: b, image: "b\e[2J:ltsc2022"}]}
`
	for name, test := range map[string]struct {
		text string
		code int
	}{
		"images": {images, session.CodeFindings},
		"values": {"kind: Pod\nspec: {os: {name: windows}, containers: \"\\e[2J\"}", session.CodeUsage},
		"fields": {"kind: Pod\nspec: {os: {name: windows}, containers: [{image: [\"\\e[2J\"]}]}", session.CodeUsage},
		"YAML":   {"\"\\e[2J\": [", session.CodeUsage},
		"raw":    {"a: \x1b[2J: b", session.CodeUsage},
	} {
		t.Run(name, func(t *testing.T) {
			r := clitest.New(t).Run(t, test.text, "lint", "-f", "-")
			if r.Code != test.code || strings.Contains(r.Out+r.Err, "\x1b") {
				t.Errorf("exit code %d: %q %q", r.Code, r.Out, r.Err)
			}
		})
	}
}

func TestLintRejectsInvalidManifests(t *testing.T) {
	dir := t.TempDir()
	for name, test := range map[string]struct{ text, wantErr string }{
		"no YAML":    {"a: b: c", "object 1"},
		"no pod":     {"kind: Pod\nmetadata: {name: a}\nspec: {os: {name: windows}, hostPID: [1]}", "Pod a: decoding the pod spec"},
		"the second": {"kind: A\n---\n- a", "object 2"},
		"too large":  {strings.Repeat("#", 16<<20) + "\nkind: A", "larger than 16 MB"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, "a.yaml")
			if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if r := clitest.New(t).Run(t, "", "lint", "-f", file); r.Code != session.CodeUsage || !strings.Contains(r.Err, test.wantErr) {
				t.Errorf("exit code %d: %s", r.Code, r.Err)
			}
		})
	}
	for _, args := range [][]string{{"lint"}, {"lint", "-f", "absent"}, {"lint", "-f", "-", "-o", "wide"}} {
		if r := clitest.New(t).Run(t, "", args...); r.Code != session.CodeUsage {
			t.Errorf("%v: exit code %d: %s", args, r.Code, r.Err)
		}
	}
}

// TestLintOfNetworkPolicies checks policies that select pods of a Deployment for Windows, and policies that select others.
func TestLintOfNetworkPolicies(t *testing.T) {
	const pods = `kind: Deployment
metadata: {namespace: shop, name: web, labels: {app: another}}
spec: {template: {metadata: {labels: {app: web}}, spec: {os: {name: windows}, runtimeClassName: windows2022, containers: [{name: c, image: c, resources: {limits: {memory: 1Gi}}}]}}}
---
kind: Deployment
metadata: {namespace: shop, name: api}
spec: {template: {metadata: {labels: {app: api}}, spec: {containers: [{name: c, image: c}]}}}
---
kind: DaemonSet
metadata: {namespace: shop, name: agent}
spec: {template: {metadata: {labels: {app: agent}}, spec: {os: {name: windows}, hostNetwork: true, runtimeClassName: windows2022,
  securityContext: {windowsOptions: {hostProcess: true}}, containers: [{name: c, image: c, resources: {limits: {memory: 1Gi}}}]}}}
---
`
	const selected = "spec.podSelector: The policy selects pods for Windows (Deployment shop/web), and spec.network.policies of WindowsConfig is not Enforce"
	const off = "\n---\nkind: WindowsConfig\nspec: {network: {policies: \"Off\"}}"
	for name, test := range map[string]struct {
		policy, want string
		code         int
	}{
		"all pods":                        {"metadata: {namespace: shop, name: p}\nspec: {podSelector: {}}" + off, selected, session.CodeOK},
		"these":                           {"metadata: {namespace: shop, name: p}\nspec: {podSelector: {matchLabels: {app: web}}}" + off, selected, session.CodeOK},
		"by expression":                   {"metadata: {namespace: shop, name: p}\nspec: {podSelector: {matchExpressions: [{key: app, operator: NotIn, values: [api]}]}}" + off, selected, session.CodeOK},
		"the Deployment's own":            {"metadata: {namespace: shop, name: p}\nspec: {podSelector: {matchLabels: {app: another}}}" + off, "", session.CodeOK},
		"those for Linux":                 {"metadata: {namespace: shop, name: p}\nspec: {podSelector: {matchLabels: {app: api}}}" + off, "", session.CodeOK},
		"the host's network":              {"metadata: {namespace: shop, name: p}\nspec: {podSelector: {matchLabels: {app: agent}}}" + off, "", session.CodeOK},
		"another namespace":               {"metadata: {namespace: other, name: p}\nspec: {podSelector: {}}" + off, "", session.CodeOK},
		"no namespace":                    {"metadata: {name: p}\nspec: {podSelector: {}}" + off, "", session.CodeOK},
		"only reported":                   {"metadata: {namespace: shop, name: p}\nspec: {podSelector: {}}\n---\nkind: WindowsConfig\nspec: {network: {policies: Report}}", selected, session.CodeOK},
		"enforced":                        {"metadata: {namespace: shop, name: p}\nspec: {podSelector: {}}\n---\nkind: WindowsConfig\nspec: {network: {policies: Enforce}}", "", session.CodeOK},
		"enforced by default":             {"metadata: {namespace: shop, name: p}\nspec: {podSelector: {}}", "", session.CodeOK},
		"a network of the user":           {"metadata: {namespace: shop, name: p}\nspec: {podSelector: {}}\n---\nkind: WindowsConfig\nspec: {network: {provider: Custom, policies: Off}}", "", session.CodeOK},
		"a configuration without network": {"metadata: {namespace: shop, name: p}\nspec: {podSelector: {}}\n---\nkind: WindowsConfig\nspec: {network: 1}", "", session.CodeOK},
		"no selector":                     {"metadata: {namespace: shop, name: p}\nspec: {podSelector: x}", "decoding the NetworkPolicy", session.CodeUsage},
		"no operator":                     {"metadata: {namespace: shop, name: p}\nspec: {podSelector: {matchExpressions: [{key: app, operator: \"\\e[2J\"}]}}", "reading spec.podSelector", session.CodeUsage},
	} {
		t.Run(name, func(t *testing.T) {
			r := clitest.New(t).Run(t, pods+"kind: NetworkPolicy\n"+test.policy, "lint", "-f", "-")
			if r.Code != test.code || !strings.Contains(r.Out+r.Err, test.want) || test.want == "" && strings.Contains(r.Out, "NetworkPolicy") || strings.Contains(r.Err, "\x1b") {
				t.Errorf("exit code %d: %s%s", r.Code, r.Out, r.Err)
			}
		})
	}
}
