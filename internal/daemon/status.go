package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/daemon/credentials"
	"github.com/windows-machine-config/wmco/internal/daemon/state"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/host"
)

// statusNotes is how many lines of the journal the status shows.
const statusNotes = 20

// Status says how services and certificates are, and what happened last. It changes nothing.
func Status(ctx context.Context, h host.Host) (agent.Status, error) {
	services, err := serviceFacts(ctx, h.Services, desired.Services())
	if err != nil {
		return agent.Status{}, err
	}
	notes, err := state.LastNotes(h.Disk, statusNotes)
	if err != nil {
		return agent.Status{}, fmt.Errorf("reading the journal: %w", err)
	}
	status := agent.Status{Joined: joined(h.Disk), Services: services, Journal: notes}
	for _, name := range credentials.CertificateFiles() {
		leaf, err := credentials.ReadCertificate(h.Disk, name)
		if err != nil {
			continue // not there yet, or not readable: it is left out
		}
		if status.Certificates == nil {
			status.Certificates = map[string]time.Time{}
		}
		status.Certificates[name] = leaf.NotAfter
	}
	return status, nil
}
