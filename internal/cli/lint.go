package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/cli/terminal"
	"github.com/windows-machine-config/wmco/internal/podrules"
)

// lintResult is what lint found.
type lintResult struct {
	Findings []lintFinding `json:"findings"`
	// Checked is the number of pods and templates of pods that were checked, Skipped that of those for Linux.
	Checked int `json:"checked"`
	Skipped int `json:"skipped"`
}

// lintFinding is what is wrong with an object of a file. Its field is that of the object.
type lintFinding struct {
	File   string `json:"file"`
	Object string `json:"object"`
	podrules.Finding
}

// lint checks manifests.
func lint(s *session.Session) *cobra.Command {
	var o output
	var files []string
	var recursive bool
	var l linter
	c := &cobra.Command{
		Use:   "lint -f FILE",
		Short: "Checks manifests for what pods on Windows nodes cannot have",
		Long: "Checks Pods and everything with a template of pods: fields that Windows does not know, and what keeps a pod from a Windows node. It\n" +
			"reads files only, and no cluster and no images. Pods that do not ask for Windows are left out. The exit code is 3 if there is an\n" +
			"error: a pod that is refused or does not run.",
		Example: "  kubectl windows lint -f deployment.yaml\n  helm template shop | kubectl windows lint -f -\n  kubectl windows lint -f manifests/ -R --all",
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			if err := o.check(); err != nil {
				return err
			}
			if len(files) == 0 {
				return session.Failf(session.CodeUsage, "lint needs -f: a file, a folder, or - for standard input")
			}
			l.result.Findings = []lintFinding{}
			for _, name := range files {
				if err := l.path(name, s.In, recursive); err != nil {
					return err
				}
			}
			return printLint(s, &o, l.result)
		},
	}
	o.add(c, formatJSON, formatYAML)
	c.Flags().StringArrayVarP(&files, "filename", "f", nil, "File or folder with manifests; - is standard input.")
	c.Flags().BoolVarP(&recursive, "recursive", "R", false, "Read the folders in folders, too.")
	c.Flags().BoolVar(&l.all, "all", false, "Check pods that do not ask for Windows, too.")
	return c
}

// maxManifest is the size of the largest file that is read, in bytes.
const maxManifest = 16 << 20

// linter checks files.
type linter struct {
	all    bool
	result lintResult
}

// path checks a file, or the files of a folder.
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

// file checks all objects of a file.
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
		if err := l.object(name, object); err != nil {
			return session.Failf(session.CodeUsage, "%s: object %d: %w", name, n, err)
		}
	}
}

// podSpecs are where the kinds have the spec of a pod.
func podSpecs() map[string]string {
	const template = "spec.template.spec"
	return map[string]string{
		"Pod": "spec", "PodTemplate": "template.spec", "Deployment": template, "StatefulSet": template, "DaemonSet": template, "ReplicaSet": template,
		"ReplicationController": template, "Job": template, "CronJob": "spec.jobTemplate.spec.template.spec",
	}
}

func (l *linter) object(file string, object map[string]any) error {
	items, isList := object["items"].([]any)
	if kind, _ := object["kind"].(string); isList && strings.HasSuffix(kind, "List") {
		for _, item := range items {
			inner, _ := item.(map[string]any)
			if err := l.template(file, inner); err != nil {
				return err
			}
		}
		return nil
	}
	return l.template(file, object)
}

// template checks an object that has the spec of a pod; there is nothing to check in others.
func (l *linter) template(file string, object map[string]any) error {
	kind, _ := object["kind"].(string)
	path := podSpecs()[kind]
	if path == "" {
		return nil
	}
	spec := object
	for part := range strings.SplitSeq(path, ".") {
		spec, _ = spec[part].(map[string]any)
	}
	if !l.all && !podrules.ForWindows(spec) {
		l.result.Skipped++
		return nil
	}
	l.result.Checked++
	found, err := podrules.Check(spec)
	if err != nil {
		return fmt.Errorf("%s: %w", nameOf(kind, object), err)
	}
	for _, f := range found {
		f.Field, f.Message = path+"."+f.Field, printable(f.Message) // it may name an image
		l.result.Findings = append(l.result.Findings, lintFinding{file, nameOf(kind, object), f})
	}
	return nil
}

// nameOf is an object as in "Deployment shop/web".
func nameOf(kind string, object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	if name == "" {
		name, _ = metadata["generateName"].(string)
	}
	if namespace, _ := metadata["namespace"].(string); namespace != "" {
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
	if o.isData() {
		if err := o.data(s, r); err != nil {
			return err
		}
	} else {
		p := terminal.New(s.Out)
		last := ""
		for _, f := range r.Findings {
			if at := f.File + ": " + f.Object; at != last {
				p.Text(0, terminal.Bold, at)
				last = at
			}
			p.Text(2, styleOf(string(f.Severity)), mark(string(f.Severity))+" "+f.Field+": "+f.Message)
			p.Text(6, terminal.Plain, "→ "+f.Remedy)
		}
		p.Line(fmt.Sprintf("Checked %d for Windows: %d errors, %d warnings. %d for Linux were left out.", r.Checked, failed, len(r.Findings)-failed, r.Skipped))
		if p.Err() != nil {
			return p.Err()
		}
	}
	if failed > 0 {
		return session.Failf(session.CodeFindings, "%d errors in the manifests", failed)
	}
	return nil
}
