//go:build linux

package olm

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// maxBlob is the largest manifest or layer that is read, in bytes.
const maxBlob = 64 << 20

// registryTimeout limits a request to the registry.
const registryTimeout = 30 * time.Second

// Images are in one registry, host:port, whichever registry their names have, as with a mirror. It is spoken to without TLS.
type Images struct{ Registry string }

// Digest is the digest of an image.
func (i Images) Digest(ctx context.Context, image string) (digest.Digest, error) {
	repository, reference, err := parse(image)
	if err != nil {
		return "", err
	}
	manifest, err := i.get(ctx, repository, "manifests/"+reference)
	return digest.FromBytes(manifest), err
}

// parse divides the name of an image into repository and tag or digest, without the registry.
func parse(image string) (repository, reference string, err error) {
	_, path, found := strings.Cut(image, "/")
	repository, reference, hasDigest := strings.Cut(path, "@")
	if !hasDigest {
		var hasTag bool
		repository, reference, hasTag = strings.Cut(path, ":")
		found = found && hasTag
	}
	if !found {
		return "", "", fmt.Errorf("image %s has no registry, or neither tag nor digest", image)
	}
	return repository, reference, nil
}

// get reads a manifest or a blob.
func (i Images) get(ctx context.Context, repository, what string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, registryTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+i.Registry+"/v2/"+repository+"/"+what, nil)
	if err != nil {
		return nil, err
	}
	request.Header["Accept"] = []string{v1.MediaTypeImageIndex, v1.MediaTypeImageManifest}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(io.LimitReader(answer.Body, maxBlob))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, content)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s of %s: %w", what, repository, err)
	}
	if _, wanted, found := strings.Cut(what, "/"); found && strings.HasPrefix(wanted, "sha256:") && digest.FromBytes(content).String() != wanted {
		return nil, fmt.Errorf("reading %s of %s: its content has another digest", what, repository)
	}
	return content, nil
}

// read returns the files and the labels of an image, for the architecture of this machine.
func (i Images) read(ctx context.Context, image string) (files map[string][]byte, labels map[string]string, err error) {
	repository, reference, err := parse(image)
	if err != nil {
		return nil, nil, err
	}
	var (
		index    v1.Index
		manifest v1.Manifest
		config   v1.Image
	)
	if err := i.decode(ctx, repository, "manifests/"+reference, &index); err != nil {
		return nil, nil, err
	}
	at := slices.IndexFunc(index.Manifests, func(d v1.Descriptor) bool { return d.Platform != nil && d.Platform.Architecture == runtime.GOARCH })
	if at < 0 {
		return nil, nil, fmt.Errorf("image %s is not for %s", image, runtime.GOARCH)
	}
	if err := i.decode(ctx, repository, "manifests/"+index.Manifests[at].Digest.String(), &manifest); err != nil {
		return nil, nil, err
	}
	if err := i.decode(ctx, repository, "blobs/"+manifest.Config.Digest.String(), &config); err != nil {
		return nil, nil, err
	}
	files = map[string][]byte{}
	for _, layer := range manifest.Layers {
		content, err := i.get(ctx, repository, "blobs/"+layer.Digest.String())
		if err == nil {
			err = unpack(content, files)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("unpacking image %s: %w", image, err)
		}
	}
	return files, config.Config.Labels, nil
}

func (i Images) decode(ctx context.Context, repository, what string, into any) error {
	text, err := i.get(ctx, repository, what)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("reading %s of %s: %w", what, repository, err)
	}
	return nil
}

// unpack adds the files of a layer.
func unpack(layer []byte, files map[string][]byte) error {
	plain, err := gzip.NewReader(bytes.NewReader(layer))
	if err != nil {
		return err
	}
	for archive := tar.NewReader(io.LimitReader(plain, maxBlob)); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if files[header.Name], err = io.ReadAll(archive); err != nil {
			return err
		}
	}
}
