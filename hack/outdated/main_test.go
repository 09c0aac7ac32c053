package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/payload/build"
)

// serve returns the address of a proxy that serves versions with the day of their release, and rejects all others, as a proxy with a
// partial mirror does.
func serve(t *testing.T, released map[string]string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		day, found := released[strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/"), ".info")]
		switch {
		case !found:
			http.Error(w, "This module version is not available.", http.StatusForbidden)
		case day == "":
			http.Error(w, "busy", http.StatusServiceUnavailable)
		default:
			_, _ = fmt.Fprintf(w, `{"Version":"","Time":%q}`, day+"T00:00:00Z")
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func has(t *testing.T, released map[string]string) proxy {
	t.Helper()
	p, err := newProxy(serve(t, released) + ",direct")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestOutdatedExitCodes uses the pins of the repository.
func TestOutdatedExitCodes(t *testing.T) {
	nothingNewer, late := serve(t, nil), time.Date(2040, time.January, 1, 0, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		root, goproxy string
		now           time.Time
		want          int
		wantErr       string // on stderr
	}{
		"nothing to upgrade":           {"../..", nothingNewer, time.Date(2026, time.November, 28, 0, 0, 0, 0, time.UTC), 0, "looking up newer versions of "},
		"a line without fixes":         {"../..", nothingNewer, late, 3, "looking up newer versions of "},
		"another folder":               {t.TempDir(), nothingNewer, late, 1, "go.mod: no such file"},
		"no module proxy":              {"../..", "off", late, 1, `GOPROXY is "off", which does not begin with a module proxy`},
		"a proxy that may not be used": {"../..", "direct," + nothingNewer, late, 1, "which does not begin with a module proxy"},
		"no Go command":                {"../..", "", late, 1, `GOPROXY is ""`},
	} {
		t.Run(name, func(t *testing.T) {
			var stderr bytes.Buffer
			if got := run(test.root, test.goproxy, test.now, io.Discard, &stderr); got != test.want || !strings.Contains(stderr.String(), test.wantErr) {
				t.Errorf("exit code %d, want %d; stderr %q, want %q", got, test.want, &stderr, test.wantErr)
			}
		})
	}
}

func TestTableListsOutdatedVersions(t *testing.T) {
	now := time.Date(2026, time.November, 26, 12, 0, 0, 0, time.UTC)
	p := has(t, map[string]string{
		"k8s.io/kubernetes/@v/v1.36.5": "2026-09-15", "k8s.io/kubernetes/@v/v1.36.8": "2026-11-10", // the later numbers have gaps
		"k8s.io/kubernetes/@v/v1.37.0":                       "2026-08-26",
		"github.com/!microsoft/hcsshim/@v/v0.15.0":           "2026-10-15",
		"github.com/containernetworking/plugins/@v/v1.10.1":  "",
		"github.com/containerd/containerd/v2/@v/v2.3.7":      "2026-10-20",
		"github.com/containerd/containerd/v2/@v/v2.4.2":      "2026-10-13",
		"github.com/containerd/containerd/v2/@v/v2.1.99":     "2026-10-13",
		"example.com/ended/without/anything/later/@v/v1.0.0": "2026-01-01",
	})
	var out bytes.Buffer
	red := write(&out, compare(t.Context(), p, []program{
		{names: []string{"kubelet-1.36", "kube-proxy-1.36"}, pin: build.Pin{Module: "k8s.io/kubernetes", Version: "v1.36.3"}, newest: true},
		{names: []string{"kubelet-1.33"}, pin: build.Pin{Module: "k8s.io/kubernetes", Version: "v1.33.13"}},
		{names: []string{"shim"}, pin: build.Pin{Module: "github.com/Microsoft/hcsshim", Version: "v0.14.1"}, newest: true},
		{names: []string{"containerd"}, pin: build.Pin{Module: "github.com/containerd/containerd/v2", Version: "v2.3.6"}, newest: true},
		{names: []string{"win-overlay"}, pin: build.Pin{Module: "github.com/containernetworking/plugins", Version: "v1.10.0"}, newest: true},
		{names: []string{"candidate"}, pin: build.Pin{Module: "example.com/x", Version: "v1.0.0-rc.1"}, newest: true},
	}), now)
	const want = `PROGRAM OR LIBRARY             PINNED       PATCH    DAYS BEHIND  MINOR    FIXES UNTIL  STATE
kubelet-1.36, kube-proxy-1.36  v1.36.3      v1.36.8  72           v1.37.0  2027-06-28   RED: a patch has been available for 72 days, at most 60 are allowed
kubelet-1.33                   v1.33.13     -        -            -        2026-06-28   kept for OpenShift 4.20 until 2027-04-21
shim                           v0.14.1      -        -            v0.15.0  -            current
containerd                     v2.3.6       v2.3.7   37           v2.4.2   2028-04-30   current
win-overlay                    v1.10.0      -        -            -        -            not known: the module proxy does not respond: status 503 Service Unavailable
candidate                      v1.0.0-rc.1  -        -            -        -            not known: version "v1.0.0-rc.1" is not a release, such as v1.2.3
`
	if got := out.String(); got != want || red != 1 {
		t.Errorf("%d red rows in\n%s\nwant 1 in\n%s", red, got, want)
	}
}

func TestUnsupportedReleaseLineIsRed(t *testing.T) {
	p := has(t, nil)
	kubelet := []program{{names: []string{"kubelet"}, pin: build.Pin{Module: "k8s.io/kubernetes", Version: "v1.33.13"}}}
	for day, want := range map[time.Time]int{
		time.Date(2027, time.April, 21, 0, 0, 0, 0, time.UTC): 0, // OpenShift 4.20 is built on it
		time.Date(2027, time.April, 22, 0, 0, 0, 0, time.UTC): 1,
	} {
		if got := write(&bytes.Buffer{}, compare(t.Context(), p, kubelet), day); got != want {
			t.Errorf("on %s, %d rows are red, want %d", day.Format(time.DateOnly), got, want)
		}
	}
}

func TestEachPinHasRow(t *testing.T) {
	programs, err := read("../..")
	if err != nil {
		t.Fatal(err)
	}
	newest, seen := 0, map[string]bool{}
	for _, p := range programs {
		if key := p.pin.Module + p.pin.Version; seen[key] {
			t.Errorf("%v: %s %s has two rows", p.names, p.pin.Module, p.pin.Version)
		} else {
			seen[key] = true
		}
		if _, err := parse(p.pin.Version); err != nil {
			t.Errorf("%v: %v", p.names, err)
		}
		if p.pin.Module == "k8s.io/kubernetes" && p.newest {
			newest++
		}
	}
	if newest != 1 {
		t.Errorf("%d folders of Kubernetes count as the newest, want 1", newest)
	}
	for _, library := range []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime", "go.etcd.io/etcd/server/v3", "github.com/Microsoft/hcsshim"} {
		if !slices.ContainsFunc(programs, func(p program) bool { return slices.Equal(p.names, []string{library}) || p.pin.Module == library }) {
			t.Errorf("%s has no row", library)
		}
	}
}
