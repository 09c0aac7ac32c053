package cli

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/operator/kubeversions"
	"github.com/windows-machine-config/wmco/internal/operator/windowsimage"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/payload"
)

const maxChart = 16 << 20

const notInImage = "the image lists the programs that change on each node, but not their settings: changed settings can make an upgrade more disruptive, and are known once the operator is installed"

// checkFlags validates the flags and takes the image from the chart.
func (p *planOptions) checkFlags() (err error) {
	disruptions := []v1alpha1.PlanDisruption{v1alpha1.DisruptionNone, v1alpha1.DisruptionRestart, v1alpha1.DisruptionDrain, v1alpha1.DisruptionReboot}
	switch {
	case !slices.Contains(disruptions, v1alpha1.PlanDisruption(p.disruption)):
		return session.Failf(session.CodeUsage, "--disruption %s is not supported: use one of %s", p.disruption, disruptions)
	case !p.upgrade && p.image+p.chart != "":
		return session.Failf(session.CodeUsage, "--image and --chart require --upgrade")
	case p.image != "" && p.chart != "":
		return session.Failf(session.CodeUsage, "--image and --chart are mutually exclusive")
	case p.chart != "":
		if p.image, err = imageOfChart(p.chart); err != nil {
			return session.Failf(session.CodeUsage, "%w", err)
		}
	}
	return nil
}

// nextRelease returns the release that an operator image contains, from its label.
func nextRelease(ctx context.Context, s *session.Session, image string, insecure bool) (kubeversions.Release, error) {
	reader, err := imageReader([]string{image}, insecure, []string{windowsimage.RegistryOf(image)})
	if err != nil {
		return kubeversions.Release{}, session.Failf(session.CodeUsage, "%w", err)
	}
	defer reader.Close()
	labels, err := reader.Labels(ctx, image)
	if err != nil {
		return kubeversions.Release{}, session.Failf(session.CodeFailed, "reading image %s: %s", image, printable(err.Error()))
	}
	text := labels[api.ImageLabelPayload]
	if text == "" {
		return kubeversions.Release{}, session.Failf(session.CodeUsage, "image %s has no label %s: it is not an image of the operator, or is older than this program", image, api.ImageLabelPayload)
	}
	m, err := payload.Parse([]byte(text))
	if err != nil {
		return kubeversions.Release{}, session.Failf(session.CodeFailed, "label %s of image %s: %s", api.ImageLabelPayload, image, printable(err.Error()))
	}
	config, err := s.Config()
	if err != nil {
		return kubeversions.Release{}, err
	}
	server, err := serverVersion(config)
	if err != nil {
		return kubeversions.Release{}, err
	}
	next, err := kubeversions.Choose(kubeversions.Of(cmp.Or(labels["org.opencontainers.image.version"], "unknown"), m), []string{server})
	if err != nil {
		return next, session.Failf(session.CodeFindings, "nodes would not be upgraded: %w", err)
	}
	return next, nil
}

// withContent returns a node's settings with the content of a release. Everything else stays, even what a new operator may change.
func withContent(previous desired.Node, next kubeversions.Release) desired.Node {
	old, existing := desired.VersionFolder(previous.Digest), map[string]bool{}
	for _, f := range previous.Payload {
		existing[f.Path] = true
	}
	var groups []string // a node has all files of a group or none: some groups are for certain networks and clouds only
	for _, f := range next.Content.Files {
		if existing[desired.WindowsPath(f.Path)] {
			groups = append(groups, f.Group)
		}
	}
	current := previous
	current.Version, current.Digest, current.Payload = next.Version, next.Content.Digest, desired.PayloadFiles(next.Content.Select(groups...))
	current.Services = slices.Clone(previous.Services)
	for i := range current.Services {
		current.Services[i].Command = strings.ReplaceAll(current.Services[i].Command, old, desired.VersionFolder(current.Digest))
	}
	return current
}

// imageOfChart returns the image in values.yaml of a packaged Helm chart.
func imageOfChart(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	unpacked, err := gzip.NewReader(f)
	if err != nil {
		return "", fmt.Errorf("%s is not a packaged chart (helm package, helm pull): %w", file, err)
	}
	archive := tar.NewReader(io.LimitReader(unpacked, maxChart))
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return "", fmt.Errorf("chart %s has no values.yaml", file)
		}
		if err != nil {
			return "", fmt.Errorf("reading chart %s: %w", file, err)
		}
		if folder, name := path.Split(header.Name); name != "values.yaml" || strings.Count(folder, "/") != 1 { // subcharts have their own
			continue
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			return "", fmt.Errorf("reading chart %s: %w", file, err)
		}
		var values struct {
			Image struct{ Repository, Tag, Digest string }
		}
		if err := yaml.Unmarshal(text, &values); err != nil {
			return "", fmt.Errorf("values.yaml of chart %s: %w", file, err)
		}
		switch i := values.Image; {
		case i.Repository == "":
			return "", fmt.Errorf("values.yaml of chart %s has no image.repository", file)
		case i.Digest != "":
			return i.Repository + "@" + i.Digest, nil
		default:
			return i.Repository + ":" + cmp.Or(i.Tag, "latest"), nil
		}
	}
}
