package configure

import (
	"context"
	"errors"
	"fmt"

	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/host"
)

// firewall is that of Windows, of which a group of rules is ours.
type firewall struct {
	work
	rules []desired.FirewallRule
}

// open lets in what services of the node need. A host on which rules have no effect says so, and becomes a node all the same:
// without the firewall's service nothing is kept out, and a group policy is what somebody decided.
func (f firewall) open(ctx context.Context) error {
	err := f.set(ctx)
	if errors.Is(err, host.ErrNoFirewall) {
		f.recordNone("%v", err)
		f.tell(agent.Step{Name: f.step + ": none: " + err.Error()})
		return nil
	}
	return err
}

func (f firewall) set(ctx context.Context) error {
	changed, err := f.Firewall.Set(ctx, f.rules)
	for _, name := range changed {
		f.recordChange("rule %q of the firewall changed", name)
	}
	if err != nil {
		return fmt.Errorf("setting rules of the firewall: %w", err)
	}
	return nil
}

// close takes our rules away. The operator got in without them before the host joined; where only ours let it in since, the
// host has been left by everything else when the connection ends.
func (f firewall) close(ctx context.Context, r *remains) error {
	changed, err := f.Firewall.Set(ctx, nil)
	for _, name := range changed {
		f.recordChange("rule %q of the firewall removed", name)
	}
	if !errors.Is(err, host.ErrNoFirewall) {
		return err
	}
	if len(f.rules) > len(changed) {
		r.note("rules of the firewall in group %q: %v", host.FirewallGroup, err)
	}
	return nil
}
