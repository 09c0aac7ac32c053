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
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostnetwork"
)

const (
	// hostNetworkName is the name of the record, in the folder of containerd's network configuration, like holdersName.
	hostNetworkName = "host-network"
	// addressGrace is how long the host may be without its address after the first network was created. Windows needs some seconds.
	addressGrace = time.Minute
	// restoreAfter is how long Windows may take to configure the other settings of the virtual adapter. reportAfter is when settings that are still
	// missing are reported.
	restoreAfter = 10 * time.Second
	reportAfter  = 30 * time.Second
)

// hostState is the guard's verdict about the host.
type hostState int

const (
	// hostKept means that the overlay may be changed.
	hostKept hostState = iota
	// hostAway means that the host currently has no address.
	hostAway
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
	// until is when the address must be back. since is when it was found again.
	until, since time.Time
	// restored is set after restoring the lost settings was attempted. failure is the last error.
	restored bool
	failure  error
}

func newHostGuard(o Options, report *reporter) *hostGuard {
	g := &hostGuard{adapters: o.Adapters, file: filepath.Join(o.CertDir, hostNetworkName), log: o.Log, report: report, until: time.Now().Add(addressGrace)}
	g.record, _ = g.read()
	return g
}

// read reads the record. A damaged one is treated as absent.
func (g *hostGuard) read() (r hostnetwork.Record, found bool) {
	if g.adapters == nil {
		return r, false
	}
	text, err := readLimited(g.file, hostnetwork.MaxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return r, false
	}
	if err == nil {
		r, err = hostnetwork.Decode(text)
	}
	if err != nil {
		g.log.Warn("Reading the settings that this host had before its first network failed; continuing without them", "file", g.file, "error", err.Error())
	}
	return r, true
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
	before, found := hostnetwork.With(all, address)
	if !found {
		g.log.Warn("No adapter of this host has the address of its Node; its settings are not protected", "address", address.String())
		return g.forget()
	}
	if g.isMaking() && g.record.Address == address {
		before = g.record.Before
	}
	g.until, g.since, g.restored, g.failure = time.Now().Add(createTimeout), time.Time{}, false, nil
	g.log.Info("Recording the network settings of this host before its first network", "adapter", before.Name, "address", address.String(), "dhcp", before.DHCP)
	return g.write(hostnetwork.Record{Phase: hostnetwork.Making, Address: address, Before: before})
}

// created starts the wait for the address. After a creation that took all of its time, there is no further wait.
func (g *hostGuard) created(tookAll bool) {
	g.until = time.Now()
	if !tookAll {
		g.until = g.until.Add(addressGrace)
	}
}

// look checks whether the host still has its network, and restores lost settings. hasNetworks reports whether the overlay's networks exist.
func (g *hostGuard) look(ctx context.Context, hasNetworks func(context.Context) (bool, error)) hostState {
	switch phase := g.record.Phase; {
	case phase == "" || phase == hostnetwork.Made || phase != hostnetwork.Making && g.isDismissed():
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
	now, found := hostnetwork.With(all, g.record.Address)
	switch {
	case found:
		g.compare(ctx, now, all)
		return hostKept
	case !g.isMaking():
		return hostKept // it had its address after the network was created, and lost it for another reason
	case time.Now().Before(g.until):
		g.since = time.Time{}
		return hostAway
	}
	switch ok, err := hasNetworks(ctx); {
	case err != nil:
		g.logFailure("Reading the networks of a host without its address failed", err)
		return hostAway
	case !ok: // it lost the address for another reason
		if err := g.forget(); err != nil {
			g.logFailure("Removing the record of the network settings failed", err)
		}
		return hostKept
	}
	return g.giveUp(all)
}

// giveUp stops waiting for the address: the networks are removed, and not created again.
func (g *hostGuard) giveUp(all []hostnetwork.Adapter) hostState {
	r := g.record
	r.Phase, r.Instead = hostnetwork.Lost, instead(all)
	g.log.Error("The host has lost its address with its first network: removing the networks", "address", r.Address.String(), "instead", r.Instead)
	if err := g.write(r); err != nil {
		g.logFailure("Storing that the host has lost its address failed", err)
		g.record = r // the networks are removed anyway
	}
	return g.reportLost()
}

// isDismissed reports whether a user has deleted the record, and resets the guard if so.
func (g *hostGuard) isDismissed() bool {
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
func (g *hostGuard) compare(ctx context.Context, now hostnetwork.Adapter, all []hostnetwork.Adapter) {
	if g.since.IsZero() {
		g.since = time.Now()
	}
	r, lost := g.record, hostnetwork.Compare(g.record.Before, now, all)
	passed := time.Since(g.since)
	switch {
	case lost.IsEmpty():
		g.report.setHost("", "")
		if passed < restoreAfter && g.isMaking() && !g.restored {
			return // Windows may still change it
		}
		r.Phase = hostnetwork.Made
	case !g.isMaking():
		g.report.setHost("", changedMessage(r, lost, g.failure, g.file))
		return
	case passed >= restoreAfter && !g.restored:
		g.restored = true
		g.failure = g.adapters.Restore(ctx, r.Address, lost)
		g.log.Warn("Restoring network settings that this host lost with its first network", "adapter", now.Name, "lost", lost.String(), "error", fmt.Sprint(g.failure))
		return
	case passed >= reportAfter:
		r.Phase = hostnetwork.Changed
		g.report.setHost("", changedMessage(r, lost, g.failure, g.file))
	default:
		return
	}
	if err := g.write(r); err != nil {
		g.logFailure("Storing that the host has its network settings failed", err)
	}
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
	if g.failure == nil || g.failure.Error() != err.Error() {
		g.log.Warn(what, "error", err.Error())
	}
	g.failure = err
}

// instead lists the IPv4 addresses that the host has.
func instead(all []hostnetwork.Adapter) string {
	var parts []string
	for _, a := range all {
		for _, existing := range a.Addresses {
			if existing.Prefix.Addr().Is4() {
				parts = append(parts, fmt.Sprintf("%s on %q", existing.Prefix, a.Name))
			}
		}
	}
	if len(parts) == 0 {
		return "no address"
	}
	return strings.Join(parts, ", ")
}

func lostMessage(r hostnetwork.Record, file string) string {
	cause := "configure the DHCP server to give it the same address again"
	if isStatic(r.Before, r.Address) {
		cause = "reserve the address with DHCP; for static addresses, see the document about networks"
	}
	return fmt.Sprintf("the host had lost its address %s (adapter %q) for a minute after its first network was created, and had %s instead: the networks were removed, "+
		"and are not created again; %s, then delete %s on the host", r.Address, r.Before.Name, r.Instead, cause, file)
}

func isStatic(a hostnetwork.Adapter, address netip.Addr) bool {
	for _, existing := range a.Addresses {
		if existing.Prefix.Addr() == address {
			return existing.Static
		}
	}
	return false
}

func changedMessage(r hostnetwork.Record, lost hostnetwork.Loss, failure error, file string) string {
	reason := ""
	if failure != nil {
		reason = " (restoring it failed: " + failure.Error() + ")"
	}
	return fmt.Sprintf("creating the first network of the host removed settings of its adapter %q that are still missing: %s%s; set them on the adapter that has %s now, or delete %s on the host if "+
		"they are not needed", r.Before.Name, lost, reason, r.Address, file)
}
