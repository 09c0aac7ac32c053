package storytest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/payload"
)

const (
	// chaosSeeds is the default number of seeds; WMCO_CHAOS_SEEDS sets another number, WMCO_CHAOS_SEED plays one seed.
	chaosSeeds = 30
	// recoveryTimeout is the time within which a fleet must recover after all failures have ended: repairs wait for up to 160 minutes, windows for
	// hours.
	recoveryTimeout = 16 * time.Hour
	// stale is the age of the cluster state on which the operator may act without breaking a rule.
	stale = time.Minute
)

// TestRandomFleets plays hours of small fleets under random policies, with random failures of hosts, nodes, the API server, users and versions.
// Rules that users rely on are checked against the state of the cluster and the hosts, not against what the operator reports. In the last hours
// nothing fails, and the fleet must recover. A seed that fails prints its story.
func TestRandomFleets(t *testing.T) {
	var tally chaosTally
	t.Run("seed", func(t *testing.T) {
		for _, seed := range seedsOf(t, "WMCO_CHAOS", chaosSeeds) {
			t.Run(strconv.Itoa(seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { playSeed(t, uint64(seed), &tally) })
			})
		}
	})
	t.Log(tally.String())
	t.Logf("evictions per needed: %.3f", float64(tally.evictions)/float64(max(tally.needed, 1)))
}

// seedsOf returns the seeds to run, byDefault many unless <variable>_SEEDS sets another number or <variable>_SEED selects one.
func seedsOf(t *testing.T, variable string, byDefault int) []int {
	number := func(name string) (n int, set bool) {
		text := os.Getenv(name)
		if text == "" {
			return 0, false
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return n, true
	}
	if item, set := number(variable + "_SEED"); set {
		return []int{item}
	}
	n, set := number(variable + "_SEEDS")
	if !set {
		n = byDefault
	}
	seeds := make([]int, n)
	for i := range seeds {
		seeds[i] = i
	}
	return seeds
}

// chaosTally adds up the results of all seeds.
type chaosTally struct {
	mu                                           sync.Mutex
	seeds, evictions, needed, completed, restart int
	hours                                        float64
	failed                                       map[string][][2]int // by rule: the story's number of lines at the breach, and the seed
}

func (c *chaosTally) add(w *chaosWorld) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seeds++
	c.evictions, c.needed = c.evictions+w.evictions, c.needed+w.needed
	c.completed, c.restart = c.completed+w.completed, c.restart+w.restarts
	c.hours += time.Since(w.start).Hours()
	if c.failed == nil {
		c.failed = map[string][][2]int{}
	}
	for rule, b := range w.broken {
		c.failed[rule] = append(c.failed[rule], [2]int{b.line, int(w.seed)})
	}
}

func (c *chaosTally) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d seeds, %.0f hours: %d actions completed, %d restarts, %d evictions of %d pods that had to leave", c.seeds, c.hours, c.completed, c.restart, c.evictions, c.needed)
	for _, r := range chaosRules() {
		seeds := c.failed[r.name]
		if len(seeds) == 0 {
			continue
		}
		slices.SortFunc(seeds, func(x, y [2]int) int { return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1])) })
		fmt.Fprintf(&b, "\nrule %s (%s): %d seeds, those with the fewest lines first (in brackets):", r.name, r.description, len(seeds))
		for _, s := range seeds {
			fmt.Fprintf(&b, " %d(%d)", s[1], s[0])
		}
	}
	return b.String()
}

// chaosWorld is the story of one seed: hosts, apps, and what happens to them.
type chaosWorld struct {
	*story
	seed        uint64
	rand        *rand.Rand
	start       time.Time
	hosts       []*chaosHost
	apps        []*chaosApp
	events      []chaosEvent
	ticks       uint64
	undo        []chaosUndo
	eventsEnded bool

	// Probabilities that a request of the operator fails, and that a command over SSH fails.
	apiFails, sshFails float64
	crashes            bool // the operator restarts at every tick
	pausedSince        time.Time
	// Maintenance windows, if set, open at this interval and for this long.
	windowInterval, windowOpen time.Duration
	faults                     map[string]*versionFault // by version
	contents                   []payload.Manifest
	retryAt                    map[string]time.Time // by controller whose last pass failed
	configSeen                 string

	broken                                 map[string]*chaosBreach // by rule
	evictions, needed, completed, restarts int
}

// chaosBreach is the first breach of a rule; more counts the later ones.
type chaosBreach struct {
	line int
	text string
	more int
}

// chaosUndo ends a condition after a while.
type chaosUndo struct {
	at time.Time
	do func()
}

func playSeed(t *testing.T, seed uint64, tally *chaosTally) {
	w := newChaosWorld(t, seed)
	t.Cleanup(func() {
		tally.add(w)
		w.printWhenFailed()
	})
	w.joinAll()
	w.playHours()
	w.endFailures()
	if !w.recovers() {
		w.breach(ruleRecovers, "%s after everything works again: %s", recoveryTimeout, w.unfinished())
		return
	}
	w.passHours(20 * time.Minute) // the recovered state must last
	if left := w.unfinished(); left != "" {
		w.breach(ruleRecovers, "it recovered only briefly: %s", left)
	}
}

