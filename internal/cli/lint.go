package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/cli/terminal"
	"github.com/windows-machine-config/wmco/internal/observe/podrules"
)

type lintResult struct {
	Findings []lintFinding `json:"findings"`
	// Checked is the number of checked pods and pod templates, Skipped that of skipped ones for Linux.
	Checked int `json:"checked"`
	Skipped int `json:"skipped"`
}

// lintFinding is a problem of an object in a file. Its field path begins at the object.
type lintFinding struct {
	File   string `json:"file"`
	Object string `json:"object"`
	podrules.Finding
}

type lintOptions struct {
	output
	files, registries          []string
	all, recursive             bool
	images, insecureRegistries bool
}

func lint(s *session.Session) *cobra.Command {
	var o lintOptions
	c := &cobra.Command{
		Use:   "lint -f FILE",
		Short: "Check manifests for problems of pods on Windows nodes",
		Long: "Check Pods and workloads with pod templates for fields that Windows does not support, and for settings that keep pods off Windows\n" +
			"nodes. Report NetworkPolicies that select such pods if the files contain a WindowsConfig that does not enforce them.\n\n" +
			"The command reads files and does not contact a cluster. Pods that are not for Windows are skipped. The exit code is 3 if there is an\n" +
			"error: a pod that is rejected or does not run.\n\n" +
			"With --images, query registries for the builds of Windows that images are for, and report images that do not run on the nodes that\n" +
			"their pods select. The command uses the credentials of docker login or podman login, unless a credential helper stores them, and the\n" +
			"variables HTTPS_PROXY and NO_PROXY. It spends at most 10 seconds on an image.\n\n" +
			"The author of the manifests chooses the registries. Registries on this machine, or at addresses of a cloud's own services, are\n" +
			"therefore not queried unless --registry names them, and redirects are followed for image content only. Behind a proxy, the proxy\n" +
			"decides where it connects. In a pipeline for untrusted changes, do not use --images, or limit the network.",
		Example: "  kubectl windows lint -f deployment.yaml\n  helm template shop | kubectl windows lint -f -\n  kubectl windows lint -f manifests/ -R --all\n  kubectl windows lint -f deployment.yaml --images",
		Args:    rejectArguments,
		RunE:    func(c *cobra.Command, _ []string) error { return o.run(c.Context(), s) },
	}
	o.add(c, formatJSON, formatYAML)
	c.Flags().StringArrayVarP(&o.files, "filename", "f", nil, "File or folder with manifests, or - for standard input; can be repeated.")
	c.Flags().BoolVarP(&o.recursive, "recursive", "R", false, "Also read subfolders.")
	c.Flags().BoolVar(&o.all, "all", false, "Also check pods that are not for Windows.")
	c.Flags().BoolVar(&o.images, "images", false, "Query registries for the builds of Windows that images are for.")
	c.Flags().StringArrayVar(&o.registries, "registry", nil, "Registry that --images queries even if it is on this machine, such as localhost:5000; can be repeated.")
	c.Flags().BoolVar(&o.insecureRegistries, "insecure-registries", false, insecureUsage)
	return c
}

// run reads the files, queries registries if requested, and prints the findings.
func (o *lintOptions) run(ctx context.Context, s *session.Session) error {
	if len(o.files) == 0 {
		return session.Failf(session.CodeUsage, "lint requires -f: a file, a folder, or - for standard input")
	}
	l := linter{all: o.all}
	for _, name := range o.files {
		if err := l.path(name, s.In, o.recursive); err != nil {
			return err
		}
	}
	var builds map[string]podrules.ImageBuilds
	if o.images {
		var err error
		if builds, err = readImages(ctx, s, l.pods, o.insecureRegistries, o.registries); err != nil {
			return err
		}
	}
	found, err := l.check(builds)
	if err != nil {
		return err
	}
	return printLint(s, &o.output, found)
}

// maxManifest is the size of the largest file that is read, in bytes.
const maxManifest = 16 << 20

type linter struct {
	all  bool
	pods []lintPod
	// policies are the NetworkPolicies.
	policies []lintPolicy
	// ignored is true if a WindowsConfig says that nodes do not enforce them.
	ignored bool
	skipped int
}

// lintPod is the pod spec of an object in a file; path is its position in the object.
type lintPod struct {
	file, object, path string
	spec               map[string]any
	// namespace and labels are those of the pod.
	namespace string
	labels    labels.Set
}

func (l *linter) path(name string, in io.Reader, recursive bool) error {
	if name == "-" {
		return l.file("standard input", in)
	}
	info, err := os.Stat(name)
	if err != nil {
		return session.Failf(session.CodeUsage, "%w", err)
	}
	if !info.IsDir() {
		return l.open(name)
	}
	return filepath.WalkDir(name, func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return session.Failf(session.CodeUsage, "%w", err)
		case entry.IsDir() && path != name && !recursive:
			return filepath.SkipDir
		case entry.Type().IsRegular() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)):
			return l.open(path)
		}
		return nil
	})
}

func (l *linter) open(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return session.Failf(session.CodeUsage, "%w", err)
	}
	defer f.Close()
	return l.file(name, f)
}

