package daemon

import (
	"context"
	"crypto/x509"
	"errors"
	"slices"

	"github.com/windows-machine-config/wmco/internal/node/daemon/apiclient"
	"github.com/windows-machine-config/wmco/internal/node/daemon/credentials"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/identity"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// nodeManager manages the certificate of the cloud-node-manager on hosts with this service. The service waits for the first one, and reads the file
// again when it is renewed.
type nodeManager struct{ state.Session }

// run requests and renews the certificate with WICD's identity until ctx is done. wasRejected is true if the API server rejected WICD's
// previous certificate: it would reject this one as well, which is from the same signer.
func (n nodeManager) run(ctx context.Context, client *apiclient.Client, wasRejected bool) {
	current, pending := credentials.NodeManagerFile, credentials.NodeManagerPendingFile
	if !slices.ContainsFunc(n.Wanted.Services, func(s desired.Service) bool { return s.Name == desired.NodeManagerService }) {
		if err := errors.Join(n.Host.Disk.Remove(current), n.Host.Disk.Remove(pending)); err != nil {
			n.Log.Warn("Removing the certificate of an unneeded service failed", "service", desired.NodeManagerService, "error", err.Error())
		}
		return
	}
	manager := newCertificateManager(n.Session, credentials.NodeManagerName(n.Record.Node), current, pending)
	manager.Prefix, manager.Bootstrap = credentials.NodeManagerRequestPrefix, func(ctx context.Context, m *identity.Manager) (identity.Identity, error) {
		return m.Request(ctx, client)
	}
	var rejected *x509.Certificate
	if wasRejected {
		rejected, _ = credentials.ReadCertificate(n.Host.Disk, current) // may be nil
	}
	for ctx.Err() == nil {
		id, err := manager.Identify(ctx, rejected)
		if err != nil {
			return
		}
		manager.Renew(ctx, client, id)
		rejected = nil
	}
}
