package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon/credentials"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// statusNotes is how many lines of the journal the status shows.
const statusNotes = 20

// Status returns the state of services and certificates, and the last entries of the journal. It changes nothing.
func Status(ctx context.Context, h hostapi.Host) (wicdapi.Status, error) {
	services, err := serviceFacts(ctx, h.Services, desired.Services())
	if err != nil {
		return wicdapi.Status{}, err
	}
	notes, err := state.LastNotes(h.Disk, statusNotes)
	if err != nil {
		return wicdapi.Status{}, fmt.Errorf("reading the journal: %w", err)
	}
	status := wicdapi.Status{Joined: joined(h.Disk), Services: services, Journal: notes}
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
