package overlay

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostnetwork"
)

const (
	// hostNetworkName is the name of the record, in the folder of containerd's network configuration, like holdersName.
	hostNetworkName = "host-network"
	// addressGrace is how long the host may be without its address after the first network was created. Windows needs some seconds.
	addressGrace = time.Minute
)

// hostState is the state of the host's network.
type hostState int

const (
	// hostKept means that the overlay may be changed.
	hostKept hostState = iota
	// hostWithoutAddress means that the host currently has no address.
	hostWithoutAddress
	// hostLost means that the networks must be removed, and not created again.
	hostLost
)

// hostGuard protects the host's network when its first network is created: Windows can lose the address, especially one that is not from DHCP, and
// then only a console helps. The guard records the settings of the adapter before, and compares them afterwards. If the address is lost, it removes
// the networks, which restores the adapter's address (https://github.com/microsoft/SDN/issues/498), and does not create them again.
type hostGuard struct {
	adapters Adapters
	file     string
	log      *slog.Logger
	report   *reporter
	// record is the content of the file; its phase is empty if there is none.
	record hostnetwork.Record
	// until is when the address must be back.
	until    time.Time
	recovery hostnetwork.Recovery
	// failure is why the last restore failed, warning the last other error.
	failure, warning error
}

func newHostGuard(o Options, report *reporter) *hostGuard {
	g := &hostGuard{adapters: o.Adapters, file: filepath.Join(o.CertDir, hostNetworkName), log: o.Log, report: report, until: time.Now().Add(addressGrace)}
	g.record = g.read()
	return g
}

// read reads the record. A damaged one is treated as absent.
func (g *hostGuard) read() (r hostnetwork.Record) {
	if g.adapters == nil {
		return r
	}
	text, err := readLimited(g.file, hostnetwork.MaxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return r
	}
	if err == nil {
		r, err = hostnetwork.Decode(text)
	}
	if err != nil {
		g.log.Warn("Reading the settings that this host had before its first network failed; continuing without them", "file", g.file, "error", err.Error())
	}
	return r
}

func (g *hostGuard) isMaking() bool { return g.record.Phase == hostnetwork.Making }

// begin records the settings of the host before its first network is created. After an interrupted attempt, the settings from before that attempt are
// kept.
func (g *hostGuard) begin(ctx context.Context, own Node) error {
	if g.adapters == nil {
		return nil
	}
	address, err := own.address()
	if err != nil {
		return err
	}
	all, err := g.adapters.Adapters(ctx)
	if err != nil {
		return fmt.Errorf("reading the network settings of this host: %w", err)
	}
	r, found := g.record.Begin(all, address)
	if !found {
		g.log.Warn("No adapter of this host has the address of its Node; its settings are not protected", "address", address.String())
		return g.forget()
	}
	g.until, g.recovery, g.failure, g.warning = time.Now().Add(createTimeout), hostnetwork.Recovery{}, nil, nil
	g.log.Info("Recording the network settings of this host before its first network", "adapter", r.Before.Name, "address", address.String(), "dhcp", r.Before.DHCP)
	return g.write(r)
}

// created starts the wait for the address. After a creation that took all of its time, there is no further wait.
func (g *hostGuard) created(tookAll bool) {
	g.until = time.Now()
	if !tookAll {
		g.until = g.until.Add(addressGrace)
	}
}

