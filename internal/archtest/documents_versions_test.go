package archtest

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/operator/kubeversions"
	"github.com/windows-machine-config/wmco/internal/operator/lifecycle"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
	"github.com/windows-machine-config/wmco/payload/build"
	"github.com/windows-machine-config/wmco/payload/payloadtest"
)

// pinned is a third-party program, as documents name it, with its versions in the repository.
type pinned struct {
	name     string // a regular expression
	versions []string
}

// mention is a version in a document: its position in the text and its program.
type mention struct {
	start, end int
	version    string
	program    int // -1 if the text before it names none
}

// TestDocumentedVersionsExist expects each version in a document to be one that the repository pins or supports, or to have a
// reason in documents_history_test.go.
func TestDocumentedVersionsExist(t *testing.T) {
	inRoot(t)
	programs, documents := pinnedPrograms(t), writtenDocuments(t)
	mustBeChecked(t, documents, histories())
	for _, document := range documents {
		text := read(t, document)
		flat := strings.ReplaceAll(text, "\n", " ")
		kept := ranges(t, histories(), document, flat)
		found := versionsIn(flat, programs)
		for i, m := range found {
			fault := m.fault(programs)
			if i > 0 && fault == "" {
				fault = rangeFault(flat, found[i-1], m)
			}
			if fault != "" && !slices.ContainsFunc(kept, m.isIn) {
				t.Errorf("%s:%d: %s: %q", document, 1+strings.Count(text[:m.start], "\n"), fault, strings.TrimSpace(flat[max(0, m.start-50):m.end]))
			}
		}
	}
	for name, text := range commentsOfFields(t) {
		found := versionsIn(text, programs)
		for i, m := range found {
			fault := ""
			if m.program == 0 {
				fault = m.fault(programs)
			}
			if i > 0 && fault == "" {
				fault = rangeFault(text, found[i-1], m)
			}
			if fault != "" {
				t.Errorf("%s: %s: %q", name, fault, text[max(0, m.start-50):m.end])
			}
		}
	}
}

// rangeFault describes what is wrong with two consecutive versions: "Kubernetes 1.33 to 1.37", with the oldest minor version of the payload,
// means all of them.
func rangeFault(text string, from, to mention) string {
	all := build.Minors()
	oldest, newest := all[0], all[len(all)-1]
	if strings.TrimSpace(text[from.end:to.start]) != "to" || from.program != 0 || from.version != oldest || to.version == newest {
		return ""
	}
	return fmt.Sprintf("the minor versions of the payload are %s to %s: name all, or list the text in documents_history_test.go", oldest, newest)
}

// fault describes what is wrong with a version; empty if nothing is.
func (m mention) fault(programs []pinned) string {
	if m.program < 0 {
		return fmt.Sprintf("no known program is named before %s: name one, remove the version, or list it in documents_history_test.go", m.version)
	}
	p := programs[m.program]
	if slices.ContainsFunc(p.versions, func(got string) bool { return got == m.version || strings.HasPrefix(got, m.version+".") }) {
		return ""
	}
	return fmt.Sprintf("%s is not one of the versions of %s in the repository: %q", m.version, p.name, p.versions)
}

func (m mention) isIn(r [2]int) bool { return r[0] <= m.start && m.end <= r[1] }

