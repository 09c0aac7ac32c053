package daemon

import (
	"context"
	"fmt"
	"strings"

	"github.com/windows-machine-config/wmco/internal/agent"
)

// maxHostname is how many characters a label of DNS has at most.
const maxHostname = 63

// CheckHostname refuses names that a host, or the node on it, cannot have: those that are no label of DNS.
func CheckHostname(name string) error {
	const allowed = "abcdefghijklmnopqrstuvwxyz0123456789-"
	isLabel := strings.Trim(strings.ToLower(name), allowed) == "" && strings.Trim(name, "-") == name
	if name == "" || len(name) > maxHostname || !isLabel {
		return fmt.Errorf("%q cannot be a host name: it has 1 to %d letters, digits and '-', the last not at its ends", name, maxHostname)
	}
	return nil
}

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
