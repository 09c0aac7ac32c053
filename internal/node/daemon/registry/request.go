package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
	"github.com/windows-machine-config/wmco/internal/shared/registryclient"
)

// Parts of the distribution API that are served.
const (
	manifests = "manifests"
	blobs     = "blobs"
	referrers = "referrers"
)

// request is a request of containerd.
type request struct {
	name mirrors.Name
	// part is one of the above; reference is a tag or a digest, of which only manifests may have a tag.
	part, reference string
	isDigest        bool
	// query is forwarded to registries; start and end are the requested bytes, end -1 means up to the last one.
	query      url.Values
	isRange    bool
	start, end int64
	head       bool
	accept     []string
	// user and password are containerd's credentials for the image, for its source.
	user, password string
}

// errNoRequest means that a request is not one of those served.
var errNoRequest = errors.New("only manifests, blobs and referrers are served, with ?ns=<registry>")

// parseRequest reads a request.
func parseRequest(r *http.Request) (request, error) {
	path, ok := strings.CutPrefix(r.URL.Path, "/v2/")
	if !ok || len(r.URL.RawQuery) > 4096 {
		return request{}, errNoRequest
	}
	q := request{head: r.Method == http.MethodHead, accept: r.Header.Values("Accept"), query: url.Values{}, end: -1}
	i := strings.LastIndexByte(path, '/')
	j := strings.LastIndexByte(path[:max(i, 0)], '/')
	if j < 0 {
		return request{}, errNoRequest
	}
	q.part, q.reference = path[j+1:i], path[i+1:]
	var err error
	if q.name, err = mirrors.ParseName(r.URL.Query().Get("ns"), path[:j]); err != nil {
		return request{}, err
	}
	q.isDigest = registryclient.IsDigest(q.reference)
	switch {
	case q.part == manifests && (q.isDigest || registryclient.IsTag(q.reference)):
	case q.part == blobs && q.isDigest:
		q.isRange, q.start, q.end = parseRange(r.Header.Get("Range"))
	case q.part == referrers && q.isDigest:
		for _, artifact := range r.URL.Query()["artifactType"] {
			q.query.Add("artifactType", artifact)
		}
	default:
		return request{}, errNoRequest
	}
	q.user, q.password, _ = r.BasicAuth()
	return q, nil
}

// parseRange parses a range with a first byte, which requests the rest of a layer. Other ranges are ignored, as HTTP allows.
func parseRange(header string) (ok bool, start, end int64) {
	from, to, found := strings.Cut(strings.TrimPrefix(header, "bytes="), "-")
	start, err := strconv.ParseInt(from, 10, 64)
	if !found || err != nil || start < 0 || !strings.HasPrefix(header, "bytes=") {
		return false, 0, -1
	}
	if to == "" {
		return true, start, -1
	}
	if end, err = strconv.ParseInt(to, 10, 64); err != nil || end < start {
		return false, 0, -1
	}
	return true, start, end
}

// kind is the kind of reference that determines which registries to query.
func (q request) kind() mirrors.Kind {
	if q.isDigest {
		return mirrors.Digests
	}
	return mirrors.Tags
}

// ServeHTTP answers containerd.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	state, _ := s.current()
	w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
	if state == nil || !state.isFromContainerd(r) {
		s.counts[Unauthorized].Add(1)
		refuse(w, http.StatusUnauthorized, "UNAUTHORIZED", "this registry serves only containerd on this host")
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		refuse(w, http.StatusMethodNotAllowed, "UNSUPPORTED", "this registry is read-only")
		return
	}
	if r.URL.Path == "/v2/" || r.URL.Path == "/v2" {
		return
	}
	q, err := parseRequest(r)
	if err != nil {
		refuse(w, http.StatusNotFound, "NAME_INVALID", err.Error())
		return
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	default:
		refuse(w, http.StatusTooManyRequests, "TOOMANYREQUESTS", "too many concurrent requests")
		return
	}
	state.handle(r.Context(), w, q)
}

// isFromContainerd reports whether the request's client certificate is that of containerd. TLS verifies that the client has its key.
func (s *requestHandler) isFromContainerd(r *http.Request) bool {
	return r.TLS != nil && len(r.TLS.PeerCertificates) > 0 && bytes.Equal(r.TLS.PeerCertificates[0].Raw, s.containerd)
}

// refuse answers with an error in the format of the distribution API, which containerd includes in its own message.
func refuse(w http.ResponseWriter, status int, code, message string) {
	type apiError struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	text, err := json.Marshal(map[string][]apiError{"errors": {{code, message}}})
	if err != nil { // cannot happen with strings
		text = nil
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = w.Write(text)
}