// versionsIn returns the versions in a text without line breaks. Addresses, and numbers with a unit, are not versions.
func versionsIn(text string, programs []pinned) (found []mention) {
	number := regexp.MustCompile(`\bv?[0-9]+(?:\.[0-9]+)+\b`)
	unit := regexp.MustCompile(`^(?:,? (?:and|to|or) [0-9.]+)? ?(?:s|ms|min|[KMGkm]i?B|seconds|minutes|times|%)(?:\W|$)`)
	list := regexp.MustCompile(`^(?:[\s,(*` + "`" + `]|and|or|to)+$`)
	// Text between a name and its version, as in **containerd** is of version `v2.3.7`.
	const between = `(?:[^\w.]+(?:and|before|cluster|from|is|its|newer|of|older|or|than|the|to|up|versions?))*[^\w.]*$`
	partOfAddress := regexp.MustCompile(`^\.[A-Z]`) // such as 10.99.N.1
	var names []*regexp.Regexp
	for _, p := range programs {
		names = append(names, regexp.MustCompile(`(?:\b|_)(?:`+p.name+`)(?:['’]s)?(?:\.exe)?`+between))
	}
	for _, at := range number.FindAllStringIndex(text, -1) {
		m := mention{start: at[0], end: at[1], version: strings.TrimPrefix(text[at[0]:at[1]], "v"), program: -1}
		parts := strings.Split(m.version, ".")
		isWindows := len(parts) > 2 && len(parts[2]) == 5
		isAddress := len(parts) > 3 || strings.HasSuffix(text[:m.start], ".") || partOfAddress.MatchString(text[m.end:])
		if !isWindows && (isAddress || unit.MatchString(text[m.end:])) {
			continue
		}
		before := text[max(0, m.start-80):m.start]
		if isWindows {
			m.version, before = strings.Join(parts[:3], "."), "Windows " // without the revision
		}
		m.program = slices.IndexFunc(names, func(name *regexp.Regexp) bool { return name.MatchString(before) })
		if last := len(found) - 1; m.program < 0 && last >= 0 && list.MatchString(text[found[last].end:m.start]) {
			m.program = found[last].program
		}
		found = append(found, m)
	}
	return found
}

// pinnedPrograms returns the programs whose versions documents name, with their versions in the repository.
func pinnedPrograms(t *testing.T) []pinned {
	t.Helper()
	one := func(version string) []string { return []string{strings.TrimPrefix(version, "v")} }
	program := func(name string) []string { return one(payloadtest.Version(t, ".", name)) }
	module := func(folder, pkg string) []string { return one(payloadtest.Required(t, folder, pkg)) }
	var kubernetes, openShift, windows, prometheus []string
	for _, minor := range build.Minors() {
		kubernetes = append(append(kubernetes, servedMinors(t)...), program("kubelet-"+minor)...)
		openShift = append(openShift, lifecycle.OpenShiftOf(minor))
	}
	for _, r := range windowsbuild.Releases() {
		windows = append(windows, fmt.Sprintf("10.0.%d", r.Build))
	}
	operators, err := os.ReadDir("lab/cluster/prometheusoperator")
	must(t, err)
	for _, d := range operators {
		if d.IsDir() {
			prometheus = append(prometheus, module(path.Join("lab/cluster/prometheusoperator", d.Name()), "github.com/prometheus-operator/prometheus-operator")...)
		}
	}
	return []pinned{
		{`[Kk]ubernetes|[Kk]ubelets?|kube-proxy|API servers?|[Cc]luster`, kubernetes},
		{`OpenShift`, openShift},
		{`Windows`, windows},
		{`kube-log-runner`, program("kube-log-runner")},
		{`containerd`, program("containerd")},
		{`containerd-shim-runhcs-v1|hcsshim`, program("containerd-shim-runhcs-v1")},
		{`CNI plugins|win-overlay|win-bridge|host-local`, program("win-overlay")},
		{`Flannel|flanneld`, program("flanneld")},
		{`windows_exporter`, program("windows_exporter")},
		{`ecr-credential-provider`, program("ecr-credential-provider")},
		{`csi-proxy`, program("csi-proxy")},
		{`cloud-node-manager`, program("azure-cloud-node-manager")},
		{`Go|golang`, one(goVersion(t))},
		{`controller-runtime`, module("lab", "sigs.k8s.io/controller-runtime")},
		{`etcd`, module("lab", "go.etcd.io/etcd/server/v3")},
		{`Helm`, append(module("hack/tools/helm", "helm.sh/helm/v4"), module("hack/tools/helm3", "helm.sh/helm/v3")...)},
		{`Operator Lifecycle Manager|OLM`, module("lab/suites/olm/programs", "github.com/operator-framework/operator-lifecycle-manager")},
		{`opm`, module("lab/suites/olm/programs", "github.com/operator-framework/operator-registry")},
		{`Prometheus operators?|OpenShift [0-9.]+ \||others \|`, prometheus},
		{`cosign`, module("release/verify", "github.com/sigstore/cosign/v3")},
		{`krew`, module("release/verify", "sigs.k8s.io/krew")},
		{`syft`, module("release/verify", "github.com/anchore/syft")},
		{`golangci-lint`, module("hack/tools", "github.com/golangci/golangci-lint/v2")},
		{`actions/checkout`, one(regexp.MustCompile(`actions/checkout@\w+ # (\S+)`).FindStringSubmatch(read(t, ".github/workflows/release.yaml"))[1])},
		{`wmco(?:-bundle|-catalog)?|VERSION|operator\.v[0-9.]+ *Windows Machine Config Operator`, one(tagOfImage(t))},
		{`pause`, one(strings.TrimPrefix(path.Base(desired.DefaultSandboxImage), "pause:"))},
		{`TLS`, []string{"1.2", "1.3"}}, // no others are in use
	}
}

