//go:build linux

package deploytest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// terminalWidth is the width of a terminal that the output of kubectl get fits in.
const terminalWidth = 120

// testColumns prints instances with kubectl. They have all reasons, and names as long as those of Machines in a cloud.
func (c *cluster) testColumns(t *testing.T) {
	const in = "columns"
	c.createNamespace(t, in, nil)
	for i, reason := range reasons(t) {
		name := fmt.Sprintf("production-x7k2p-windows-us-east-1a-a%03d", i)
		o := object("WindowsInstance", name, map[string]any{"address": fmt.Sprintf("10.100.200.%d", 1+i), "username": "Administrator"})
		must(t, errOf(instances(c.admin, in).Create(t.Context(), o, metav1.CreateOptions{})))
		status := map[string]any{"status": map[string]any{
			"nodeRef": map[string]any{"name": fmt.Sprintf("ip-10-100-200-%d.us-east-1.compute.internal", 100+i)},
			"plan":    map[string]any{"action": "Upgrade", "disruption": "Drain", "waitsFor": "VersionSkewUnsupported"},
			"payload": map[string]any{"current": "3f9a2c1b7d04"},
			"conditions": []any{map[string]any{
				"type": "Ready", "status": "False", "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
			}},
		}}
		raw, err := json.Marshal(status)
		must(t, err)
		must(t, errOf(instances(c.admin, in).Patch(t.Context(), name, types.MergePatchType, raw, metav1.PatchOptions{}, "status")))
	}
	narrow := c.kubectl(t, "get", "winst", "-n", in)
	for _, line := range narrow {
		if n := utf8.RuneCountInString(strings.TrimRight(line, " ")); n > terminalWidth {
			t.Errorf("kubectl get winst prints a line of %d characters, want at most %d: %s", n, terminalWidth, line)
		}
	}
	if got, want := strings.Join(strings.Fields(narrow[0]), " "), "NAME STATUS NEXT WAITS FOR AGE"; got != want {
		t.Errorf("got columns %s, want %s", got, want)
	}
	wide := c.kubectl(t, "get", "winst", "-n", in, "-o", "wide")
	if got, want := strings.Join(strings.Fields(wide[0]), " "), "NAME STATUS NEXT WAITS FOR AGE ADDRESS NODE SOURCE PAYLOAD"; got != want {
		t.Errorf("got columns of -o wide %s, want %s", got, want)
	}
	for _, field := range []string{"winst.spec.address", "winst.status.plan.waitsFor", "windowsconfig.spec.rollout.maxUnavailable"} {
		if explained := strings.Join(c.kubectl(t, "explain", field), "\n"); !strings.Contains(explained, "DESCRIPTION:\n") || strings.Contains(explained, "<") && strings.Contains(explained, "no description") {
			t.Errorf("kubectl explain %s prints no description:\n%s", field, explained)
		}
	}
}

// kubectl runs kubectl, and returns the lines of its output.
func (c *cluster) kubectl(t *testing.T, args ...string) []string {
	t.Helper()
	dir := t.TempDir()
	program, kubeconfig := filepath.Join(dir, "kubectl"), filepath.Join(dir, "kubeconfig")
	must(t, c.control.LinkKubectl(program))
	must(t, c.control.Kubeconfig(kubeconfig))
	command := exec.CommandContext(t.Context(), program, args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+dir)
	var errors bytes.Buffer
	command.Stderr = &errors
	out, err := command.Output()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, &errors)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// reasons returns the reasons of conditions and events from the generated reference.
func reasons(t *testing.T) (all []string) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/reference/reasons.md")
	must(t, err)
	for _, m := range regexp.MustCompile(`(?m)^### (\w+)$`).FindAllStringSubmatch(string(page), -1) {
		all = append(all, m[1])
	}
	if len(all) < 80 {
		t.Fatalf("found only %d reasons, want at least 80", len(all))
	}
	return all
}

// examplesInSchemas returns the examples in the schemas of the operator's kinds, by the path of their field.
func (c *cluster) examplesInSchemas(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, name := range []string{"windowsinstances", "windowsconfigs"} {
		crd, err := c.admin.dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}).
			Get(t.Context(), name+"."+group, metav1.GetOptions{})
		must(t, err)
		spec := crd.Object["spec"].(map[string]any)
		version := spec["versions"].([]any)[0].(map[string]any)
		collectExamples(found, spec["names"].(map[string]any)["kind"].(string), version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any))
	}
	if len(found) < 10 {
		t.Errorf("found examples of only %d fields, want at least 10", len(found))
	}
	return found
}

func collectExamples(found map[string][]string, path string, s map[string]any) {
	texts := []string{fmt.Sprint(s["description"])}
	rules, _ := s["x-kubernetes-validations"].([]any)
	for _, rule := range rules {
		texts = append(texts, fmt.Sprint(rule.(map[string]any)["message"]))
	}
	for _, text := range texts {
		for _, m := range exampleOfField().FindAllStringSubmatch(strings.Join(strings.Fields(text), " "), -1) {
			for _, value := range m[1:] {
				if value = strings.TrimSuffix(value, "."); value != "" && !slices.Contains(found[path], value) {
					found[path] = append(found[path], value)
				}
			}
		}
	}
	properties, _ := s["properties"].(map[string]any)
	for name, property := range properties {
		collectExamples(found, path+"."+name, property.(map[string]any))
	}
	for _, of := range []string{"items", "additionalProperties"} {
		if inner, ok := s[of].(map[string]any); ok {
			collectExamples(found, path, inner)
		}
	}
}
