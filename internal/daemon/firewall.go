package daemon

import (
	"context"
	"errors"
	"fmt"

	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/daemon/state"
	"github.com/windows-machine-config/wmco/internal/host"
)

// openFirewall lets in what services of the node need. A host on which rules have no effect says so, and becomes a node all the same:
// without the firewall's service nothing is kept out, and a group policy is what somebody decided.
func (a *applying) openFirewall(ctx context.Context) error {
	err := a.setFirewall(ctx)
	if errors.Is(err, host.ErrNoFirewall) {
		state.Note(a.Disk, agent.JournalEntry{Time: a.began.UTC(), Step: a.step, Change: "none: " + err.Error()})
		a.tell(agent.Step{Name: a.step + ": none: " + err.Error()})
		return nil
	}
	return err
}

func (a *applying) setFirewall(ctx context.Context) error {
	changed, err := a.Firewall.Set(ctx, a.wanted.Firewall)
	for _, name := range changed {
		a.did("rule %q of the firewall changed", name)
	}
	if err != nil {
		return fmt.Errorf("setting rules of the firewall: %w", err)
	}
	return nil
}

// mendFirewall is openFirewall for a host that has joined. That the firewall does not work is said when it begins, and not each time.
func (l *life) mendFirewall(ctx context.Context, a *applying) error {
	err := a.setFirewall(ctx)
	off := errors.Is(err, host.ErrNoFirewall)
	if off && !l.firewallOff {
		l.log.Warn("The firewall does not take our rules", "error", err.Error())
	}
	if off || err == nil {
		l.firewallOff = off
		return nil
	}
	return err
}

// closeFirewall takes our rules away. The operator got in without them before the host joined; where only ours let it in since, the
// host has been left by everything else when the connection ends.
func (l *leaving) closeFirewall(ctx context.Context) error {
	changed, err := l.Firewall.Set(ctx, nil)
	for _, name := range changed {
		l.did("rule %q of the firewall removed", name)
	}
	if !errors.Is(err, host.ErrNoFirewall) {
		return err
	}
	if len(l.formerWanted.Firewall) > len(changed) {
		l.stays("rules of the firewall in group %q: %v", host.FirewallGroup, err)
	}
	return nil
}
