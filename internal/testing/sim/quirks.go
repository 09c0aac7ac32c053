package sim

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/testing/sshserver"
)

// Quirks are deviations of a real Windows Server from an idle one that has finished its setup and has no security software. The zero value has none.
type Quirks struct {
	Servicing ServicingQuirks
	Setup     SetupQuirks
	Network   NetworkQuirks
	Adapter   AdapterQuirks
	Shell     sshserver.Quirks
	Files     FileQuirks
}

// RandomQuirks returns the quirks of a seed. Each kind has its own random sequence, so that a new kind changes no other.
func RandomQuirks(seed uint64) Quirks {
	random := func(kind uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, kind)) }
	return Quirks{
		Servicing: randomServicing(random(1)), Setup: randomSetup(random(2)), Network: randomNetwork(random(3)),
		Adapter: randomAdapter(random(4)), Shell: randomShell(random(5)), Files: randomFiles(random(6)),
	}
}

// RandomPassingQuirks returns those quirks of a seed that a host overcomes without manual intervention, given time.
func RandomPassingQuirks(seed uint64) Quirks {
	q := RandomQuirks(seed)
	s := &q.Servicing
	s.RolledBack, s.Hangs, s.BrokenStore = 0, false, false
	if failed := (&hostapi.FeatureError{Code: s.Refuses}); s.RefusesIn < 0 || !failed.NeedsRestart() {
		s.Refuses, s.RefusesIn = 0, 0
	}
	q.Setup.Name = ""
	if q.Setup.Revision == RevisionTooOld {
		q.Setup.Revision = RevisionFaulty
	}
	q.Network.Ports = 0
	a := &q.Adapter
	a.Instead, a.AddressLostFor, a.Excluded, a.Listeners = netip.Prefix{}, min(a.AddressLostFor, time.Minute), nil, nil
	q.Setup.DockerHasPipe = false
	q.Files.Distrusted, q.Files.Refusal = "", 0
	return q
}

// SeedVariable is the environment variable that gives every simulated Windows the quirks of one seed.
const SeedVariable = "WMCO_QUIRKS_SEED"

// SeedOf returns the seed for a test or a host of this name: always the same, unless SeedVariable sets another.
func SeedOf(name string) uint64 {
	if seed, err := strconv.ParseUint(os.Getenv(SeedVariable), 10, 64); err == nil {
		return seed
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // never fails
	return uint64(h.Sum32())
}

// drawQuirks sets random quirks, unless the options have some or NoQuirks is set.
func (o *WindowsOptions) drawQuirks() {
	o.Hostname = cmp.Or(o.Hostname, "WIN-SIM")
	if o.NoQuirks != "" || !reflect.ValueOf(o.Quirks).IsZero() {
		return
	}
	o.drawn = true
	o.Seed = cmp.Or(o.Seed, SeedOf(o.Hostname))
	o.Quirks = RandomPassingQuirks(o.Seed)
	if slow := &o.Quirks.Setup.SlowServices; o.NoOperator {
		slow.MissBoot = slices.DeleteFunc(slow.MissBoot, func(name string) bool { return name == api.WICDService })
	}
	if !inSimulatedTime() {
		shortenDurations(reflect.ValueOf(&o.Quirks).Elem())
		o.Quirks.Files.Held = 0 // it would slow down WICD by at least 50 ms per file
	}
}

// inSimulatedTime reports whether the clock is that of testing/synctest, which starts in the year 2000.
func inSimulatedTime() bool { return time.Now().Year() == 2000 }

// maxRealTimeDuration is the maximum of each duration, in both directions, outside simulated time.
const maxRealTimeDuration = 20 * time.Millisecond

// shortenDurations shortens all durations.
func shortenDurations(v reflect.Value) {
	switch {
	case v.Type() == reflect.TypeFor[time.Duration]():
		v.SetInt(max(min(v.Int(), int64(maxRealTimeDuration)), -int64(maxRealTimeDuration)))
	case v.Kind() == reflect.Struct && v.CanSet():
		for _, f := range v.Fields() {
			if f.CanSet() {
				shortenDurations(f)
			}
		}
	}
}

// Quirks returns the quirks of this Windows.
func (w *Windows) Quirks() Quirks {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.options.Quirks
}

// DescribeQuirks describes the quirks of this Windows and how to reproduce them, for failing tests.
func (w *Windows) DescribeQuirks() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.options
	if !o.drawn {
		return fmt.Sprintf("a Windows with chosen quirks, or without quirks (%q): %+v", o.NoQuirks, o.Quirks)
	}
	return fmt.Sprintf("reproduce with %s=%d; this Windows has quirks %+v", SeedVariable, o.Seed, o.Quirks)
}
