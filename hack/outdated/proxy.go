package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/httpclient"
	"github.com/windows-machine-config/wmco/payload/build"
)

// proxy is a module proxy (https://go.dev/ref/mod#goproxy-protocol).
type proxy struct {
	url    string
	client *http.Client
}

// newProxy returns the first proxy in a value of GOPROXY. It returns an error if "off" or "direct" comes before any proxy: requests must not
// reveal module names to any other proxy.
func newProxy(value string) (proxy, error) {
	for url := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == ',' || r == '|' }) {
		if strings.HasPrefix(url, "https://") || strings.HasPrefix(url, "http://") {
			return proxy{strings.TrimSuffix(url, "/"), httpclient.New(httpclient.Transport(nil), 20*time.Second)}, nil
		}
		if url == "off" || url == "direct" {
			break // the Go command stops here as well
		}
	}
	return proxy{}, fmt.Errorf("GOPROXY is %q, which does not begin with a module proxy: run this command with one, as in GOPROXY=https://proxy.golang.org", value)
}

var errNoAnswer = errors.New("the module proxy does not respond")

// released returns when a version was released, and whether the proxy has it. A proxy that serves only a part answers 403 for the
// rest.
func (p proxy) released(ctx context.Context, module, version string) (at time.Time, ok bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/"+escape(module)+"/@v/"+version+".info", nil)
	if err != nil {
		return time.Time{}, false, err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return time.Time{}, false, fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	defer func() { _ = response.Body.Close() }()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusGone, http.StatusForbidden:
		return time.Time{}, false, nil
	default:
		return time.Time{}, false, fmt.Errorf("%w: status %s", errNoAnswer, response.Status)
	}
	var info struct{ Time time.Time }
	if err := json.NewDecoder(io.LimitReader(response.Body, 1<<16)).Decode(&info); err != nil {
		return time.Time{}, false, fmt.Errorf("reading %s of %s: %w", version, module, err)
	}
	return info.Time, true, nil
}

// escape encodes capital letters as the proxy requires: "github.com/Microsoft" as "github.com/!microsoft".
func escape(module string) string {
	return regexp.MustCompile(`[A-Z]`).ReplaceAllStringFunc(module, func(letter string) string { return "!" + strings.ToLower(letter) })
}

// version is a release; pre-releases are excluded.
type version struct{ major, minor, patch int }

func (v version) String() string { return fmt.Sprintf("v%d.%d.%d", v.major, v.minor, v.patch) }

func parse(s string) (version, error) {
	var v version
	if _, err := fmt.Sscanf(s, "v%d.%d.%d", &v.major, &v.minor, &v.patch); err != nil || v.String() != s {
		return version{}, fmt.Errorf("version %q is not a release, such as v1.2.3", s)
	}
	return v, nil
}

// A search ends after maxMissing patches that do not exist, because projects skip numbers and proxies lack versions. minors is how
// many later minor versions are checked.
const (
	maxMissing = 6
	minors     = 2
)

// compare requests newer versions of all programs concurrently.
func compare(ctx context.Context, p proxy, programs []program) []row {
	rows := make([]row, len(programs))
	var all sync.WaitGroup
	for i, program := range programs {
		all.Go(func() {
			rows[i] = row{program: program}
			rows[i].err = p.query(ctx, &rows[i])
		})
	}
	all.Wait()
	return rows
}

func (p proxy) query(ctx context.Context, r *row) error {
	v, err := parse(r.pin.Version)
	if err != nil {
		return err
	}
	if r.patch, r.patchSince, err = p.newest(ctx, r.pin, v); err != nil || !r.newest {
		return err
	}
	for i := range minors {
		minor, _, err := p.newest(ctx, r.pin, version{v.major, v.minor + 1 + i, -1})
		if err != nil {
			return err
		}
		if minor != "" {
			r.minor = minor
		}
	}
	return nil
}

// newest returns the newest patch after a version, and when the first patch after it was released.
func (p proxy) newest(ctx context.Context, pin build.Pin, after version) (newest string, since time.Time, err error) {
	for v, missing := after, 0; missing < maxMissing; {
		v.patch++
		releasedAt, ok, err := p.released(ctx, pin.Module, v.String())
		switch {
		case err != nil:
			return "", time.Time{}, err
		case !ok:
			missing++
			continue
		case newest == "":
			since = releasedAt
		}
		newest, missing = v.String(), 0
	}
	return newest, since, nil
}
