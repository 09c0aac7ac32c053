//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/testing/sshserver"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/cluster/proxy"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

const (
	// rounds is the number of rounds, each with new hosts. Times are medians, counts are maxima.
	rounds = 3
	// concurrentHosts is the number of hosts that are announced at the same time.
	concurrentHosts = 3
	// linkRate is in bytes per second, linkDelay half of the round-trip time, of the link to a distant host.
	linkRate  = 100e6 / 8
	linkDelay = 5 * time.Millisecond
)

// joins are the measurements of the group join.
type joins struct {
	*stage
	single, concurrent []joinResult // of one new host, and of several at once
	powerShell         int          // the highest number of PowerShell starts on one host
	rejoins            []rejoin
	// transfers and starts are the floors of a join, in seconds.
	transfers, starts []float64
}

// rejoin is the second join of a host.
type rejoin struct {
	joinResult
	payloadBytes, wireBytes int64
}

func measureJoin(ctx context.Context, s *sheet) error {
	if err := errors.Join(lab.CanRunWindows(), lab.CanRunRegistries()); err != nil {
		return fmt.Errorf("hosts on Wine are required: %w", err)
	}
	st, err := openStage(ctx, s, testenv.Options{WineHosts: 1, WholePayload: true})
	if err != nil {
		return err
	}
	defer st.Close()
	m := &joins{stage: st}
	for n := range rounds {
		s.logf("Round %d of %d: a new host, the same host again, %d new hosts at once", n+1, rounds, concurrentHosts)
		if err := m.joinOne(ctx); err != nil {
			return err
		}
		if err := m.joinConcurrently(ctx); err != nil {
			return err
		}
	}
	m.report()
	return m.measureLink(ctx)
}

// joinOne joins a new host, and then the same host again after its node and its entry were deleted.
func (m *joins) joinOne(ctx context.Context) error {
	hosts, err := m.newHosts(ctx, 1)
	if err != nil {
		return err
	}
	first, err := m.join(ctx, hosts)
	if err != nil {
		return err
	}
	m.logf("one host was Ready after %.2f s, with %.2f s of processor time", first.seconds, first.cpuSeconds)
	m.single = append(m.single, first)
	if err := errors.Join(m.measureFloor(ctx, hosts[0]), m.countPowerShell(hosts), m.removeAll(ctx)); err != nil {
		return err
	}
	before := m.contents(hosts[0])
	second, err := m.join(ctx, hosts)
	if err != nil {
		return err
	}
	r := rejoin{second, m.payloadBytes(before, m.contents(hosts[0]), second.seen[0]), second.seen[0].BytesIn}
	m.logf("the same host was Ready again after %.2f s; it received %d bytes", second.seconds, r.wireBytes)
	m.rejoins = append(m.rejoins, r)
	return m.leave(ctx, hosts)
}

func (m *joins) joinConcurrently(ctx context.Context) error {
	hosts, err := m.newHosts(ctx, concurrentHosts)
	if err != nil {
		return err
	}
	all, err := m.join(ctx, hosts)
	if err != nil {
		return err
	}
	m.logf("%d hosts were Ready after %.2f s, with %.2f s of processor time", concurrentHosts, all.seconds, all.cpuSeconds)
	m.concurrent = append(m.concurrent, all)
	return errors.Join(m.countPowerShell(hosts), m.leave(ctx, hosts))
}

func (m *joins) countPowerShell(hosts []*lab.Host) error {
	for _, h := range hosts {
		lines, err := h.PowerShellStarts()
		if err != nil {
			return err
		}
		m.powerShell = max(m.powerShell, len(lines))
	}
	return nil
}

