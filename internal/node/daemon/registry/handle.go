package registry

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
	"github.com/windows-machine-config/wmco/internal/shared/registryclient"
)

// maxManifest limits a manifest, as in containers/image; maxMessage limits a message for people.
const (
	maxManifest = 4 << 20
	maxMessage  = 2000
)

// errDamaged means that a registry sent content that does not match its digest.
var errDamaged = errors.New(mirrors.Damaged)

// handle tries the registries in order, and forwards the first one's content.
func (s *requestHandler) handle(ctx context.Context, w http.ResponseWriter, q request) {
	key := failedRequest{q.name, q.part, q.reference}
	value, _ := s.failed.Get(key)
	if message, ok := value.(string); ok && !q.head {
		s.failed.Remove(key)
		refuse(w, http.StatusForbidden, "DENIED", message)
		return
	}
	route, kind := s.route(q)
	if len(route.Attempts) == 0 {
		s.request(Denied)
		s.deny(w, key, q, mirrors.NoRegistryAllowed+" "+q.name.String()+": "+strings.Join(route.Skipped, "; "))
		return
	}
	end := time.Now().Add(s.limits.timeout)
	var causes []error
	for i, a := range route.Attempts {
		until := time.Until(end) / time.Duration(len(route.Attempts)-i)
		err := s.attempt(ctx, w, q, kind, route.Attempts[i:], until)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			return
		}
		causes = append(causes, fmt.Errorf("%s: %w", a.Name, err))
		s.log.Info("Querying a registry failed", "image", q.name.String(), "reference", q.reference, "registry", a.Name.String(), "error", err.Error())
	}
	s.fail(w, key, q, route, causes)
}

// fail responds that no registry has the content: with status 404 if all were queried and lack it, otherwise with a message.
func (s *requestHandler) fail(w http.ResponseWriter, key failedRequest, q request, route mirrors.Route, causes []error) {
	isMissing := true
	for i, err := range causes {
		isMissing = isMissing && errors.Is(err, registryclient.ErrNotFound)
		if route.Attempts[i].IsSource && errors.Is(err, registryclient.ErrUnauthorized) && q.user == "" { // the pod may have credentials
			w.Header().Set("WWW-Authenticate", `Basic realm="`+q.name.Registry+`"`)
			refuse(w, http.StatusUnauthorized, "UNAUTHORIZED", err.Error())
			return
		}
	}
	message := errors.Join(causes...).Error()
	if isMissing {
		message = mirrors.NotFound + ": " + message
	}
	for _, reason := range route.Skipped {
		message += "\nnot queried: " + reason
	}
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "") + "…"
	}
	if isMissing && len(route.Skipped) == 0 {
		s.request(NotFound)
		refuse(w, http.StatusNotFound, "NAME_UNKNOWN", message)
		return
	}
	s.request(Failed)
	s.deny(w, key, q, message)
}

// deny responds with status 403, for which containerd shows the message.
func (s *requestHandler) deny(w http.ResponseWriter, key failedRequest, q request, message string) {
	if q.head {
		s.failed.Add(key, message, failureLasts)
	}
	refuse(w, http.StatusForbidden, "DENIED", message)
}

