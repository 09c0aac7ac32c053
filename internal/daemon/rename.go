package daemon

import (
	"context"
	"fmt"
	"strings"

	"github.com/windows-machine-config/wmco/internal/agent"
)

// rename gives Windows the name that it shall have. It is asked for once: who renames the host later is not worked against.
func (a *applying) rename(ctx context.Context) error {
	if a.hostname == "" || strings.EqualFold(a.hostname, a.facts.Hostname) {
		return nil
	}
	why := fmt.Sprintf("the host's name changes from %s to %s with a restart", a.facts.Hostname, a.hostname)
	if !a.request.MayReboot {
		return &agent.Error{Code: agent.CodeRebootNeeded, Message: why + ", which is not allowed; rename and restart the host, or allow it"}
	}
	if err := a.NextStart.Rename(ctx, a.hostname); err != nil {
		return fmt.Errorf("renaming the host: %w", err)
	}
	a.rebooting = append(a.rebooting, why)
	return nil
}
