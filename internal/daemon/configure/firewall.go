package configure

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
func (c *configurator) openFirewall(ctx context.Context) error {
	err := c.setFirewall(ctx)
	if errors.Is(err, host.ErrNoFirewall) {
		state.Note(c.Disk, agent.JournalEntry{Time: c.began.UTC(), Step: c.step, Change: "none: " + err.Error()})
		c.tell(agent.Step{Name: c.step + ": none: " + err.Error()})
		return nil
	}
	return err
}

func (c *configurator) setFirewall(ctx context.Context) error {
	changed, err := c.Firewall.Set(ctx, c.wanted.Firewall)
	for _, name := range changed {
		c.recordChange("rule %q of the firewall changed", name)
	}
	if err != nil {
		return fmt.Errorf("setting rules of the firewall: %w", err)
	}
	return nil
}

// closeFirewall takes our rules away. The operator got in without them before the host joined; where only ours let it in since, the
// host has been left by everything else when the connection ends.
func (d *decommissioner) closeFirewall(ctx context.Context) error {
	changed, err := d.Firewall.Set(ctx, nil)
	for _, name := range changed {
		d.recordChange("rule %q of the firewall removed", name)
	}
	if !errors.Is(err, host.ErrNoFirewall) {
		return err
	}
	if len(d.formerWanted.Firewall) > len(changed) {
		d.noteRemaining("rules of the firewall in group %q: %v", host.FirewallGroup, err)
	}
	return nil
}
