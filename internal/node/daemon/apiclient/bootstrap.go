package apiclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon/credentials"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/identity"
	"github.com/windows-machine-config/wmco/internal/node/kubeapi"
)

// Bootstrap requests WICD's first certificate.
type Bootstrap struct{ state.Session }

// Request requests the certificate with WICD's other credentials: the token of the join, or, if that is gone or expired, the kubelet's
// certificate. So a host whose cluster was unreachable for longer than WICD's certificate lived recovers on its own.
func (b Bootstrap) Request(ctx context.Context, m *identity.Manager) (identity.Identity, error) {
	token, err := credentials.BootstrapToken(b.Host.Disk)
	if err == nil {
		id, err := b.requestAs(ctx, m, credential{token: token})
		if !kubeapi.HasCode(err, http.StatusUnauthorized) {
			return id, err
		}
	}
	kubelet, errKubelet := credentials.ReadKubeletIdentity(b.Host.Disk, b.Record.Node, time.Now())
	if errKubelet != nil {
		return identity.Identity{}, fmt.Errorf("neither the bootstrap token (%w) nor the kubelet's certificate (%w) can be used; the operator joins this host again", cmp.Or(err, errExpiredToken), errKubelet)
	}
	return b.requestAs(ctx, m, credential{certificate: &kubelet.Certificate})
}

// errExpiredToken is the reason why an existing token cannot be used.
var errExpiredToken = errors.New("the API server rejects it")

func (b Bootstrap) requestAs(ctx context.Context, m *identity.Manager, c credential) (identity.Identity, error) {
	client, err := newClient(b.Host, b.Record.Bootstrap, c, nil)
	if err != nil {
		return identity.Identity{}, err
	}
	defer client.Close()
	return m.Request(ctx, client)
}
