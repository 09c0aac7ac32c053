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

// Status returns the state of services and certificates, and the last entries of the journal. It changes nothing.
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
			continue // missing or unreadable: omit it
		}
		if status.Certificates == nil {
			status.Certificates = map[string]time.Time{}
		}
		status.Certificates[name] = leaf.NotAfter
	}
	return status, nil
}