// tagOfImage returns the version of the operator in examples, which is that of the image that deploy/ installs.
func tagOfImage(t *testing.T) string {
	t.Helper()
	tag := regexp.MustCompile(`newTag: (\S+)`).FindStringSubmatch(read(t, "deploy/kustomization.yaml"))
	if tag == nil {
		t.Fatal("deploy/kustomization.yaml has no tag")
	}
	return tag[1]
}

// TestWrongVersionsAreDetected tests what TestDocumentedVersionsExist rejects and accepts.
func TestWrongVersionsAreDetected(t *testing.T) {
	inRoot(t)
	programs := []pinned{{"[Kk]ubernetes|kubelets?", []string{"1.36", "1.37", "1.37.2"}}, {"containerd", []string{"2.3.7"}}, {"Windows", []string{"10.0.20348"}}}
	first, last := build.Minors()[0], build.Minors()[len(build.Minors())-1]
	for text, isWrong := range map[string]bool{
		first + " to " + last: false, first + "  to " + last: false, first + " to 1.36": true, "1.34 to 1.36": false, first + ", 1.36": false,
	} {
		text = "Kubernetes " + text
		found := versionsIn(text, programs)
		if got := rangeFault(text, found[0], found[1]); (got != "") != isWrong {
			t.Errorf("%q: the fault is %q", text, got)
		}
	}
	for text, faults := range map[string]int{
		"nodes have containerd 2.3.7 and kubelet v1.37.2":      0,
		"nodes have containerd 2.3":                            0,
		"nodes have containerd 2.3.6":                          1,
		"nodes have containerd 2.4.2":                          1,
		"**containerd** is of version `v2.4.2`":                1,
		"| containerd/containerd.exe | v2.3.6 | 36,818,944 |":  1,
		"kubelets of 1.36, 1.37 and 1.39":                      1,
		"Kubernetes 1.35 to 1.38":                              2,
		"nodes have 2.3.7":                                     1,
		"another program has version 2.3.7":                    1,
		"build 10.0.20348.2402, and then 10.0.20349":           1,
		"at 10.99.7.2, 10.99.N.250 or 10.244.0.0/14, in 1.5 s": 0,
		"takes 0.4 to 2.6 seconds, with 12.5 MB":               0,
	} {
		found := 0
		for _, m := range versionsIn(text, programs) {
			if m.fault(programs) != "" {
				found++
			}
		}
		if found != faults {
			t.Errorf("%q has %d wrong versions, want %d", text, found, faults)
		}
	}
}

// goVersion returns the version of Go that everything is built with.
func goVersion(t *testing.T) string {
	t.Helper()
	toolchain := regexp.MustCompile(`(?m)^toolchain go(\S+)$`).FindStringSubmatch(read(t, "go.mod"))
	if toolchain == nil {
		t.Fatal("go.mod has no toolchain")
	}
	return toolchain[1]
}

// servedMinors returns the minor versions of Kubernetes for whose API servers the payload has a kubelet.
func servedMinors(t *testing.T) (minors []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?m)^\| (1\.\d+) \|`).FindAllStringSubmatch(read(t, "docs/support.md"), -1) {
		minors = append(minors, m[1])
	}
	if len(minors) == 0 || minors[0] != kubeversions.MinKubernetes {
		t.Fatalf("docs/support.md lists API servers %v; want %s first", minors, kubeversions.MinKubernetes)
	}
	return minors
}

// writtenDocuments returns the documents whose text is hand-written and describes the present.
func writtenDocuments(t *testing.T) []string {
	t.Helper()
	generated := []string{
		"docs/objects.md", "docs/support.md", "docs/metrics.md", "docs/readiness.md", "docs/counterparts.md", // written by programs
		"docs/performance.md", // dates each figure and names its method
	}
	return slices.DeleteFunc(checkedDocuments(t), func(name string) bool {
		return slices.Contains(generated, name) || strings.HasPrefix(name, "docs/reference/")
	})
}
