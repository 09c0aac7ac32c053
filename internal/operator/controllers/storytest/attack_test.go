package storytest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/controllers"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/source"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
)

const (
	// attackSeeds is the default number of seeds. The environment variables of TestRandomFleets override it.
	attackSeeds = 3
	// attackFor is how long tenants attack. Hosts and nodes keep acting after that.
	attackFor = 45 * time.Minute
	// joinTimeout is the time within which an honest host must become a Ready node despite the attackers.
	joinTimeout = 90 * time.Minute
	// missesFor is how long an honest node may be NotReady after it has joined.
	missesFor = 10 * time.Minute
)

// TestRandomAttackers joins honest hosts next to hostile hosts, whose SSH servers, WICD and kubelets lie at random about anything
// (internal/testing/sim/lies), and next to tenants that create arbitrary Services, pods and Machines and spoof DNS. Each attacker can do only what Kubernetes
// allows it. A seed that breaks a rule prints its story.
//
// The gaps listed in docs/security.md are excluded: no host takes another host's name before that host has joined, and a host whose key is unknown
// need not join while a Service has its address.
func TestRandomAttackers(t *testing.T) {
	for _, seed := range seedsOf(t, "WMCO_CHAOS", attackSeeds) {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { newAttackWorld(t, uint64(seed)).simulate() })
		})
	}
}

// attackWorld is the story of one seed.
type attackWorld struct {
	*story
	seed         uint64
	rand         *rand.Rand
	end          context.CancelFunc
	honest       []*attackedHost
	hostileHosts []*hostileHost
	attackEnded  bool
	entries      map[string]string // of ConfigMap windows-instances
	keys         []string          // lines of ConfigMap windows-known-hosts
	informers    kube.Informers
	configMap    reconciler
	machines     reconciler
	created      int // objects
	logs         attackLog

	// mu guards the fields below: hosts and controllers use them from their own goroutines.
	mu          sync.Mutex
	jobs        map[string]*attackJob
	connections uint64
	names       map[string]uint64    // in DNS, with the number of lookups
	owners      map[types.UID]string // the host that registered a Node
	requesters  map[string]string    // the host that created a certificate request
	tokens      []string
	writes      map[string]int // by the operator, per object
	changes     map[string]int // by attackers, per object
	events      int
	seenEvents  map[string]time.Time // when the API server last recorded an event
	broken      map[string]string    // the first breach of each rule
}

func newAttackWorld(t *testing.T, seed uint64) *attackWorld {
	w := &attackWorld{
		seed: seed, rand: rand.New(rand.NewPCG(seed, 99)), entries: map[string]string{}, informers: controllers.Informers("ns"),
		jobs: map[string]*attackJob{}, names: map[string]uint64{}, owners: map[types.UID]string{}, requesters: map[string]string{},
		writes: map[string]int{}, changes: map[string]int{}, broken: map[string]string{},
		seenEvents: map[string]time.Time{},
	}
	w.story = newStory(t, 0, v1alpha1.RolloutSpec{MaxConcurrentJoins: int32(4 + w.rand.IntN(4))})
	w.random = w.rand
	w.every = 20 * time.Second
	w.ctx, w.end = context.WithCancel(logr.NewContext(w.ctx, kube.NewLogger(&w.logs, true)))
	w.filterEvent, w.dialer, w.lookup = w.checkEvent, w.dialAny, w.answerName
	rules := w.rules()
	rules.Spec.ClusterAPI = &v1alpha1.ClusterAPISpec{Namespace: machinesNamespace, ClusterName: ownCluster}
	w.must(w.client.Update(w.ctx, rules))
	w.put(clusterOf(machinesNamespace, ownCluster, "10.3.0.5"))
	w.addOthers("linux-1", "linux", linuxAddress)
	for n := range 3 + w.rand.IntN(3) {
		w.honest = append(w.honest, newAttackedHost(w, n+1))
	}
	for n := range 3 + w.rand.IntN(4) {
		w.hostileHosts = append(w.hostileHosts, newHostileHost(w, n+1))
	}
	w.startAttackedOperator()
	return w
}

// startAttackedOperator starts the operator with a client that checks its writes.
func (w *attackWorld) startAttackedOperator() {
	raw := w.client
	w.client = w.watchedClient()
	w.live = w.client
	w.startOperator()
	w.client = raw
	machines := source.NewMachines(w.sources, api.SourceClusterAPI)
	kind, err := machines.Kind(w.ctx)
	w.must(err)
	kind.Found(machineKind(), ownMachines{w.live})
	w.configMap, w.machines = source.NewConfigMap(w.sources), machines
	w.sources.Hosts.Announcers = []source.Announcer{machines}
	w.certificates.Machines = append(w.certificates.Machines, machines)
	w.certificates.CacheShare = w.informers.ShareOf(&certificatesv1.CertificateSigningRequest{})
	w.jobs = map[string]*attackJob{}
}

func (w *attackWorld) simulate() {
	w.t.Cleanup(w.printStory)
	for _, h := range w.honest {
		h.announceAt = time.Now().Add(time.Duration(w.rand.Int64N(int64(attackFor / 2))))
	}
	for end := time.Now().Add(attackFor); time.Now().Before(end); {
		w.tickAll()
	}
	w.record("tenants delete their objects")
	w.attackEnded = true
	w.dropAll("Service")
	attackEnded := time.Now()
	for time.Since(attackEnded) < joinTimeout && w.waiting() != "" {
		w.tickAll()
	}
	for until := time.Now().Add(attackFor / 6); time.Now().Before(until); {
		w.tickAll()
	}
	if late := w.waiting(); late != "" {
		w.breach(attackJoins, "%s after tenants deleted their objects: %s", time.Since(attackEnded), late)
	}
	w.checkAtTheEnd()
	w.end()
	time.Sleep(10 * time.Minute) // pending waits end on their own
	synctest.Wait()
}

// tickAll advances time and lets attackers, tenants, hosts and the operator act.
func (w *attackWorld) tickAll() {
	time.Sleep(w.every)
	synctest.Wait()
	for _, l := range w.hostileHosts {
		l.act()
	}
	if !w.attackEnded {
		w.actAsTenants()
	}
	for _, h := range w.honest {
		h.advanceHonestHost()
	}
	w.operateAll()
	w.checkNow()
}

func (w *attackWorld) chance(p float64) bool { return w.rand.Float64() < p }

// breach reports the first breach of a rule.
func (w *attackWorld) breach(rule, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken[rule] != "" {
		return
	}
	w.broken[rule] = fmt.Sprintf(format, args...)
	w.record("RULE %s IS BROKEN: %s", rule, w.broken[rule])
	w.t.Errorf("rule %s: %s", rule, w.broken[rule])
}

func (w *attackWorld) printStory() {
	if w.t.Failed() {
		w.t.Logf("reproduce with: WMCO_CHAOS_SEED=%d go test -run TestRandomAttackers ./internal/operator/controllers/storytest\n%s\n%s",
			w.seed, strings.Join(w.lines, "\n"), w.summary())
	}
}

// attackLog collects what the operator has logged since the last take.
type attackLog struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (l *attackLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	return len(p), nil
}

// take returns the text logged since the last call.
func (l *attackLog) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := string(l.text)
	l.text = l.text[:0]
	return text
}