// contents returns the files of the payload in the host's store, complete or partial.
func (m *joins) contents(h *lab.Host) map[string]fs.FileInfo {
	found := map[string]fs.FileInfo{}
	for _, f := range m.payload.Files {
		for _, name := range []string{f.SHA256, f.SHA256 + ".part"} {
			if info, err := h.Stat(desired.Store + `\` + name); err == nil {
				found[name] = info
			}
		}
	}
	return found
}

// payloadBytes returns how many bytes of the payload were sent between two readings of the store: all new and partial files, and
// wicd-setup if SFTP wrote a file.
func (m *joins) payloadBytes(before, after map[string]fs.FileInfo, seen sshserver.Counters) int64 {
	var sum int64
	for _, f := range m.payload.Files {
		if now := after[f.SHA256]; now != nil && !sameFile(before[f.SHA256], now) {
			sum += f.Compressed.Size
		}
		if part := after[f.SHA256+".part"]; part != nil {
			sum += part.Size()
		}
	}
	return sum + int64(seen.FilesWritten)*m.payload.Setup.Size
}

func sameFile(a, b fs.FileInfo) bool {
	return a != nil && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// compressedSize returns the number of bytes to send to a host with an empty store.
func (m *joins) compressedSize() int64 {
	sizes := map[string]int64{} // content shared by two files is sent once
	for _, f := range m.payload.Files {
		sizes[f.SHA256] = f.Compressed.Size
	}
	var sum int64
	for _, size := range sizes {
		sum += size
	}
	return sum
}

func (m *joins) report() {
	maxima := map[string]float64{}
	note := func(name string, value float64) { maxima[name] = max(maxima[name], value) }
	for _, a := range slices.Concat(m.single, m.concurrent) {
		for _, seen := range a.seen {
			note("connections", float64(seen.Connections))
			note("exec", float64(seen.ExecChannels))
			note("transfers", float64(max(seen.SFTPChannels, seen.FilesWritten)))
			note("ratio", float64(seen.BytesIn)/float64(m.compressedSize()))
			note("wire", float64(seen.BytesIn)/1e6)
		}
	}
	for _, r := range m.rejoins {
		note("payload again", float64(r.payloadBytes))
		note("wire again", float64(r.wireBytes))
	}
	m.number("join.connections", maxima["connections"], "count")
	m.number("join.exec_channels", maxima["exec"], "count")
	m.number("join.transfers", maxima["transfers"], "count")
	m.number("join.powershell_processes", float64(m.powerShell), "count")
	m.number("join.bytes_ratio", maxima["ratio"], "ratio")
	m.number("join.wire_mb", maxima["wire"], "MB")
	m.number("rejoin.payload_bytes", maxima["payload again"], "bytes")
	m.number("rejoin.wire_bytes", maxima["wire again"], "bytes")
	one, many := medianRun(m.single), medianRun(m.concurrent)
	m.number("join.seconds", one.seconds, "s")
	transfer, start := median(m.transfers), median(m.starts)
	m.number("join.floor_transfer_seconds", transfer, "s")
	m.number("join.floor_start_seconds", start, "s")
	m.number("join.seconds_over_floor", one.seconds/(transfer+start), "ratio")
	m.number("join.seconds_3_over_1", many.seconds/one.seconds, "ratio")
	m.number("join.cpu_seconds", one.cpuSeconds, "s")
	m.number("join.cpu_seconds_of_3", many.cpuSeconds, "s")
	m.number("join.cpu_seconds_each_of_3_over_1", many.cpuSeconds/concurrentHosts/one.cpuSeconds, "ratio")
	m.steps("join", one)
	var second []joinResult
	for _, r := range m.rejoins {
		second = append(second, r.joinResult)
	}
	rejoin := medianRun(second)
	m.number("rejoin.seconds", rejoin.seconds, "s")
	m.steps("rejoin", rejoin)
}

// steps reports the duration of each step.
func (m *joins) steps(prefix string, a joinResult) {
	for _, s := range a.steps {
		m.number(prefix+".step_"+strings.ToLower(s.Name)+"_seconds", took(s).Seconds(), "s")
	}
}

// medianRun returns the run with the median time.
func medianRun(runs []joinResult) joinResult {
	var seconds []float64
	for _, r := range runs {
		seconds = append(seconds, r.seconds)
	}
	middle := median(seconds)
	return runs[slices.Index(seconds, middle)]
}

// took returns the duration of a finished step.
func took(s v1alpha1.StepStatus) time.Duration {
	if s.StartedAt == nil || s.FinishedAt == nil {
		return 0
	}
	return s.FinishedAt.Sub(s.StartedAt.Time)
}

// measureLink joins new hosts over a slow link, and reports which share of its bandwidth the step Transfer used.
func (m *joins) measureLink(ctx context.Context) error {
	addresses, err := lab.OpenAddresses(ctx, m.progress)
	if err != nil {
		return err
	}
	defer addresses.Close()
	var shares []float64
	for n := range rounds {
		m.logf("Round %d of %d: a new host over a link of 100 Mbit/s with 10 ms round trip", n+1, rounds)
		share, err := m.joinOverLink(ctx, addresses.Next().String())
		if err != nil {
			return err
		}
		m.logf("the transfer used %.3f of the link's bandwidth", share)
		shares = append(shares, share)
	}
	m.number("transfer.link_share", median(shares), "ratio")
	return nil
}

// joinOverLink joins a host whose announced address is the near end of a slow link to it.
func (m *joins) joinOverLink(ctx context.Context, address string) (share float64, err error) {
	hosts, err := m.newHosts(ctx, 1)
	if err != nil {
		return 0, err
	}
	p, err := proxy.Listen(proxy.Options{
		Target: net.JoinHostPort(hosts[0].Address(), strconv.Itoa(sshPort)),
		Listen: net.JoinHostPort(address, strconv.Itoa(sshPort)),
		Delay:  linkDelay, Rate: linkRate,
	})
	if err != nil {
		return 0, err
	}
	defer p.Close()
	a, err := m.joinAt(ctx, hosts, []testenv.Host{{Name: hosts[0].Name(), Address: address, Port: sshPort}})
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(a.steps, func(s v1alpha1.StepStatus) bool { return s.Name == join.StepTransfer })
	// Apart from wicd-setup, the bytes are the payload and some kilobytes of requests; only the payload counts.
	bytes := min(m.compressedSize(), a.seen[0].BytesIn-m.payload.Setup.Size)
	return float64(bytes) / took(a.steps[i]).Seconds() / linkRate, m.leave(ctx, hosts)
}