// joinAll joins all hosts before any failure starts.
func (w *chaosWorld) joinAll() {
	for _, h := range w.hosts {
		w.announceHost(h)
	}
	for end := time.Now().Add(time.Hour); w.unfinished() != ""; w.tickOnce() {
		if time.Now().After(end) {
			w.t.Fatalf("the fleet does not come up: %s", w.unfinished())
		}
	}
	w.lines, w.began = nil, time.Now()
	w.evictions, w.needed, w.completed, w.restarts = 0, 0, 0, 0
	w.record("policy: %s", w.policy())
}

// playHours plays random events and one upgrade, in some seeds two.
func (w *chaosWorld) playHours() {
	hours := 8 + w.rand.IntN(5)
	end := time.Now().Add(time.Duration(hours) * time.Hour)
	upgrades := []time.Time{time.Now().Add(w.between(time.Minute, time.Hour))}
	if w.chance(0.4) {
		upgrades = append(upgrades, upgrades[0].Add(w.between(2*time.Minute, 5*time.Hour)))
	}
	for time.Now().Before(end) {
		if len(upgrades) > 0 && time.Now().After(upgrades[0]) {
			upgrades = upgrades[1:]
			w.upgradeOperator()
		}
		w.nextChance()
		w.triggerEvents()
		w.tickOnce()
	}
}

// nextChance reseeds the random source for each tick, so that a seed's story stays similar when the operator behaves differently.
func (w *chaosWorld) nextChance() {
	w.ticks++
	w.rand = rand.New(rand.NewPCG(w.seed, w.ticks))
	w.random = w.rand
}

// endFailures ends all failures.
func (w *chaosWorld) endFailures() {
	w.eventsEnded = true
	w.record("all faults end, and users remove all restrictions")
	for _, u := range w.undo {
		u.do()
	}
	w.undo = nil
	clear(w.faults)
	w.apiFails, w.sshFails = 0, 0
	for _, h := range w.hosts {
		h.recover()
	}
}

// recovers waits for the fleet to recover and reports whether it did. Every hour, users retry failed actions.
func (w *chaosWorld) recovers() bool {
	retried := time.Now().Add(-time.Hour)
	for end := time.Now().Add(recoveryTimeout); time.Now().Before(end); w.tickOnce() {
		if w.unfinished() == "" {
			return true
		}
		if time.Since(retried) >= time.Hour {
			retried = time.Now()
			w.retryFailed()
		}
	}
	return false
}

func (w *chaosWorld) passHours(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		w.tickOnce()
	}
}

// tickOnce advances time, hosts and pods, and then runs the operator.
func (w *chaosWorld) tickOnce() {
	time.Sleep(w.every)
	var left []chaosUndo
	for _, u := range w.undo {
		if time.Now().Before(u.at) {
			left = append(left, u)
			continue
		}
		u.do()
	}
	w.undo = left
	for _, h := range w.hosts {
		h.advance()
	}
	w.advancePods()
	for _, h := range w.hosts {
		h.look()
	}
	if w.crashes {
		w.startChaosOperator()
	}
	w.operateRandomly()
	w.checkCordons()
}

// schedule schedules an undo; endFailures runs it if it is not due yet.
func (w *chaosWorld) schedule(after time.Duration, do func()) {
	w.undo = append(w.undo, chaosUndo{time.Now().Add(after), do})
}

func (w *chaosWorld) chance(p float64) bool { return w.rand.Float64() < p }

func (w *chaosWorld) between(least, most time.Duration) time.Duration {
	return least + time.Duration(w.rand.Int64N(int64(most-least)))
}

// breach records that a rule was broken.
func (w *chaosWorld) breach(rule, format string, args ...any) {
	if only := os.Getenv("WMCO_CHAOS_RULES"); only != "" && !slices.Contains(strings.Split(only, ","), rule) {
		return
	}
	if b := w.broken[rule]; b != nil {
		b.more++
		return
	}
	text := fmt.Sprintf(format, args...)
	w.record("RULE %s IS BROKEN: %s", rule, text)
	w.broken[rule] = &chaosBreach{line: len(w.lines), text: text}
	w.t.Errorf("rule %s: %s", rule, text)
}

// printWhenFailed prints the story up to the last rule that broke.
func (w *chaosWorld) printWhenFailed() {
	if !w.t.Failed() {
		if os.Getenv("WMCO_CHAOS_SEED") != "" {
			w.t.Log(strings.Join(w.lines, "\n"))
		}
		return
	}
	last := len(w.lines)
	if len(w.broken) > 0 {
		last = 0
		for _, b := range w.broken {
			last = max(last, b.line)
		}
	}
	w.t.Logf("reproduce with: WMCO_CHAOS_SEED=%d go test -run TestRandomFleets ./internal/operator/controllers/storytest\n%s", w.seed, strings.Join(w.lines[:last], "\n"))
}

// raw returns the client without faults.
func (w *chaosWorld) raw() client.WithWatch { return w.client.(client.WithWatch) }
