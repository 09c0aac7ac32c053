package configure

import (
	"context"
	"errors"
	"fmt"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// firewall manages the operator's group of rules in Windows Firewall.
type firewall struct {
	work
	rules []desired.FirewallRule
}

// open sets the rules that the node's services need. If rules have no effect, that is recorded and the host joins anyway: without the firewall's
// service nothing is blocked, and a group policy is the administrator's decision.
func (f firewall) open(ctx context.Context) error {
	err := f.set(ctx)
	if errors.Is(err, hostapi.ErrNoFirewall) {
		f.recordSkip("%v", err)
		f.notify(wicdapi.Step{Name: f.step + ": none: " + err.Error()})
		return nil
	}
	return err
}

func (f firewall) set(ctx context.Context) error {
	changed, err := f.Firewall.Set(ctx, f.rules)
	for _, name := range changed {
		f.recordChange("firewall rule %q changed", name)
	}
	if err != nil {
		return fmt.Errorf("setting firewall rules: %w", err)
	}
	return nil
}

// close removes the operator's rules. The operator could connect without them before the host joined; if only they admit it now, everything else
// has been removed when the connection ends.
func (f firewall) close(ctx context.Context) error {
	changed, err := f.Firewall.Set(ctx, nil)
	for _, name := range changed {
		f.recordChange("firewall rule %q removed", name)
	}
	if !errors.Is(err, hostapi.ErrNoFirewall) {
		return err
	}
	if len(f.rules) > len(changed) {
		f.remains.note("firewall rules in group %q: %v", hostapi.FirewallGroup, err)
	}
	return nil
}
