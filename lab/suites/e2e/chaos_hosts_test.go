//go:build linux

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sshserver"
)

// The most sent data that an interruption can lose: all of wicd-setup, which is sent again from its beginning, and, of other content,
// the window of the SSH channel (64 packets of 32 KiB) and the buffer of WICD.
const (
	setupBytes    = 96 << 10
	inFlightBytes = 64*32<<10 + 256<<10
)

// connectionsCut cuts the first two connections of each host, one in each direction. The cuts are spread over the whole join, and are denser
// where little is sent: during the handshake and wicd-setup at the beginning, and during the configuration at the end.
func connectionsCut(p harness) {
	whole, again := p.measureJoin()
	random := p.random()
	var all []joiningHost
	for n := range 24 {
		first := cutOf(n, whole, again, random.Float64())
		second := sshserver.Fault{CutAfterOut: 1 + random.Int64N(again.BytesOut)}
		if first.CutAfterIn == 0 {
			second = sshserver.Fault{CutAfterIn: 1 + random.Int64N(again.BytesIn)}
		}
		p.t.Logf("cut-%d: %d in, %d out; then %d in, %d out", n, first.CutAfterIn, first.CutAfterOut, second.CutAfterIn, second.CutAfterOut)
		all = append(all, p.addHost(fmt.Sprintf("cut-%d", n), func(h *sim.Host) {
			h.SSH().SetFaults(func(connection int) sshserver.Fault {
				return map[int]sshserver.Fault{1: first, 2: second}[connection]
			})
		}))
	}
	connections := 0
	for _, j := range all {
		p.expectReady(j.name)
		c := j.SSH().Counters()
		connections += c.Connections
		allowed := whole.BytesIn + 2*(again.BytesIn+inFlightBytes) + setupBytes
		p.t.Logf("%s: %d bytes over %d connections, %d more than without cuts", j.at.Name, c.BytesIn, c.Connections, c.BytesIn-whole.BytesIn)
		if c.BytesIn > allowed {
			p.t.Errorf("%s received %d bytes, want at most %d", j.at.Name, c.BytesIn, allowed)
		}
	}
	if connections < 5*len(all)/2 { // a cut after the last relevant byte needs no further connection
		p.t.Errorf("%d hosts accepted only %d connections: too few were cut", len(all), connections)
	}
	p.expectOneNodeEach(all)
}

// measureJoin counts the bytes of a join without failures, and of a second join of the same host, which already has all content.
func (p harness) measureJoin() (whole, again sshserver.Counters) {
	calm := p.addHost("calm", nil)
	p.expectReady(calm.name)
	whole = calm.SSH().Counters()
	p.forget(calm.name)
	p.announce(calm.at, nil)
	p.expectReady(calm.name)
	again = calm.SSH().Counters()
	again.BytesIn -= whole.BytesIn
	again.BytesOut -= whole.BytesOut
	p.t.Logf("a join takes %d bytes in and %d out; a second one %d and %d", whole.BytesIn, whole.BytesOut, again.BytesIn, again.BytesOut)
	if again.BytesIn > whole.BytesIn/50 {
		p.t.Errorf("%d bytes were sent to a host that already has all content", again.BytesIn)
	}
	return whole, again
}

// cutOf returns the n-th of 24 first cuts. offset, from 0 to 1, moves it within its section.
func cutOf(n int, whole, again sshserver.Counters, offset float64) sshserver.Fault {
	position := func(from, size int64, n, count int) int64 {
		return from + 1 + int64((float64(n)+offset)/float64(count)*float64(size-1))
	}
	switch begin := again.BytesIn + setupBytes; {
	case n < 5:
		return sshserver.Fault{CutAfterIn: position(0, begin, n, 5)}
	case n < 11:
		return sshserver.Fault{CutAfterIn: position(begin, whole.BytesIn-begin-again.BytesIn, n-5, 6)}
	case n < 16:
		return sshserver.Fault{CutAfterIn: position(whole.BytesIn-again.BytesIn, again.BytesIn, n-11, 5)}
	default:
		return sshserver.Fault{CutAfterOut: position(0, whole.BytesOut, n-16, 8)}
	}
}

// powerLost cuts the power of hosts after a number of changes of files, services or the system, spread over the join.
func powerLost(p harness) {
	calm := p.addHost("calm-power", nil)
	p.expectAlive(calm)
	changes := calm.Windows().Changes() * 9 / 10 // the last ones are made concurrently
	const hosts = 16
	var all []joiningHost
	var cuts sync.WaitGroup
	for n := range hosts {
		at := changes * n / hosts
		all = append(all, p.addHost(fmt.Sprintf("power-%d", n), func(h *sim.Host) {
			h.Windows().CutPowerAfter(at)
			cuts.Go(func() { p.powerOnAfterCut(h) })
		}))
	}
	p.t.Logf("a join makes %d changes; cutting the power of %d hosts", changes, hosts)
	cuts.Wait()
	for _, j := range all {
		p.expectAlive(j)
	}
	p.expectOneNodeEach(all)
}

// cutAnyway is the time after which a host loses power even if it has made fewer changes than planned, because their number depends on concurrent
// operations.
const cutAnyway = 20 * time.Second

// powerOnAfterCut waits until a host has no power, and restores it after a second.
func (p harness) powerOnAfterCut(h *sim.Host) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(cutAnyway); ; {
		if _, err := h.Windows().Host().System.Facts(context.Background()); errors.Is(err, sim.ErrPower) {
			<-time.After(time.Second)
			h.Windows().PowerOn()
			return
		}
		select {
		case <-tick.C:
		case <-end:
			p.t.Logf("host %s made %d changes: cutting its power now", h.Addr(), h.Windows().Changes())
			h.Windows().PowerCut()
		}
	}
}

// hostsRestarted restarts a host after each step of its join.
func hostsRestarted(p harness) {
	step := map[string]string{} // by instance
	for n, s := range join.StepNames() {
		step[fmt.Sprintf("restart-%d", n)] = s
	}
	var all []joiningHost
	var restarts sync.WaitGroup
	hosts := map[string]*sim.Host{}
	waiting := len(step)
	var listed sync.Mutex
	listed.Lock() // until all are announced
	wait := p.follow("each step is done on one host", func(i *v1alpha1.WindowsInstance) bool {
		if s := step[i.Name]; s != "" && reached(i, s, v1alpha1.StepDone) {
			listed.Lock()
			h := hosts[i.Name]
			listed.Unlock()
			delete(step, i.Name)
			waiting--
			restarts.Go(h.Windows().Restart)
		}
		return waiting == 0
	})
	for n := range join.StepNames() {
		name := fmt.Sprintf("restart-%d", n)
		all = append(all, p.addHost(strings.ToUpper(name), func(h *sim.Host) { hosts[name] = h }))
	}
	listed.Unlock()
	wait()
	restarts.Wait()
	for _, j := range all {
		p.expectAlive(j)
		if j.Windows().BootID() == "1" {
			p.t.Errorf("host %s was not restarted", j.at.Name)
		}
	}
	p.expectOneNodeEach(all)
}
