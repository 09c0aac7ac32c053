package acceptance

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
)

func TestIncludedImagesAreServed(t *testing.T) {
	folder := t.TempDir()
	blobs := filepath.Join(folder, "one", "blobs", "sha256")
	if err := os.MkdirAll(blobs, 0o700); err != nil {
		t.Fatal(err)
	}
	index, image, layer := strings.Repeat("1", 64), strings.Repeat("2", 64), strings.Repeat("3", 64)
	mustWrite(t, filepath.Join(blobs, index), `{"mediaType":"`+ociIndex+`"}`)
	mustWrite(t, filepath.Join(blobs, image), `{"layers":[]}`)
	mustWrite(t, filepath.Join(blobs, layer), "layer")
	mustWrite(t, filepath.Join(folder, "one", "index.json"), `{"manifests":[{"mediaType":"`+ociIndex+`","digest":"sha256:`+index+
		`","annotations":{"io.containerd.image.name":"mcr.microsoft.com/oss/kubernetes/pause:3.9"}}]}`)
	all, err := readImages(folder)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]struct {
		code    int
		content string
		kind    string
	}{
		"/v2/":                                   {200, "", ""},
		"/v2/oss/kubernetes/pause/manifests/3.9": {200, `{"mediaType":"` + ociIndex + `"}`, ociIndex},
		"/v2/oss/kubernetes/pause/manifests/sha256:" + image: {200, `{"layers":[]}`, ociManifest},
		"/v2/oss/kubernetes/pause/blobs/sha256:" + layer:     {200, "layer", "application/octet-stream"},
		"/v2/oss/kubernetes/pause/manifests/3.10":            {404, "404 page not found\n", "text/plain; charset=utf-8"},
		"/v2/ause/manifests/3.9":                             {404, "404 page not found\n", "text/plain; charset=utf-8"},
		"/v2/x/blobs/sha256:" + strings.Repeat("4", 64):      {404, "404 page not found\n", "text/plain; charset=utf-8"},
		"/v2/x/blobs/..%2f..%2findex.json":                   {404, "404 page not found\n", "text/plain; charset=utf-8"},
	} {
		w := httptest.NewRecorder()
		all.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != want.code || w.Body.String() != want.content || w.Header().Get("Content-Type") != want.kind {
			t.Errorf("%s: %d, %q, %s; want %+v", path, w.Code, w.Body.String(), w.Header().Get("Content-Type"), want)
		}
	}
	w := httptest.NewRecorder()
	if all.ServeHTTP(w, httptest.NewRequest(http.MethodPut, "/v2/x/blobs/x", nil)); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("a push returns %d", w.Code)
	}
	if none, err := readImages(t.TempDir()); err != nil || len(none.names) > 0 {
		t.Errorf("an empty folder has %+v, %v", none, err)
	}
}

// TestSimulatedLinuxNodesAreDistinct requires disjoint subnets, because the overlay refuses overlapping ones.
func TestSimulatedLinuxNodesAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for i := 1; i <= linuxNodes; i++ {
		n := linuxNode(i)
		var subnets map[string][]string
		if err := json.Unmarshal([]byte(n.Annotations[linuxSubnets]), &subnets); err != nil {
			t.Fatal(err)
		}
		subnet, err := netip.ParsePrefix(subnets["default"][0])
		if err != nil || subnet != subnet.Masked() || !netip.MustParsePrefix(clusterRange).Contains(subnet.Addr()) {
			t.Errorf("node %d has subnet %s, %v", i, subnet, err)
		}
		for _, value := range []string{subnet.String(), n.Annotations[routerMAC], n.Status.Addresses[0].Address} {
			if seen[value] {
				t.Errorf("node %d has the same %s as another", i, value)
			}
			seen[value] = true
		}
	}
}

// registries is the transport to registries that ask for credentials or, unless they answer, are out of reach.
type registries struct{ answer bool }

func (r registries) RoundTrip(request *http.Request) (*http.Response, error) {
	if !r.answer {
		return nil, errors.New("no route to host")
	}
	return &http.Response{StatusCode: http.StatusUnauthorized, Body: http.NoBody, Request: request}, nil
}

// TestNodeWithoutSandboxImageLeaves: where the registry answers, an image that cannot be pulled is a fault of the node.
func TestNodeWithoutSandboxImageLeaves(t *testing.T) {
	for name, test := range map[string]struct {
		condition string
		internet  registries
		mirror    string
		lacksOnly bool
	}{
		"the registry is out of reach":    {condition: api.ReasonSandboxImagePullFailed, lacksOnly: true},
		"there is no such image":          {condition: api.ReasonSandboxImageNotFound, lacksOnly: true},
		"the registry answers":            {condition: api.ReasonSandboxImagePullFailed, internet: registries{answer: true}},
		"the mirror of the user":          {condition: api.ReasonSandboxImagePullFailed, mirror: "192.0.2.1:5000"},
		"the node waits for other things": {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newComputer(t)
				defer c.PowerOff()
				j, fake := c.joined(t)
				j.internet, j.options.Mirror, j.report.Lines, fake.instance = test.internet, test.mirror, nil, metav1.ConditionFalse
				if test.condition != "" {
					fake.conditions = []corev1.NodeCondition{{Type: api.ConditionSandboxImage, Status: corev1.ConditionFalse, Reason: test.condition}}
				}
				var recorded []Fact
				j.recorded = func(f Fact) { recorded = append(recorded, f) }
				steps := joinSteps(j)
				at := slices.IndexFunc(steps, func(l Line) bool { return l.ID == "node-ready" })
				a := j.session.try(t.Context(), steps[at])
				want := map[bool]Verdict{true: Untried, false: Refuted}[test.lacksOnly]
				if a.Verdict != want || strings.Contains(a.Seen, errNoSandboxImage.Error()) != test.lacksOnly {
					t.Errorf("node-ready is %s: %s", a.Verdict, a.Seen)
				}
				if len(recorded) != len(networkFactNames()) || !strings.HasPrefix(recorded[0].Name, "node-") {
					t.Errorf("the facts are %+v", recorded)
				}
				pod := j.session.try(t.Context(), steps[at+1])
				if needs := strings.Contains(pod.Seen, "it requires step node-ready"); pod.Verdict != Untried || needs == test.lacksOnly {
					t.Errorf("the next step is %s: %s", pod.Verdict, pod.Seen)
				}
			})
		})
	}
}
