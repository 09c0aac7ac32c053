package overlay

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/identity"
	"github.com/windows-machine-config/wmco/internal/node/kubeapi"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// requester requests certificates from OVN-Kubernetes, and reports what they wait for.
type requester struct {
	kubeapi.Requester
	node   string
	report *reporter
}

// Issue implements identity.Requester.
func (r requester) Issue(ctx context.Context, p identity.Pending) ([]byte, error) {
	issued, err := r.Requester.Issue(ctx, p)
	if kubeapi.HasCode(err, http.StatusUnauthorized) {
		err = fmt.Errorf("%w: %w", identity.ErrRejected, err)
	}
	if errors.Is(err, identity.ErrRefused) {
		r.report.setOne(api.ReasonOverlayCertificatePending, "OVN-Kubernetes has refused the certificate request of "+r.node+": "+truncate.Printable(err.Error(), maxAnswered))
	}
	return issued, err
}

// waitsFor describes what a certificate request waits for.
func waitsFor(request, node string, isApproved bool) string {
	if isApproved {
		return fmt.Sprintf("certificate request %s of %s is approved but not signed; kube-controller-manager signs it", request, node)
	}
	return fmt.Sprintf("OVN-Kubernetes' ovnkube-identity has not approved certificate request %s of %s: it must run with --enable-hybrid-overlay "+
		"(enableOvnKubeIdentity in its chart)", request, node)
}
