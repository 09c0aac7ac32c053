package archtest

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// claimsOfSettings returns the claims about defaults of WindowsConfig, and about what kubelets do by default.
func claimsOfSettings() []claim {
	const (
		kubelets  = "api/v1alpha1/windowsconfig_kubelet.go"
		services  = "api/v1alpha1/windowsconfig_services.go"
		config    = "api/v1alpha1/windowsconfig.go"
		rendered  = "internal/shared/desired/kubelet.go"
		settings  = "internal/shared/desired/kubelet_settings.go"
		resources = "internal/shared/desired/kubelet_resources.go"
		repair    = "internal/shared/desired/services_network.go"
		window    = "internal/operator/rollout/window.go"
		upstream  = eachKubernetes + "pkg/kubelet/apis/config/v1beta1/defaults.go"
		policies  = "internal/shared/desired/policies.go"
		mode      = `cmp\.Or\(n\.Policies, v1alpha1\.Policies(\w+)\)`
		fallback  = `cmp\.Or\(n\.PolicyFallback, v1alpha1\.Fallback(\w+)\)`
		full      = `n\.Repair == "" \|\| n\.Repair == v1alpha1\.Repair(\w+)`
		utc       = `cmp\.Or\(w\.TimeZone, "(\w+)"\)`
	)
	return []claim{
		{kubelets, `pods on a node\. The default is ([0-9]+)\.`, rendered, `Kubelet\.MaxPods, 0\), ([0-9]+)\)`},
		{kubelets, `The default is cpu (\w+),`, resources, `"cpu": "(\w+)"`},
		{kubelets, `The default is cpu \w+, memory (\w+),`, resources, `"memory": "(\w+)"`},
		{kubelets, `memory \w+, ephemeral-storage (\w+)\.`, resources, `"ephemeral-storage": "(\w+)"`},
		{kubelets, `nodefs\.available ([0-9]+%),`, settings, `nodefsAvailable: "(\w+%)"`},
		{kubelets, `imagefs\.available ([0-9]+%)\.`, settings, `"imagefs.available": "(\w+%)"`},
		{"docs/settings.md", `nodefs\.available: ([0-9]+%)`, settings, `nodefsAvailable: "(\w+%)"`},
		{"docs/settings.md", `imagefs\.available: ([0-9]+%)`, settings, `"imagefs.available": "(\w+%)"`},
		{kubelets, `bytes from 1Mi to 10Gi\. The default is (\w+)\.`, rendered, `ContainerLogMaxSize, "(\w+)"`},
		{kubelets, `all processors\. The default is ([A-Z_]+)\.`, settings, `defaultPriorityClass = "(\w+)"`},
		{"docs/settings.md", "process, `([A-Z_]+)` by default", settings, `defaultPriorityClass = "(\w+)"`},

		{kubelets, `container uses\. The default is ([0-9]+);`, upstream, `ImageGCHighThresholdPercent = ptr\.To\[int32\]\(([0-9]+)\)`},
		{kubelets, `removing images\. The default is ([0-9]+)\.`, upstream, `ImageGCLowThresholdPercent = ptr\.To\[int32\]\(([0-9]+)\)`},
		{kubelets, `imageGCHighThresholdPercent(?:\)? :| \(default) ([0-9]+)`, upstream, `ImageGCHighThresholdPercent = ptr\.To\[int32\]\(([0-9]+)\)`},
		{kubelets, `imageGCLowThresholdPercent(?:\)? :| \(default) ([0-9]+)`, upstream, `ImageGCLowThresholdPercent = ptr\.To\[int32\]\(([0-9]+)\)`},
		{kubelets, `the current one\. The default is ([0-9]+)\.`, upstream, `ContainerLogMaxFiles = ptr\.To\[int32\]\(([0-9]+)\)`},
		{kubelets, `cpu above 0\. The default is (\w+):`, upstream, `obj\.CPUManagerPolicy = "(\w+)"`},
		{kubelets, `memory in bytes\. The default is (\w+)\.`, upstream, `obj\.MemoryManagerPolicy = \w+\.(\w+)MemoryManagerPolicy`},
		{kubelets, `do not support it\. The default is (\w+)\.`, eachKubernetes + "pkg/kubelet/cm/topologymanager/policy_none.go", `PolicyNone string = "(\w+)"`},
		{kubelets, `a pod together\. The default is (\w+)\.`, eachKubernetes + "pkg/kubelet/cm/topologymanager/scope.go", `[Cc]ontainerTopologyScope = "(\w+)"`},
		{kubelets, `Kubelets before ([0-9.]+) ignore it`, features, defaultSince("WindowsGracefulNodeShutdown")},
		{"docs/settings.md", `Kubelets of ([0-9.]+) or later act on it`, features, defaultSince("WindowsGracefulNodeShutdown")},
		{"docs/tenancy.md", `Before Kubernetes ([0-9.]+), a pod with`, features, defaultSince("KubeletEnsureSecretPulledImages")},
		{"docs/tenancy.md", `The kubelet of ([0-9.]+) or later asks`, features, defaultSince("KubeletEnsureSecretPulledImages")},

		{"docs/settings.md", "The default is `(\\S+:[0-9.]+)`", "internal/shared/desired/sandbox_image.go", `DefaultSandboxImage = "(\S+)"`},
		{"docs/acceptance.md", `read nodes\. The default is (\w+)\.`, "cmd/wmco-acceptance/main.go", `"network", acceptance\.(\w+),`},
		{services, `The default is (\S+:[0-9.]+)\.\n`, "internal/shared/desired/sandbox_image.go", `DefaultSandboxImage = "(\S+)"`},
		{services, `The default is (\w+)\. A service restarts`, "internal/shared/desired/service_settings_test.go", `"": test\.normal, v1alpha1\.Log(\w+): test\.normal`},
		{"docs/settings.md", `compressedLayers: Discard # ([A-Za-z]+) is the default`, services, defaultOf("CompressedLayers")},
		{"docs/storage.md", "`([A-Za-z]+)` \\(default\\)", config, defaultOf("CSIProxy")},
		{config, `([A-Za-z]+), the default, repairs`, repair, full},
		{"docs/network.md", "`([A-Za-z]+)` is the default, `Report`", repair, full},
		{config, `([A-Za-z]+), the default, enforces them`, policies, mode},
		{"docs/network-policies.md", "`([A-Za-z]+)` \\(default\\)", policies, mode},
		{"docs/windows-updates.md", "`([A-Za-z]+)`, the default", "api/v1alpha1/windowsconfig_updates.go", `kubebuilder:default=(Notify)`},
		{config, `nothing with ([A-Za-z]+), the default`, policies, fallback},
		{"docs/network-policies.md", "nothing \\(`([A-Za-z]+)`, the default\\)", policies, fallback},
		{"api/v1alpha1/windowsconfig_rollout.go", `Europe/Berlin\. The default is (\w+)\.`, window, utc},
		{"docs/fleet.md", "The default of `timeZone` is (\\w+)\\.", window, utc},
	}
}

