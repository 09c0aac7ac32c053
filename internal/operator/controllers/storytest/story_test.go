package storytest

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/crypto/ssh"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/clusterversion"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/csrapproval"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/fleet"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/instance"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/settings"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/source"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/sshkey"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/remote"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/payload"
)

// updateStories registers the flag to write golden files instead of comparing them: go test -run Story -update-stories.
func updateStories() *bool { return flag.Bool("update-stories", false, "write testdata/stories") }

var writeStories = updateStories()

const (
	storyWICD  = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	oldVersion = "1.0.0-0000000"
)

// story runs the real controllers in a cluster with simulated hosts, clock and randomness. Invariants are checked after each tick.
type story struct {
	t       *testing.T
	ctx     context.Context
	random  *rand.Rand
	client  client.Client
	cache   *storyCache
	hosts   []*storyHost
	version string // that the operator brings
	content payload.Manifest
	began   time.Time
	lines   []string
	linesMu sync.Mutex    // guards lines
	every   time.Duration // a tick
	writes  int

	instances    *instance.Controller
	fleet        *fleet.Controller
	settings     *settings.Controller
	certificates *csrapproval.Controller
	store        *settings.Store
	sources      source.Options // of the controllers that create instances, which most stories do not use
	releases     *clusterversion.Releases
	released     chan ctrlevent.GenericEvent // of releases
	apiServers   []string                    // their versions
	registry     *prometheus.Registry
	slots        *kube.Slots  // join slots
	others       []*kube.Slot // taken by other hosts
	names        *instance.NameClaims
	live         client.Client // for the instance controller's live reads
	dialer       func(context.Context, remote.Target, remote.Options) (instance.SSHHost, error)
	lookup       func(ctx context.Context, network, name string) ([]netip.Addr, error)
	operated     int                                // number of the write up to which the controllers have run
	held         int                                // number of the write up to which mustHold has checked
	seen         map[types.NamespacedName]string    // the last reconciled state of an instance and its Node
	due          map[types.NamespacedName]time.Time // when to reconcile an instance again
	fleetSeen    string
	settingsSeen string
	reported     string // by nodes
	fleetDue     time.Time
	// former are the instances at the start of this tick; with lags set, the controllers' cache returns them.
	former map[client.ObjectKey]client.Object
	lags   bool
	// noQuirks is true if the hosts' Windows has no quirks.
	noQuirks bool
	// budgets maps the pods' label "app" to the number of pods that may be evicted.
	budgets map[string]int
	// announcers list Machines.
	announcers []source.Announcer
	pods, puts int
	// refuses is the error returned for evictions; nil if budgets decide.
	refuses error
	// quirks is the seed of the quirks of its hosts' Windows.
	quirks uint64
	// filterEvent is called for each event and reports whether to add it to the story; nil for all.
	filterEvent func(about client.Object, reason, action, text string) bool
	reasons     map[string]bool
}

// runStory runs a story twice in simulated time: with hosts without quirks, to compare it with its golden file, and with quirks, where only the story's
// own checks must hold. With a seed of quirks (sim.SeedVariable), only the second run takes place.
func runStory(t *testing.T, name string, hosts int, rolloutSpec v1alpha1.RolloutSpec, run func(*story)) {
	t.Parallel()
	if os.Getenv(sim.SeedVariable) == "" {
		synctest.Test(t, func(t *testing.T) {
			s := newStory(t, hosts, rolloutSpec)
			s.withoutQuirks("the golden file has no quirks")
			s.mustEnd(run)
			s.compare(filepath.Join("testdata", "stories", name+".golden"))
		})
	}
	synctest.Test(t, func(t *testing.T) { newStory(t, hosts, rolloutSpec).mustEnd(run) })
}

// mustEnd runs a story and checks that nothing is written afterwards.
func (s *story) mustEnd(run func(*story)) {
	s.t.Helper()
	run(s)
	s.mustBeQuiet()
	s.mustBeDocumented()
}

// compare compares the story with its golden file.
func (s *story) compare(file string) {
	s.t.Helper()
	got := strings.Join(s.lines, "\n") + "\n"
	if *writeStories {
		s.must(os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	s.must(err)
	if got != string(want) {
		s.t.Errorf("the story is another one than in %s (write it with -update-stories):\n%s", file, firstDifference(string(want), got))
	}
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return fmt.Sprintf("line %d\nwant %s\ngot  %s", i+1, w[i], g[i])
		}
	}
	return fmt.Sprintf("want %d lines, got %d", len(w), len(g))
}

func newStory(t *testing.T, hosts int, r v1alpha1.RolloutSpec) *story {
	t.Helper()
	file := func(path, sum string) payload.File {
		return payload.File{Path: path, Component: path, Version: "v1", Group: payload.Base, SHA256: sum, Size: 1}
	}
	s := &story{
		t: t, ctx: t.Context(), random: rand.New(rand.NewPCG(1, 2)), began: time.Now(), every: 5 * time.Second,
		content: payload.New([]payload.File{file(payload.WICD, storyWICD), file("kubelet.exe", strings.Repeat("b", 64))}, payload.File{}),
		seen:    map[types.NamespacedName]string{}, due: map[types.NamespacedName]time.Time{},
		budgets: map[string]int{}, reasons: documentedReasons(t), quirks: sim.SeedOf(t.Name()), apiServers: []string{"v1.36.3"},
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the quirks of its hosts' Windows are those of %s=%d", sim.SeedVariable, s.quirks)
		}
	})
	s.cache = newStoryCache(t)
	s.client = s.newClient(r)
	s.live, s.dialer, s.lookup = s.client, s.dial, net.DefaultResolver.LookupNetIP
	key, err := ssh.ParsePrivateKey(controllertest.SSHKey(t, 0))
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= hosts; n++ {
		s.hosts = append(s.hosts, newStoryHost(s, n))
		s.hosts[n-1].keys = []string{sshkey.AuthorizedLine(key)}
	}
	s.startOperator()
	return s
}

func (s *story) record(format string, args ...any) {
	s.linesMu.Lock()
	defer s.linesMu.Unlock()
	at := time.Since(s.began).Round(time.Second)
	s.lines = append(s.lines, fmt.Sprintf("%7s  %s", at, fmt.Sprintf(format, args...)))
}

func (s *story) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}
