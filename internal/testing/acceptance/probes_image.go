package acceptance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/httpclient"
)

// The media types of an image (https://github.com/opencontainers/image-spec), and Docker's older ones.
const (
	ociIndex       = "application/vnd.oci.image.index.v1+json"
	ociManifest    = "application/vnd.oci.image.manifest.v1+json"
	dockerIndex    = "application/vnd.docker.distribution.manifest.list.v2+json"
	dockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
)

// maxManifest is the maximum size of a manifest, in bytes, as in containerd.
const maxManifest = 4 << 20

// descriptor is a part of an image.
type descriptor struct {
	MediaType string   `json:"mediaType"`
	Digest    string   `json:"digest"`
	URLs      []string `json:"urls"`
	Platform  struct {
		OS           string `json:"os"`
		Version      string `json:"os.version"`
		Architecture string `json:"architecture"`
	} `json:"platform"`
}

// manifest is the manifest of an image, or the index of an image for several platforms.
type manifest struct {
	Manifests []descriptor `json:"manifests"`
	Layers    []descriptor `json:"layers"`
}

// repository is an image repository in a registry that requires no login.
type repository struct {
	client *http.Client
	url    string // https://registry/v2/name
}

func trySandboxImage(ctx context.Context, s *session) (string, error) {
	if s.facts.Build == 0 {
		return "", untriedErrorf("Windows did not report its build: %w", s.factsFailure)
	}
	registry, rest, _ := strings.Cut(desired.DefaultSandboxImage, "/")
	name, tag, _ := strings.Cut(rest, ":")
	r := repository{client: httpclient.New(httpclient.Transport(nil), 20*time.Second), url: "https://" + registry + "/v2/" + name}
	return r.try(ctx, tag, s.facts.Build)
}

// try checks that there is an image for a build of Windows.
func (r repository) try(ctx context.Context, tag string, build int) (string, error) {
	index, err := r.manifest(ctx, tag)
	if err != nil {
		return "", untriedErrorf("%w", err)
	}
	i := slices.IndexFunc(index.Manifests, func(d descriptor) bool {
		p := d.Platform
		return p.OS == "windows" && p.Architecture == "amd64" && strings.HasPrefix(p.Version, fmt.Sprintf("10.0.%d.", build))
	})
	if i < 0 {
		return "", fmt.Errorf("it has no entry for build %d", build)
	}
	image, err := r.manifest(ctx, index.Manifests[i].Digest)
	if err != nil {
		return "", untriedErrorf("%w", err)
	}
	for _, layer := range image.Layers {
		if len(layer.URLs) > 0 || strings.Contains(layer.MediaType, "foreign") || strings.Contains(layer.MediaType, "nondistributable") {
			return "", fmt.Errorf("layer %s is of type %s, which registries may not contain", layer.Digest, layer.MediaType)
		}
		if err := r.checkBlob(ctx, layer.Digest); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d layers for %s", len(image.Layers), index.Manifests[i].Platform.Version), nil
}

func (r repository) manifest(ctx context.Context, reference string) (m manifest, err error) {
	body, err := r.get(ctx, http.MethodGet, "/manifests/"+reference)
	if err != nil {
		return m, err
	}
	defer body.Close()
	if err := json.NewDecoder(io.LimitReader(body, maxManifest)).Decode(&m); err != nil {
		return m, fmt.Errorf("reading manifest %s: %w", reference, err)
	}
	return m, nil
}

func (r repository) checkBlob(ctx context.Context, digest string) error {
	body, err := r.get(ctx, http.MethodHead, "/blobs/"+digest)
	var redirect *httpclient.Redirect
	switch {
	case errors.As(err, &redirect): // another server has the content
		return nil
	case err != nil:
		return err
	}
	return body.Close()
}

func (r repository) get(ctx context.Context, method, path string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, method, r.url+path, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", strings.Join([]string{ociIndex, ociManifest, dockerIndex, dockerManifest}, ", "))
	response, err := r.client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		_ = response.Body.Close()
		return nil, fmt.Errorf("%s %s: %s", method, request.URL, response.Status)
	}
	return response.Body, nil
}
