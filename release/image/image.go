package image

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/payload"
	"github.com/windows-machine-config/wmco/release/signature"
)

// Source describes the input of an image.
type Source struct {
	// Payload is the folder written by make payload.
	Payload string
	// Operators are the paths of the operator's executables, by their Linux architecture: amd64, arm64.
	Operators map[string]string
	// Version is that of the release, as in 1.2.0; Revision is the commit that it is built from.
	Version, Revision string
	// Created is the time of that commit, and the only time in the image.
	Created time.Time
}

// Repository is the URL of the source code.
const Repository = "https://github.com/windows-machine-config/wmco"

// Provenance returns the provenance of the image for a builder.
func (s Source) Provenance(builder string) signature.Provenance {
	return signature.Provenance{Source: Repository, Version: s.Version, Revision: s.Revision, Builder: builder}
}

// userID is the user and group that the operator runs as; /etc/passwd in the image names it.
const userID = "65532"

// Build builds the index. It first verifies every file of the payload; the error names a file that does not match
// payload.json. Layers read the source's files again whenever they are written, so the files must not change until then.
func Build(s Source) (v1.ImageIndex, error) {
	if len(s.Operators) == 0 {
		return nil, errors.New("building the image: no executable of the operator")
	}
	p, err := payload.Open(s.Payload)
	if err == nil {
		err = p.Verify()
	}
	if err != nil {
		return nil, fmt.Errorf("building the image: %w", err)
	}
	common, err := commonLayers(s, p)
	if err != nil {
		return nil, fmt.Errorf("building the image: %w", err)
	}
	index, err := indexOf(slices.Sorted(maps.Keys(s.Operators)), s.annotations(), func(platform v1.Platform) (v1.Image, error) { return s.image(platform, p.Manifest, common) })
	if err != nil {
		return nil, fmt.Errorf("building the image: %w", err)
	}
	return index, nil
}

// indexOf returns an index with an image for each architecture.
func indexOf(architectures []string, annotations map[string]string, build func(v1.Platform) (v1.Image, error)) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, architecture := range architectures {
		platform := v1.Platform{OS: "linux", Architecture: architecture}
		built, err := build(platform)
		if err != nil {
			return nil, fmt.Errorf("for %s: %w", platform, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: untyped{built}, Descriptor: v1.Descriptor{Platform: &platform}})
	}
	annotated, isIndex := mutate.Annotations(index, annotations).(v1.ImageIndex)
	if !isIndex {
		return nil, errors.New("the index cannot be annotated")
	}
	return annotated, nil
}

// untyped is an image whose descriptor in an index has no artifactType. Tools older than this field, such as skopeo 1.9, drop it when
// they write the index again, which changes the digest of the index.
type untyped struct{ v1.Image }

// ArtifactType overrides the artifact type that package partial reads.
func (untyped) ArtifactType() (string, error) { return "", nil }

// image returns the image for a platform.
func (s Source) image(platform v1.Platform, m payload.Manifest, common []v1.Layer) (v1.Image, error) {
	operator, err := s.operatorLayer(platform)
	if err != nil {
		return nil, err
	}
	list, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	labels := s.labels()
	labels[api.ImageLabelPayload] = string(list)
	return s.platformImage(platform, v1.Config{
		User: userID + ":" + userID, Entrypoint: []string{"/" + operatorName}, WorkingDir: "/", Labels: labels,
		Env: []string{"PATH=/usr/bin"},
	}, append(slices.Clone(common), operator)...)
}

// platformImage returns an image with layers for a platform.
func (s Source) platformImage(platform v1.Platform, runs v1.Config, all ...v1.Layer) (v1.Image, error) {
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	var layers []mutate.Addendum
	for _, l := range all {
		layers = append(layers, mutate.Addendum{Layer: l, History: v1.History{Created: v1.Time{Time: s.Created}, CreatedBy: "make image"}})
	}
	withLayers, err := mutate.Append(base, layers...)
	if err != nil {
		return nil, err
	}
	config, err := withLayers.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = platform.OS, platform.Architecture, v1.Time{Time: s.Created}
	config.Config = runs
	return mutate.ConfigFile(withLayers, config)
}

// annotations returns those of the OCI image specification (annotations.md).
func (s Source) annotations() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":         "windows-machine-config-operator",
		"org.opencontainers.image.description":   "Makes Windows Server hosts nodes of OKD, OpenShift and Kubernetes clusters, and keeps them so.",
		"org.opencontainers.image.version":       s.Version,
		"org.opencontainers.image.revision":      cmp.Or(s.Revision, "unknown"),
		"org.opencontainers.image.created":       s.Created.UTC().Format(time.RFC3339),
		"org.opencontainers.image.source":        Repository,
		"org.opencontainers.image.documentation": Repository + "/blob/main/README.md",
		"org.opencontainers.image.licenses":      "Apache-2.0",
	}
}

// labels returns the annotations, and the labels that the consoles of OKD and OpenShift show for images.
func (s Source) labels() map[string]string {
	labels := s.annotations()
	maps.Copy(labels, map[string]string{
		"io.k8s.display-name": "Windows Machine Config Operator",
		"io.k8s.description":  labels["org.opencontainers.image.description"],
		"io.openshift.tags":   "windows,operator",
	})
	return labels
}

// PullBytes returns the number of bytes to pull for the largest image of an index.
func PullBytes(index v1.ImageIndex) (most int64, err error) {
	manifest, err := index.IndexManifest()
	if err != nil {
		return 0, err
	}
	for _, d := range manifest.Manifests {
		img, err := index.Image(d.Digest)
		if err != nil {
			return 0, err
		}
		m, err := img.Manifest()
		if err != nil {
			return 0, err
		}
		sum := m.Config.Size
		for _, l := range m.Layers {
			sum += l.Size
		}
		most = max(most, sum)
	}
	return most, nil
}
