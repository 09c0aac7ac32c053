package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/observe/generations"
	"github.com/windows-machine-config/wmco/internal/operator/windowsimage"
	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
	"github.com/windows-machine-config/wmco/internal/shared/registryclient"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

const (
	// maxPullSecrets is the number of pull secrets of a workload that are read.
	maxPullSecrets = 10
	// maxSilence is after how many unanswered requests in a row a registry is no longer queried.
	maxSilence = 3
	// progressInterval is the time between lines about the progress of queries, and before the first one.
	progressInterval = 2 * time.Second
)

// readImages queries the registries for the images of workloads, each image once for all workloads with the same credentials.
func (o *generationsOptions) readImages(
	ctx context.Context, s *session.Session, r *clusterReader, workloads []*generations.Workload,
) (generations.Readings, error) {
	own, err := registryCredentials()
	if err != nil {
		return nil, session.Failf(session.CodeUsage, "%w", err)
	}
	credentials := map[string][]byte{"": own}
	if o.usePullSecrets {
		r.setAccess(ctx, own, workloads, credentials)
	}
	var images []generations.ImageKey
	for _, w := range workloads {
		for _, image := range w.Images() {
			if key := (generations.ImageKey{Image: image, Access: w.Access}); !slices.Contains(images, key) {
				images = append(images, key)
			}
		}
	}
	q := registryQueries{
		readers: map[string]*windowsimage.Reader{}, found: generations.Readings{}, silent: map[string]int{}, stopped: map[string]error{},
	}
	if len(images) > maxImages {
		r.note("images", fmt.Errorf("the workloads name %d images; only the first %d were queried", len(images), maxImages))
		images = images[:maxImages]
	}
	var names []string
	for _, key := range images {
		names = append(names, key.Image)
	}
	table := mirrors.Table{Sources: unverified(names, false)}
	memory := windowsimage.NewMemory()
	for access, keyring := range credentials {
		q.readers[access] = imageReaderWith(keyring, table, o.registries, memory)
		defer q.readers[access].Close()
	}
	limited, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	stop := reportProgress(s.ErrOut, func() string {
		return fmt.Sprintf("Queried registries for %d of %s", q.count(), count(len(images), "image"))
	})
	defer stop()
	atOnce(images, func(key generations.ImageKey) { q.query(limited, key) })
	return q.found, ctx.Err()
}

// setAccess sets Access of workloads that have pull secrets, and adds the credentials to use with it: those of the secrets and, for other
// registries, the user's own.
func (r *clusterReader) setAccess(ctx context.Context, own []byte, workloads []*generations.Workload, credentials map[string][]byte) {
	known := map[string]string{} // by what names the secrets
	for _, w := range workloads {
		source := fmt.Sprintf("%s %q %v", w.Namespace, w.Template.ServiceAccountName, w.Template.ImagePullSecrets)
		access, found := known[source]
		if !found {
			if secrets := r.pullSecrets(ctx, w); len(secrets) > 0 {
				merged := mergeCredentials(append([][]byte{own}, secrets...)...)
				sum := sha256.Sum256(merged)
				access = hex.EncodeToString(sum[:])
				credentials[access] = merged
			}
			known[source] = access
		}
		w.Access = access
	}
}

// mergeCredentials merges files in the format of .dockerconfigjson. Later ones win. Invalid ones are left out, as the kubelet does.
func mergeCredentials(files ...[]byte) []byte {
	merged := map[string]json.RawMessage{}
	for _, text := range files {
		var file struct {
			Auths map[string]json.RawMessage `json:"auths"`
		}
		if json.Unmarshal(text, &file) == nil { // the error may quote a password
			maps.Copy(merged, file.Auths)
		}
	}
	text, err := json.Marshal(map[string]any{"auths": merged})
	if err != nil { // each value was read as JSON
		return nil
	}
	return text
}

// registryQueries queries registries, and stops querying those that do not respond or that limit requests.
type registryQueries struct {
	readers map[string]*windowsimage.Reader // by access

	mu      sync.Mutex // guards the fields below
	found   generations.Readings
	silent  map[string]int   // unanswered requests in a row, by registry
	stopped map[string]error // registries that are no longer queried, with the cause
}

func (q *registryQueries) count() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.found)
}

func (q *registryQueries) query(ctx context.Context, key generations.ImageKey) {
	registry := windowsimage.RegistryOf(key.Image)
	q.mu.Lock()
	err := q.stopped[registry]
	q.mu.Unlock()
	var current windowsbuild.Image
	if err == nil {
		if err = ctx.Err(); err == nil {
			current, err = q.readers[key.Access].Read(ctx, key.Image)
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.found[key] = readingOf(current, err)
	var failed *url.Error
	switch {
	case q.stopped[registry] != nil:
	case errors.Is(err, registryclient.ErrTooManyRequests):
		q.stopped[registry] = err
	case err != nil && (errors.As(err, &failed) || errors.Is(err, context.DeadlineExceeded)) && !errors.Is(err, windowsimage.ErrNoRegistry):
		if q.silent[registry]++; q.silent[registry] == maxSilence {
			q.stopped[registry] = fmt.Errorf("%s did not respond %d times: %w", registry, maxSilence, err)
		}
	default:
		q.silent[registry] = 0
	}
}

// readingOf returns the result of a query, with what to do about an error.
func readingOf(current windowsbuild.Image, err error) generations.Reading {
	if err == nil {
		return generations.Reading{Image: current}
	}
	reading := generations.Reading{Unread: printable(strings.TrimSuffix(firstLine(err.Error()), "."))}
	switch {
	case errors.Is(err, windowsimage.ErrNoRegistry):
		reading.Remedy = "Name it with --registry to query it anyway."
	case errors.Is(err, registryclient.ErrUnauthorized):
		reading.Unread = "its registry requires credentials, or rejects those that were used"
		reading.Remedy = "Log in with docker login or podman login, or use --use-pull-secrets."
	case errors.Is(err, registryclient.ErrNotFound):
		reading.Remedy = "Check the name of the image: new hosts cannot pull it."
	case errors.Is(err, registryclient.ErrTooManyRequests):
		reading.Remedy = "Log in to the registry, which may raise its limit, or run the command again later."
	case errors.Is(err, context.DeadlineExceeded):
		reading.Remedy = "Check whether this machine can connect to the registry, or increase --timeout."
	default:
		reading.Remedy = "Check whether this machine can connect to the registry."
	}
	return reading
}

// reportProgress writes a text periodically until the returned function is called.
func reportProgress(out io.Writer, text func() string) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				fmt.Fprintln(out, text())
			case <-done:
				return
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}
