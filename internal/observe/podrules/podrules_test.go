package podrules_test

import (
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/internal/observe/podrules"
	"github.com/windows-machine-config/wmco/internal/observe/podrules/podrulestest"
)

var update = flag.Bool("update", false, "write the table of docs/workloads.md")

// good is a pod without problems.
const good = `
os: {name: windows}
nodeSelector: {kubernetes.io/os: windows}
tolerations: [{key: os, value: Windows, effect: NoSchedule}]
containers: [{name: web, image: "mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2022", resources: {limits: {memory: 1Gi}}}]
`

func spec(t *testing.T, text string) map[string]any {
	t.Helper()
	got := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	return got
}

func check(t *testing.T, text string) []podrules.Finding {
	t.Helper()
	found, err := podrules.Check(spec(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestEveryRuleIsReported breaks each rule with its example, in each kind of container, and expects that rule's finding only.
func TestEveryRuleIsReported(t *testing.T) {
	for _, rule := range podrules.Rules() {
		lists := []string{""}
		if strings.HasPrefix(rule.Path, "containers[*].") {
			lists = []string{"containers", "initContainers", "ephemeralContainers"}
		}
		for _, list := range lists {
			t.Run(rule.Path+" "+rule.Example+" "+list, func(t *testing.T) {
				got := spec(t, good)
				want := podrulestest.Break(t, got, rule, list)
				found, err := podrules.Check(got)
				if err != nil || len(found) != 1 || found[0].Field != want || found[0].Message != rule.Why || found[0].Remedy == "" {
					t.Fatalf("Check() = %+v, %v, want %s", found, err, want)
				}
				if isError := found[0].Severity == podrules.Error; isError != (rule.Refused || rule.Stops) {
					t.Errorf("the severity is %s", found[0].Severity)
				}
			})
		}
	}
}

func TestPodsThatCannotRunAreReported(t *testing.T) {
	const container = `{name: a, image: "a:1", resources: {limits: {memory: 1Gi}}}`
	for name, test := range map[string]struct {
		pod     string
		field   string // of the first finding
		message string
	}{
		"valid pod":         {good, "", ""},
		"RuntimeClass":      {"os: {name: windows}\nruntimeClassName: windows2022\ncontainers: [" + container + "]", "", ""},
		"no selector":       {strings.Replace(good, "nodeSelector: {kubernetes.io/os: windows}", "", 1), "nodeSelector", "Linux"},
		"an older selector": {strings.Replace(good, "kubernetes.io/os", "beta.kubernetes.io/os", 1), "", ""},
		"selects Linux":     {strings.Replace(good, "kubernetes.io/os: windows", "kubernetes.io/os: linux", 1), "nodeSelector", "another operating system"},
		"a pool of a cloud": {strings.Replace(good, "kubernetes.io/os: windows", "agentpool: win22", 1), "", ""}, // https://docs.aws.amazon.com/eks/latest/userguide/windows-support.html
		"an architecture":   {strings.Replace(good, "kubernetes.io/os: windows", "kubernetes.io/arch: amd64", 1), "nodeSelector", "Linux"},
		"a node affinity": {strings.Replace(good, "nodeSelector: {kubernetes.io/os: windows}", // https://github.com/epam/cloud-pipeline/pull/2007
			"affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/os, operator: In, values: [windows]}]}]}}}", 1), "", ""},
		"a preferred node": {strings.Replace(good, "nodeSelector: {kubernetes.io/os: windows}",
			"affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: a, operator: Exists}]}}]}}", 1), "nodeSelector", "Linux"},
		"affinity to another pod": {strings.Replace(good, "nodeSelector: {kubernetes.io/os: windows}", "affinity: {podAntiAffinity: {}}", 1), "nodeSelector", "Linux"},
		// Generators of manifests write empty lists.
		"no volume devices":                      {strings.Replace(good, "name: web,", "name: web, volumeDevices: [],", 1), "", ""},
		"capitals":                               {strings.Replace(good, "containers: [", `containers: [{name: old, image: "r/a:LTSC2019", resources: {limits: {memory: 1Gi}}}, `, 1), "containers[1].image", "no node runs both"},
		"no toleration":                          {strings.Replace(good, "tolerations", "other", 1), "tolerations", "os=Windows:NoSchedule"},
		"another effect":                         {strings.Replace(good, "NoSchedule", "NoExecute", 1), "tolerations", "Pending"},
		"a small letter":                         {strings.Replace(good, "value: Windows", "value: windows", 1), "tolerations", "spec.taint"},
		"any value":                              {strings.Replace(good, "value: Windows", "operator: Exists", 1), "", ""},
		"any taint":                              {strings.Replace(good, "key: os, value: Windows, effect: NoSchedule", "operator: Exists", 1), "", ""},
		"no name of the OS":                      {strings.Replace(good, "os: {name: windows}", "", 1), "os.name", "restricted"},
		"no limit":                               {strings.Replace(good, "memory", "cpu", 1), "containers[0].resources.limits.memory", "limit"},
		"images":                                 {strings.Replace(good, "containers: [", `containers: [{name: old, image: "r/a:1.0-nanoserver-1809", resources: {limits: {memory: 1Gi}}}, `, 1), "containers[1].image", "no node runs both"},
		"HostProcess in one container only":      {good + "initContainers: [{name: h, image: h, securityContext: {windowsOptions: {hostProcess: true}}}]\nhostNetwork: true", "securityContext.windowsOptions.hostProcess", "only some containers"},
		"HostProcess":                            {good + "securityContext: {windowsOptions: {hostProcess: true}}\nhostNetwork: true\ndnsPolicy: ClusterFirstWithHostNet", "", ""},
		"without network":                        {good + "securityContext: {windowsOptions: {hostProcess: true}}", "hostNetwork", "without the host's network"},
		"one container disables it":              {strings.Replace(good, "name: web,", "name: web, securityContext: {windowsOptions: {hostProcess: false}},", 1) + "hostNetwork: true\nsecurityContext: {windowsOptions: {hostProcess: true}}", "containers[0].securityContext.windowsOptions.hostProcess", "is false, and true for the pod"},
		"pod disables it":                        {strings.Replace(good, "name: web,", "name: web, securityContext: {windowsOptions: {hostProcess: true}},", 1) + "hostNetwork: true\nsecurityContext: {windowsOptions: {hostProcess: false}}", "containers[0].securityContext.windowsOptions.hostProcess", "is true, and false for the pod"},
		"pod and container enable it":            {strings.Replace(good, "name: web,", "name: web, securityContext: {windowsOptions: {hostProcess: true}},", 1) + "hostNetwork: true\nsecurityContext: {windowsOptions: {hostProcess: true}}", "", ""},
		"ephemeral container disables it":        {good + "ephemeralContainers: [{name: d, image: d, securityContext: {windowsOptions: {hostProcess: false}}}]\nhostNetwork: true\nsecurityContext: {windowsOptions: {hostProcess: true}}", "ephemeralContainers[0].securityContext.windowsOptions.hostProcess", "is false"},
		"only an ephemeral container enables it": {good + "ephemeralContainers: [{name: d, image: d, securityContext: {windowsOptions: {hostProcess: true}}}]\nhostNetwork: true", "securityContext.windowsOptions.hostProcess", "only some containers"},
	} {
		t.Run(name, func(t *testing.T) {
			found := check(t, test.pod)
			if test.field == "" && len(found) > 0 {
				t.Fatalf("Check() = %+v, want nothing", found)
			}
			if test.field != "" && (len(found) == 0 || found[0].Field != test.field || !strings.Contains(found[0].Message, test.message)) {
				t.Errorf("Check() = %+v, want %s containing %q", found, test.field, test.message)
			}
		})
	}
}

func TestErrorsAreListedFirst(t *testing.T) {
	found := check(t, "containers: [{name: a, image: a}]")
	severities := make([]string, len(found))
	for i, f := range found {
		severities[i] = string(f.Severity)
	}
	if !slices.IsSorted(severities) || len(found) != 4 {
		t.Errorf("Check() = %+v", found)
	}
}

func TestPodsForWindows(t *testing.T) {
	required := func(requirements ...string) string {
		return "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [" + strings.Join(requirements, "]}, {matchExpressions: [") + "]}]}}}"
	}
	const windows, linux, ssd = "{key: kubernetes.io/os, operator: In, values: [windows]}", "{key: kubernetes.io/os, operator: In, values: [linux]}", "{key: disk, operator: In, values: [ssd]}"
	image := func(name string) string { return "\ncontainers: [{name: a, image: '" + name + "'}]" }
	for text, want := range map[string]bool{
		"os: {name: windows}": true, "nodeSelector: {kubernetes.io/os: windows}": true, "runtimeClassName: windows2022": true,
		"nodeSelector: {node.kubernetes.io/windows-build: 10.0.20348}": true, "nodeSelector: {beta.kubernetes.io/os: windows}": true,
		required(windows): true, required(ssd + ", " + windows): true, required("{key: beta.kubernetes.io/os, operator: In, values: [windows]}"): true,
		required("{key: node.kubernetes.io/windows-build, operator: Exists}"): true, required(windows, ssd+", "+windows): true,
		required(windows, linux): false, required(windows, ssd): false, required(ssd): false, required(linux): false,
		required("{key: kubernetes.io/os, operator: In, values: [windows, linux]}"): false, required("{key: kubernetes.io/os, operator: NotIn, values: [linux]}"): false,
		required("{key: node.kubernetes.io/windows-build, operator: DoesNotExist}"): false, "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}}": false,
		"nodeSelector: {agentpool: win22}" + image("mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2022"): true,
		image("mcr.microsoft.com/windows:10.0.17763.1"):                                                                   true, image("mcr.microsoft.com/dotnet/framework/aspnet@sha256:1"): true, image("MCR.microsoft.com/windows/nanoserver:1809"): true,
		image("registry:5000/a:app-LTSC2019"): true, image("golang:1.26-nanoserver"): true, "initContainers: [{image: 'a:ltsc2022'}]": true,
		image("mcr.microsoft.com/windowsx/a:1"): false, image("mcr.microsoft.com/dotnet/aspnet:10.0"): false, image("a:20348"): false, image("ltsc2022/a:1"): false, image("a:v.ltsc20222"): false,
		"os: {name: linux}" + image("a:ltsc2022"): false, "nodeSelector: {kubernetes.io/os: linux}" + image("a:ltsc2022"): false, "nodeSelector: {beta.kubernetes.io/os: linux}" + image("a:ltsc2022"): false,
		required(linux) + image("a:ltsc2022"): false, required(ssd) + image("a:ltsc2022"): true,
		"os: {name: linux}": false, "nodeSelector: {kubernetes.io/os: linux}": false, "runtimeClassName: gvisor": false, "{}": false,
		"os: windows": false, "nodeSelector: [windows]": false, "containers: {image: 'a:ltsc2022'}": false,
	} {
		if got := podrules.ForWindows(spec(t, text)); got != want {
			t.Errorf("ForWindows(%s) = %v", text, got)
		}
	}
}

// FuzzCheck passes arbitrary objects as the spec of a pod.
func FuzzCheck(f *testing.F) {
	f.Add([]byte(`{"os":{"name":"windows"},"containers":[{"securityContext":{"privileged":true}}]}`))
	f.Add([]byte(`{"containers":{"a":1},"volumes":[null,1,{"emptyDir":[]}],"nodeSelector":1}`))
	f.Fuzz(func(_ *testing.T, text []byte) {
		got := map[string]any{}
		if json.Unmarshal(text, &got) == nil {
			podrules.ForWindows(got)
			_, _ = podrules.Check(got)
		}
	})
}

// TestDocument keeps the table of docs/workloads.md up to date.
func TestDocument(t *testing.T) {
	const path, begin, end = "../../../docs/workloads.md", "<!-- rules -->\n\n", "\n<!-- /rules -->"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(text), begin)
	_, after, found := strings.Cut(rest, end)
	if !found {
		t.Fatalf("%s has no %q and %q", path, begin, end)
	}
	want := before + begin + podrules.Table() + end + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(text) {
		t.Error("the table is not that of the rules: run go test ./internal/observe/podrules -update")
	}
}
