// Package windowsimage queries registries for the Windows builds that an image supports. Users choose the image and often its registry, so both are
// treated as hostile: responses are limited in size, number and time. A component that queries on behalf of users also uses a Guard, which rejects
// some addresses.
package windowsimage

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
	"github.com/windows-machine-config/wmco/internal/shared/registryclient"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

// Limits of reading one image.
const (
	readTimeout = 10 * time.Second
	maxAttempts = 4 // mirrors and the source
	maxManifest = 4 << 20
	maxConfig   = 1 << 20
	maxEntries  = 256
)

// Media types of indexes: OCI's, and Docker's manifest list.
const (
	indexType = "application/vnd.oci.image.index.v1+json"
	listType  = "application/vnd.docker.distribution.manifest.list.v2+json"
)

// Reader queries registries.
type Reader struct {
	router  *mirrors.Router
	client  *registryclient.Client
	memory  *Memory
	timeout time.Duration
}

// New returns a reader that uses the client, the mirrors of the table, and the memory as cache.
func New(c *registryclient.Client, table mirrors.Table, memory *Memory) *Reader {
	return &Reader{router: mirrors.NewRouter(table), client: c, memory: memory, timeout: readTimeout}
}

// Close closes idle connections.
func (r *Reader) Close() { r.client.CloseIdleConnections() }

// Read queries one mirror after another until one has the image: its manifest and, unless that is an index, its configuration.
func (r *Reader) Read(ctx context.Context, image string) (current windowsbuild.Image, err error) {
	err = r.query(ctx, image, func(ctx context.Context, a mirrors.Attempt, at string) error {
		if registryclient.IsDigest(at) {
			current, err = r.memory.get(ctx, at, func() (windowsbuild.Image, error) {
				text, err := r.get(ctx, a, "manifests", at, maxManifest)
				if err != nil {
					return windowsbuild.Image{}, err
				}
				return r.builds(ctx, a, text)
			})
			return err
		}
		text, err := r.get(ctx, a, "manifests", at, maxManifest)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(text)
		current, err = r.memory.get(ctx, "sha256:"+hex.EncodeToString(sum[:]), func() (windowsbuild.Image, error) { return r.builds(ctx, a, text) })
		return err
	})
	return current, err
}

// builds returns the builds of an image from its manifest, or from its configuration.
func (r *Reader) builds(ctx context.Context, a mirrors.Attempt, manifest []byte) (windowsbuild.Image, error) {
	current, config, err := readManifest(manifest)
	if err != nil || config == "" {
		return current, err
	}
	text, err := r.get(ctx, a, "blobs", config, maxConfig)
	if err != nil {
		return windowsbuild.Image{}, err
	}
	return readConfig(text)
}

// Labels returns the labels of an image for Linux on amd64.
func (r *Reader) Labels(ctx context.Context, image string) (labels map[string]string, err error) {
	err = r.query(ctx, image, func(ctx context.Context, a mirrors.Attempt, at string) error {
		text, err := r.get(ctx, a, "manifests", at, maxManifest)
		if err != nil {
			return err
		}
		manifest, config, err := readLinuxManifest(text)
		if err == nil && config == "" {
			if text, err = r.get(ctx, a, "manifests", manifest, maxManifest); err == nil {
				_, config, err = readLinuxManifest(text)
			}
		}
		if err == nil && config == "" { // an index within an index
			err = errNoManifest
		}
		if err != nil {
			return err
		}
		if text, err = r.get(ctx, a, "blobs", config, maxConfig); err == nil {
			labels, err = readLabels(text)
		}
		return err
	})
	return labels, err
}

// query queries one mirror after another until one answers, each with a share of the time. at is the tag or the digest.
func (r *Reader) query(ctx context.Context, image string, attempt func(ctx context.Context, a mirrors.Attempt, at string) error) error {
	ref, err := parse(image)
	if err != nil {
		return err
	}
	route := r.router.Route(ref.name, ref.kind)
	if len(route.Attempts) == 0 {
		return fmt.Errorf("no registry is allowed for %s", ref.name)
	}
	attempts := route.Attempts[:min(len(route.Attempts), maxAttempts)]
	end := time.Now().Add(r.timeout)
	var causes []error
	for i, a := range attempts {
		attemptCtx, cancel := context.WithTimeout(ctx, time.Until(end)/time.Duration(len(attempts)-i))
		err := attempt(attemptCtx, a, ref.at)
		cancel()
		if err == nil {
			return nil
		}
		causes = append(causes, fmt.Errorf("querying %s: %w", a.Name, err))
	}
	return errors.Join(causes...)
}

// get reads a manifest or a blob, and verifies it if its digest is known.
func (r *Reader) get(ctx context.Context, a mirrors.Attempt, part, at string, limit int64) ([]byte, error) {
	q := registryclient.Request{Method: http.MethodGet, Part: part, Reference: at, To: -1}
	if part == "manifests" {
		q.Accept = []string{
			indexType, listType,
			"application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json",
		}
	}
	answer, err := r.client.Do(ctx, q, a)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.ContentLength > limit {
		return nil, errTooLong
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the response: %w", err)
	case int64(len(text)) > limit:
		return nil, errTooLong
	case registryclient.IsDigest(at) && !isOf(at, text):
		return nil, errors.New("the content does not match its digest")
	}
	return text, nil
}

var errTooLong = errors.New("the response is too large")

func isOf(digest string, text []byte) bool {
	if sum, ok := strings.CutPrefix(digest, "sha512:"); ok {
		have := sha512.Sum512(text)
		return sum == hex.EncodeToString(have[:])
	}
	have := sha256.Sum256(text)
	return digest == "sha256:"+hex.EncodeToString(have[:])
}
