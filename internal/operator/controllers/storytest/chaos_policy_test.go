package storytest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/payload"
)

// newChaosWorld creates the fleet, the policy and the kinds of events of a seed.
func newChaosWorld(t *testing.T, seed uint64) *chaosWorld {
	w := &chaosWorld{
		seed: seed, rand: rand.New(rand.NewPCG(seed, 77)), faults: map[string]*versionFault{},
		retryAt: map[string]time.Time{}, broken: map[string]*chaosBreach{},
	}
	r := w.randomPolicy()
	w.story = newStory(t, 0, r)
	w.quirks = seed
	w.start = time.Now()
	w.random = w.rand
	w.every = time.Duration(8+w.rand.IntN(8)) * time.Second
	for n := range 3 {
		w.contents = append(w.contents, chaosContent(n))
	}
	w.content = w.contents[0]
	w.dialer = w.dialWithFailures
	for n := range 3 + w.rand.IntN(6) {
		w.hosts = append(w.hosts, newChaosHost(w, n+1))
	}
	w.newApps()
	w.events = w.randomEvents()
	w.startChaosOperator()
	return w
}

// chaosContent returns the payload of the n-th operator. Each has another kubelet, which requires a drain.
func chaosContent(n int) payload.Manifest {
	file := func(path, sum string) payload.File {
		return payload.File{Path: path, Component: path, Version: "v1", Group: payload.Base, SHA256: sum, Size: 1}
	}
	return payload.New([]payload.File{file(payload.WICD, storyWICD), file("kubelet.exe", strings.Repeat(string("bcd"[n]), 64))}, payload.File{})
}

// randomPolicy returns a random rollout policy.
func (w *chaosWorld) randomPolicy() v1alpha1.RolloutSpec {
	most := intstr.FromInt32(int32(1 + w.rand.IntN(2)))
	if w.chance(0.3) {
		most = intstr.FromString([]string{"25%", "34%", "50%"}[w.rand.IntN(3)])
	}
	r := v1alpha1.RolloutSpec{MaxUnavailable: &most}
	if w.chance(0.5) {
		r.Canary = &v1alpha1.CanarySpec{Count: int32(1 + w.rand.IntN(2)), Soak: []string{"3m", "10m", "30m"}[w.rand.IntN(3)]}
	}
	if w.chance(0.3) {
		every, open := 2+w.rand.IntN(3), 40+w.rand.IntN(60)
		w.windowInterval, w.windowOpen = time.Duration(every)*time.Hour, time.Duration(open)*time.Minute
		r.MaintenanceWindows = []v1alpha1.MaintenanceWindow{{Schedule: fmt.Sprintf("0 */%d * * *", every), Duration: fmt.Sprintf("%dm", open)}}
	}
	if w.chance(0.4) {
		r.Reboots = v1alpha1.RebootsAllowed
	}
	r.Drain.OnTimeout = []v1alpha1.DrainTimeoutPolicy{v1alpha1.DrainWait, v1alpha1.DrainForce, v1alpha1.DrainAbort}[w.rand.IntN(3)]
	r.Drain.Timeout = []string{"5m", "20m", "1h"}[w.rand.IntN(3)]
	return r
}

// policy describes the policy and the fleet in one line.
func (w *chaosWorld) policy() string {
	r := w.rules().Spec.Rollout
	text := fmt.Sprintf("%d hosts, maxUnavailable %s, drain %s %s", len(w.hosts), r.MaxUnavailable, r.Drain.OnTimeout, r.Drain.Timeout)
	if r.Canary != nil {
		text += fmt.Sprintf(", canary %d for %s", r.Canary.Count, r.Canary.Soak)
	}
	if w.windowInterval > 0 {
		text += fmt.Sprintf(", a window of %s every %s", w.windowOpen, w.windowInterval)
	}
	if r.Reboots == v1alpha1.RebootsAllowed {
		text += ", reboots allowed"
	}
	var kinds []string
	for _, e := range w.events {
		kinds = append(kinds, e.name)
	}
	return fmt.Sprintf("%s, a tick of %s; may happen: %s", text, w.every, strings.Join(kinds, ", "))
}

// limit returns the number of nodes that may be out of service.
func (w *chaosWorld) limit() int {
	instances := len(w.cache.objects["WindowsInstance"])
	n, err := intstr.GetScaledValueFromIntOrPercent(w.rules().Spec.Rollout.MaxUnavailable, instances, false)
	w.must(err)
	return max(n, 1)
}

// inWindow reports whether a window was open at a time or up to stale before. Times are UTC, and windows are counted from midnight.
func (w *chaosWorld) inWindow(at time.Time) bool {
	if w.windowInterval == 0 {
		return true
	}
	at = at.UTC()
	hour := time.Duration(at.Hour()) * time.Hour
	opened := at.Truncate(time.Hour).Add(-(hour % w.windowInterval))
	return at.Sub(opened) <= w.windowOpen+stale
}

// setPaused pauses or resumes the rollout.
func (w *chaosWorld) setPaused(paused bool) {
	config := w.rules()
	config.Spec.Rollout.Paused = paused
	config.Generation++
	w.must(w.client.Update(w.ctx, config))
	w.pausedSince = time.Time{}
	if paused {
		w.pausedSince = time.Now()
	}
}

// versionFault is a fault of a version on some hosts.
type versionFault struct {
	kind string // refuses, services or dies
	on   map[string]bool
	// The version works for delay after its arrival, and then fails for lasts.
	delay, lasts time.Duration
}

// upgradeOperator installs an operator of another version, which may be faulty or the previous one.
func (w *chaosWorld) upgradeOperator() {
	next := w.contents[1+w.rand.IntN(2)]
	if next.Digest == w.content.Digest {
		next = w.contents[w.rand.IntN(2)*2%3]
	}
	w.content = next
	w.startChaosOperator()
	w.record("the operator is upgraded; its version is %s now", w.version)
	if w.faults[w.version] != nil || !w.chance(0.5) {
		return
	}
	f := &versionFault{kind: []string{"refuses", "services", "dies"}[w.rand.IntN(3)], on: map[string]bool{}, delay: w.between(20*time.Second, 4*time.Minute), lasts: w.between(3*time.Minute, 10*time.Hour)}
	all := w.chance(0.5)
	for _, h := range w.hosts {
		if all || w.chance(0.4) {
			f.on[h.name] = true
		}
	}
	w.faults[w.version] = f
	w.record("(it is broken: %s on %d hosts, %s after its arrival, for %s)", f.kind, len(f.on), f.delay.Round(time.Second), f.lasts.Round(time.Second))
}
