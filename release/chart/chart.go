package chart

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"text/template"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/internal/operator/kubeversions"
	"github.com/windows-machine-config/wmco/release/manifests"
)

// Name is the name of the chart.
const Name = "windows-machine-config-operator"

// Source describes the input of a chart.
type Source struct {
	// Deploy is the folder deploy/.
	Deploy string
	// Version is the semantic version of chart and operator, without v.
	Version string
	// Image is the operator's image, as repository:tag, repository@sha256:<digest> or both; that of deploy/ if empty.
	Image string
}

//go:embed files
var ours embed.FS

// Files returns the files of the chart by their paths in it. They depend only on the source.
func Files(s Source) (map[string][]byte, error) {
	if _, err := version.ParseSemantic(s.Version); err != nil || strings.HasPrefix(s.Version, "v") {
		return nil, fmt.Errorf("building the chart:  version %q must be a semantic version without v, as in 1.2.0", s.Version)
	}
	parts, err := load(s.Deploy)
	if err != nil {
		return nil, err
	}
	defaults, err := defaultsOf(parts[0].objects, s)
	if err != nil {
		return nil, fmt.Errorf("building the chart:  %w", err)
	}
	files, err := manifestTemplates(parts)
	if err != nil {
		return nil, err
	}
	err = fs.WalkDir(ours, "files", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := ours.ReadFile(name)
		if err != nil {
			return err
		}
		to := strings.TrimPrefix(name, "files/")
		if filled, ok := strings.CutSuffix(to, ".tmpl"); ok {
			to = filled
			if content, err = fill(path.Base(name), content, defaults); err != nil {
				return err
			}
		}
		if _, exists := files[to]; exists {
			return fmt.Errorf("building the chart:  %s is generated from deploy/ but also exists in release/chart", to)
		}
		files[to] = content
		return nil
	})
	return files, err
}

// part is a set of manifests with a render condition; empty means always. Two parts may have the same objects.
type part struct {
	name, when string
	objects    []*unstructured.Unstructured
}

// load reads the parts of folder deploy. The first one is the operator itself.
func load(deploy string) ([]part, error) {
	parts := []part{
		{}, {name: "monitoring-", when: "and .Values.monitoring.objects (not .Values.openshift.enabled)"},
		{name: "monitoring-openshift-", when: "and .Values.monitoring.objects .Values.openshift.enabled"},
		{name: "cluster-api-", when: "and .Values.clusterAPI.namespace (not .Values.openshift.enabled)"},
	}
	folders := [][]manifests.Part{
		{manifests.Base, manifests.OpenShift, manifests.ClusterAPI}, {manifests.Monitoring}, {manifests.MonitoringOpenShift}, {manifests.ClusterAPIElsewhere},
	}
	for i := range parts {
		var err error
		if parts[i].objects, err = manifests.Load(deploy, folders[i]...); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// defaults are the values of deploy/ that the chart's files refer to.
type defaults struct {
	Name, Version, Kubernetes     string
	Repository, Tag, Digest       string
	Resources, Selector, Tolerate string // YAML
}

func defaultsOf(objects []*unstructured.Unstructured, s Source) (defaults, error) {
	deployment, found, err := manifests.Find[appsv1.Deployment](objects, "Deployment", operator)
	if err != nil {
		return defaults{}, err
	}
	if !found {
		return defaults{}, errors.New("deploy/ has no Deployment " + operator)
	}
	d := defaults{Name: Name, Version: s.Version, Kubernetes: kubeversions.MinKubernetes}
	pod := deployment.Spec.Template.Spec
	image := s.Image
	if image == "" {
		image = pod.Containers[0].Image
	}
	if d.Repository, d.Tag, d.Digest, err = splitImage(image); err != nil {
		return d, err
	}
	for to, value := range map[*string]any{&d.Resources: pod.Containers[0].Resources, &d.Selector: pod.NodeSelector, &d.Tolerate: pod.Tolerations} {
		text, err := yaml.Marshal(value)
		if err != nil {
			return d, err
		}
		*to = string(text)
	}
	return d, nil
}

// splitImage splits an image reference: the repository is followed by a tag, a digest or both. Without them, the tag is latest, as in
// docker.
func splitImage(image string) (repository, tag, digest string, err error) {
	parts := regexp.MustCompile(`^([a-z0-9][a-z0-9._:/-]*?)(?::([A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?:@(sha256:[0-9a-f]{64}))?$`).FindStringSubmatch(image)
	if parts == nil {
		return "", "", "", fmt.Errorf("image %q must be repository:tag, repository@sha256:<64 digits> or repository:tag@sha256:<64 digits>", image)
	}
	if parts[2] == "" && parts[3] == "" {
		parts[2] = "latest"
	}
	return parts[1], parts[2], parts[3], nil
}

func fill(name string, text []byte, d defaults) ([]byte, error) {
	indent := func(n int, text string) string {
		var lines []string
		for line := range strings.Lines(text) {
			lines = append(lines, strings.Repeat(" ", n)+line)
		}
		return strings.TrimSuffix(strings.Join(lines, ""), "\n")
	}
	t, err := template.New(name).Delims("<<", ">>").Funcs(template.FuncMap{"indent": indent}).Option("missingkey=error").Parse(string(text))
	if err != nil {
		return nil, err
	}
	var filled bytes.Buffer
	if err := t.Execute(&filled, d); err != nil {
		return nil, err
	}
	return filled.Bytes(), nil
}