func (l *linter) file(name string, in io.Reader) error {
	limited := &io.LimitedReader{R: in, N: maxManifest + 1}
	documents := yaml.NewYAMLOrJSONDecoder(limited, 4096)
	for n := 1; ; n++ {
		var object map[string]any
		err := documents.Decode(&object)
		switch {
		case limited.N == 0:
			return session.Failf(session.CodeUsage, "%s is larger than %d MB", name, maxManifest>>20)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return session.Failf(session.CodeUsage, "%s: object %d: %w", name, n, err)
		}
		l.object(name, object)
	}
}

func podSpecs() map[string]string {
	const template = "spec.template.spec"
	return map[string]string{
		"Pod": "spec", "PodTemplate": "template.spec", "Deployment": template, "StatefulSet": template, "DaemonSet": template, "ReplicaSet": template,
		"ReplicationController": template, "Job": template, "CronJob": "spec.jobTemplate.spec.template.spec",
	}
}

func (l *linter) object(file string, object map[string]any) {
	items, isList := object["items"].([]any)
	if kind, _ := object["kind"].(string); !isList || !strings.HasSuffix(kind, "List") {
		l.template(file, object)
		return
	}
	for _, item := range items {
		inner, _ := item.(map[string]any)
		l.template(file, inner)
	}
}

// template records the pod spec of an object. It ignores objects that have none.
func (l *linter) template(file string, object map[string]any) {
	kind, _ := object["kind"].(string)
	namespace := (&unstructured.Unstructured{Object: object}).GetNamespace()
	switch kind {
	case "NetworkPolicy":
		l.policies = append(l.policies, lintPolicy{file, nameOf(kind, object), namespace, object})
	case "WindowsConfig":
		mode, _, _ := unstructured.NestedString(object, "spec", "network", "policies") // otherwise they are enforced
		provider, _, _ := unstructured.NestedString(object, "spec", "network", "provider")
		isOff := mode == string(v1alpha1.PoliciesOff) || mode == string(v1alpha1.PoliciesReport)
		l.ignored = l.ignored || isOff && provider != string(v1alpha1.NetworkCustom)
	}
	path := podSpecs()[kind]
	if path == "" {
		return
	}
	spec, outer := object, object
	for part := range strings.SplitSeq(path, ".") {
		outer = spec
		spec, _ = spec[part].(map[string]any)
	}
	if !l.all && !podrules.ForWindows(spec) {
		l.skipped++
		return
	}
	l.pods = append(l.pods, lintPod{file, nameOf(kind, object), path, spec, namespace, labelsOf(outer)})
}

func (l *linter) check(builds map[string]podrules.ImageBuilds) (lintResult, error) {
	r := lintResult{Findings: []lintFinding{}, Checked: len(l.pods), Skipped: l.skipped}
	for _, p := range l.pods {
		found, err := podrules.Check(p.spec)
		if err != nil {
			return r, session.Failf(session.CodeUsage, "%s: %s: %w", p.file, p.object, err)
		}
		for _, f := range slices.Concat(found, podrules.CheckImages(p.spec, builds)) {
			f.Field, f.Message = p.path+"."+f.Field, printable(f.Message) // it may contain an image name
			r.Findings = append(r.Findings, lintFinding{p.file, p.object, f})
		}
	}
	for _, p := range l.policies {
		found, err := p.check(l.pods)
		if err != nil {
			return r, session.Failf(session.CodeUsage, "%s: %s: %w", p.file, p.object, err)
		}
		if l.ignored {
			r.Findings = append(r.Findings, found...)
		}
	}
	return r, nil
}

// nameOf returns an object's kind and name, as in "Deployment shop/web".
func nameOf(kind string, object map[string]any) string {
	u := unstructured.Unstructured{Object: object}
	name := cmp.Or(u.GetName(), u.GetGenerateName())
	if namespace := u.GetNamespace(); namespace != "" {
		name = namespace + "/" + name
	}
	return printable(kind + " " + name)
}

func printLint(s *session.Session, o *output, r lintResult) error {
	failed := 0
	for _, f := range r.Findings {
		if f.Severity == podrules.Error {
			failed++
		}
	}
	err := o.show(s, r, func(p *terminal.Printer) {
		last := ""
		for _, f := range r.Findings {
			if location := f.File + ": " + f.Object; location != last {
				p.Text(0, terminal.Bold, location)
				last = location
			}
			p.Text(2, styleOf(string(f.Severity)), mark(string(f.Severity))+" "+f.Field+": "+f.Message)
			p.Text(6, terminal.Plain, "→ "+f.Remedy)
		}
		p.Line(fmt.Sprintf("Checked %s for Windows: %s, %s. Skipped %s not for Windows.",
			count(r.Checked, "pod"), count(failed, "error"), count(len(r.Findings)-failed, "warning"), count(r.Skipped, "pod")))
	})
	if err == nil && failed > 0 {
		err = session.Failf(session.CodeFindings, "%s in the manifests", count(failed, "error"))
	}
	return err
}
