package configure

import (
	"context"
	"fmt"
	"strings"

	"github.com/windows-machine-config/wmco/internal/agent"
)

// rename gives Windows the name that it shall have. It is asked for once: who renames the host later is not worked against.
func (c *configurator) rename(ctx context.Context) error {
	if c.hostname == "" || strings.EqualFold(c.hostname, c.facts.Hostname) {
		return nil
	}
	why := fmt.Sprintf("the host's name changes from %s to %s with a restart", c.facts.Hostname, c.hostname)
	if !c.request.MayReboot {
		return &agent.Error{Code: agent.CodeRebootNeeded, Message: why + ", which is not allowed; rename and restart the host, or allow it"}
	}
	if err := c.NextStart.Rename(ctx, c.hostname); err != nil {
		return fmt.Errorf("renaming the host: %w", err)
	}
	c.rebooting = append(c.rebooting, why)
	return nil
}