// features is the file with the kubelet's feature gates.
const features = newestKubernetes + "pkg/features/kube_features.go"

// defaultSince returns an expression that matches the first minor version in which a feature gate is on by default.
func defaultSince(gate string) string {
	return gate + `: {(?:\s+{[^}]+Default: false[^}]+},)*\s+{Version: version\.MustParse\("([0-9.]+)"\), Default: true`
}

// commentsOfFields returns the files of the API without line breaks in comments. Those of fields become docs/objects.md and what kubectl
// explain prints.
func commentsOfFields(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("api/v1alpha1/windows*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("api/v1alpha1 has %d files (%v)", len(files), err)
	}
	texts := map[string]string{}
	for _, name := range files {
		texts[filepath.ToSlash(name)] = regexp.MustCompile(`\n\t*// ([^+])`).ReplaceAllString(read(t, name), " $1")
	}
	return texts
}

// TestEveryDefaultHasSource expects each default in a document, or in the comment of a field, to be compared with the code by a claim.
func TestEveryDefaultHasSource(t *testing.T) {
	inRoot(t)
	all, texts := claims(), commentsOfFields(t)
	for _, document := range userDocuments(t) {
		texts[document] = read(t, document)
	}
	for name, text := range texts {
		for _, at := range defaultsIn(text) {
			isCompared := func(c claim) bool {
				return slices.ContainsFunc(c.occurrences(name, text), func(found [2]int) bool { return at[0] <= found[0] && found[1] <= at[1] })
			}
			if sentence := text[at[0]:at[1]]; !slices.ContainsFunc(all, isCompared) && !strings.Contains(sentence, "`vEthernet*`") { // of VMware Tools
				t.Errorf("%s: nothing compares the default in %q: add a line to claimsOfSettings", name, strings.TrimSpace(sentence))
			}
		}
	}
}

// defaultsIn returns the positions of sentences that name a default value. "The default is the ..." names none.
func defaultsIn(text string) (sentences [][2]int) {
	named := regexp.MustCompile("\\b[Tt]he\\s+default\\s+(?:of\\s+\\S+\\s+)?is\\s+(\\S+)|, the\\s+default(?: \\||[:,).])|\\(default\\)|(?:`|# \\w+) is\\s+the\\s+default")
	for _, at := range named.FindAllStringSubmatchIndex(text, -1) {
		if at[2] >= 0 && slices.Contains([]string{"the", "nothing."}, text[at[2]:at[3]]) {
			continue
		}
		start, end := max(0, strings.LastIndex(text[:at[0]], ". ")), len(text)
		if length := regexp.MustCompile(`\.\s`).FindStringIndex(text[at[0]:]); length != nil {
			end = at[0] + length[1]
		}
		sentences = append(sentences, [2]int{start, end})
	}
	return sentences
}

// TestDefaultsAreExtracted tests which sentences name a default.
func TestDefaultsAreExtracted(t *testing.T) {
	for text, want := range map[string]int{
		"It is a number. The default is 250. Each counts.":                     1,
		"Set it. The default is none: all share. Or the default is a/b:3.9.\n": 2,
		"Full, the default, repairs all. Off does nothing.":                    1,
		"The default of `zone` is\nUTC.":                                       1,
		"| `Auto` (default) | all |\n| `None`, the default | none |":           2,
		"mode: Off # On is the default":                                        1,
		"`Full` is the default, `Off` is not.":                                 1,
		"The default is the interface with the route.":                         0,
		"Pods get the rest. The default is nothing.":                           0,
		"By default, there is no limit. On these, the default image is big.":   0,
	} {
		if got := defaultsIn(text); len(got) != want {
			t.Errorf("%q has %d defaults, want %d", text, len(got), want)
		}
	}
}