// attempt queries the first of the registries, which must respond within a time. After a part of a layer was forwarded, the others may
// provide the rest.
func (s *requestHandler) attempt(ctx context.Context, w http.ResponseWriter, q request, kind mirrors.Kind, attempts []mirrors.Attempt, within time.Duration) error {
	o := origin{kind, attempts[0].Name}
	if q.part == blobs && !q.head {
		return s.stream(ctx, w, q, o, attempts, within)
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if q.head {
		ok, err := s.head(ctx, w, q, o, attempts[0])
		if ok || err != nil {
			return err
		}
	}
	return s.forwardWhole(ctx, w, q, o, attempts[0])
}

// head responds with headers only; ok is false if the registry's headers are insufficient.
func (s *requestHandler) head(ctx context.Context, w http.ResponseWriter, q request, o origin, a mirrors.Attempt) (ok bool, err error) {
	response, err := s.client.Do(ctx, q.upstream(http.MethodHead, 0), a)
	if errors.Is(err, registryclient.ErrNoHead) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	digest := response.Header.Get("Docker-Content-Digest")
	switch {
	case digest == "" && q.isDigest:
		digest = q.reference
	case q.isDigest && digest != q.reference:
		return false, errDamaged
	}
	if response.ContentLength < 0 || !registryclient.IsDigest(digest) || q.part == manifests && response.Header.Get("Content-Type") == "" {
		return false, nil
	}
	if q.part == manifests {
		s.memory.remember(content{q.name, digest}, o, maxDepth)
	}
	h := w.Header()
	h.Set("Content-Type", response.Header.Get("Content-Type"))
	h.Set("Content-Length", strconv.FormatInt(response.ContentLength, 10))
	h.Set("Docker-Content-Digest", digest)
	w.WriteHeader(http.StatusOK)
	s.request(Served)
	return true, nil
}

// forwardWhole reads a manifest, verifies it, and forwards it.
func (s *requestHandler) forwardWhole(ctx context.Context, w http.ResponseWriter, q request, o origin, a mirrors.Attempt) error {
	response, err := s.client.Do(ctx, q.upstream(http.MethodGet, 0), a)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxManifest+1))
	switch {
	case err != nil:
		return fmt.Errorf("reading the response: %w", err)
	case len(text) > maxManifest:
		return fmt.Errorf("the manifest is larger than %d bytes", maxManifest)
	}
	h := w.Header()
	if q.part != referrers {
		digest := digestOf(q.reference, text)
		if reported := response.Header.Get("Docker-Content-Digest"); q.isDigest && digest != q.reference || !q.isDigest && reported != "" && reported != digestOf(reported, text) {
			s.memory.damaged.Add(damage{content{q.name, q.reference}, a.Name}, nil, remembered)
			return errDamaged
		}
		s.memory.children.Add(content{q.name, digest}, childrenOf(text), remembered)
		s.memory.remember(content{q.name, digest}, o, maxDepth)
		h.Set("Docker-Content-Digest", digest)
	} else if filters := response.Header.Get("OCI-Filters-Applied"); filters != "" {
		h.Set("OCI-Filters-Applied", filters)
	}
	h.Set("Content-Type", response.Header.Get("Content-Type"))
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(http.StatusOK)
	s.request(Served)
	if !q.head {
		_, _ = w.Write(text)
	}
	return nil
}

// hasher returns the hash of a digest's algorithm; SHA-256 by default.
func hasher(digest string) (algorithm string, h hash.Hash) {
	if strings.HasPrefix(digest, "sha512:") {
		return "sha512:", sha512.New()
	}
	return "sha256:", sha256.New()
}

// digestOf returns the digest of a text, with the algorithm of another digest.
func digestOf(like string, text []byte) string {
	algorithm, h := hasher(like)
	h.Write(text)
	return algorithm + hex.EncodeToString(h.Sum(nil))
}

// maxChildren limits what is remembered of one manifest.
const maxChildren = 1024

// childrenOf returns the digests in a manifest or index (OCI image specification).
func childrenOf(text []byte) []string {
	type descriptor struct {
		Digest string `json:"digest"`
	}
	var m struct {
		Config    descriptor   `json:"config"`
		Layers    []descriptor `json:"layers"`
		Manifests []descriptor `json:"manifests"`
	}
	if json.Unmarshal(text, &m) != nil {
		return nil
	}
	var all []string
	for _, d := range append(append(m.Layers, m.Manifests...), m.Config) {
		if registryclient.IsDigest(d.Digest) && len(all) < maxChildren {
			all = append(all, d.Digest)
		}
	}
	return all
}

// upstream returns the request to a registry for the bytes starting at from.
func (q request) upstream(method string, from int64) registryclient.Request {
	return registryclient.Request{
		Method: method, Part: q.part, Reference: q.reference, Query: q.query, Accept: q.accept, From: from, To: q.end, User: q.user, Password: q.password,
	}
}