// check checks whether the host still has its network, and restores lost settings. hasNetworks reports whether the overlay's networks
// exist.
func (g *hostGuard) check(ctx context.Context, hasNetworks func(context.Context) (bool, error)) hostState {
	switch phase := g.record.Phase; {
	case phase == "" || phase == hostnetwork.Made || phase != hostnetwork.Making && g.isReset():
		return hostKept
	case phase == hostnetwork.Lost:
		return g.reportLost()
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	all, err := g.adapters.Adapters(ctx)
	if err != nil { // unknown: the networks stay
		g.logFailure("Reading the network settings of this host failed", err)
		return hostKept
	}
	_, found := hostnetwork.With(all, g.record.Address)
	switch {
	case found:
		g.compare(ctx, all)
		return hostKept
	case !g.isMaking():
		return hostKept // it had its address after the network was created, and lost it for another reason
	case time.Now().Before(g.until):
		g.recovery.Reset()
		return hostWithoutAddress
	}
	switch ok, err := hasNetworks(ctx); {
	case err != nil:
		g.logFailure("Reading the networks of a host without its address failed", err)
		return hostWithoutAddress
	case !ok: // it lost the address for another reason
		if err := g.forget(); err != nil {
			g.logFailure("Removing the record of the network settings failed", err)
		}
		return hostKept
	}
	return g.recordLoss(all)
}

// recordLoss stops waiting for the address: the networks are removed, and not created again.
func (g *hostGuard) recordLoss(all []hostnetwork.Adapter) hostState {
	r := g.record
	r.Phase, r.Instead = hostnetwork.Lost, hostnetwork.Present(all)
	g.log.Error("The host has lost its address with its first network: removing the networks", "address", r.Address.String(), "instead", r.Instead)
	if err := g.write(r); err != nil {
		g.logFailure("Storing that the host has lost its address failed", err)
		g.record = r // the networks are removed anyway
	}
	return g.reportLost()
}

// isReset reports whether a user has deleted the record, and resets the guard if so.
func (g *hostGuard) isReset() bool {
	if _, err := os.Lstat(g.file); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	g.log.Info("The record of the host's network settings was deleted: the overlay continues", "was", string(g.record.Phase))
	g.record = hostnetwork.Record{}
	g.report.setHost("", "")
	return true
}

// reportLost reports the lost address until a user deletes the record.
func (g *hostGuard) reportLost() hostState {
	g.report.setHost(lostMessage(g.record, g.file), "")
	return hostLost
}

// compare restores once what the adapter has lost, and reports what is missing afterwards.
func (g *hostGuard) compare(ctx context.Context, all []hostnetwork.Adapter) {
	r := g.record
	step := g.recovery.Step(r, all, time.Now(), true)
	if !step.Restore.IsEmpty() {
		g.failure = g.adapters.Restore(ctx, r.Address, step.Restore)
		g.log.Warn("Restoring network settings that this host lost with its first network", "adapter", r.Before.Name, "lost", step.Restore.String(), "error", fmt.Sprint(g.failure))
	}
	message := ""
	if !step.Missing.IsEmpty() {
		message = r.Message(step.Missing, restoreFailure(g.failure), g.file)
	}
	g.report.setHost("", message)
	if step.Phase == r.Phase {
		return
	}
	r.Phase = step.Phase
	if err := g.write(r); err != nil {
		g.logFailure("Storing that the host has its network settings failed", err)
	}
}

// restoreFailure describes why settings were not restored; empty without an error.
func restoreFailure(err error) string {
	if err == nil {
		return ""
	}
	return "restoring it failed: " + err.Error()
}

func (g *hostGuard) write(r hostnetwork.Record) error {
	if err := writeFile(g.file, hostnetwork.Encode(r)); err != nil {
		return fmt.Errorf("writing %s: %w", g.file, err)
	}
	g.record = r
	return nil
}

func (g *hostGuard) forget() error {
	if err := os.Remove(g.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	g.record = hostnetwork.Record{}
	return nil
}

// logFailure logs a failure unless the last one was the same.
func (g *hostGuard) logFailure(what string, err error) {
	if g.warning == nil || g.warning.Error() != err.Error() {
		g.log.Warn(what, "error", err.Error())
	}
	g.warning = err
}

func lostMessage(r hostnetwork.Record, file string) string {
	remedy := "configure the DHCP server to give it the same address again"
	if isStatic(r.Before, r.Address) {
		remedy = "reserve the address with DHCP; for static addresses, see docs/network.md"
	}
	return fmt.Sprintf("the host lost its address %s (adapter %q) for a minute after its first network was created, and had %s instead: the networks were removed, "+
		"and will not be created again; %s, then delete %s on the host", r.Address, r.Before.Name, r.Instead, remedy, file)
}

func isStatic(a hostnetwork.Adapter, address netip.Addr) bool {
	for _, existing := range a.Addresses {
		if existing.Prefix.Addr() == address {
			return existing.Static
		}
	}
	return false
}
