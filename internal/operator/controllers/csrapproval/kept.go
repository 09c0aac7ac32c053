package csrapproval

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windows-machine-config/wmco/internal/operator/csr"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
)

// Limits of the cache for pending certificate requests, in bytes: of one request, of all requests of one requester, and of all. A kubelet without a
// certificate creates several of 3 KB per day.
const (
	maxCached             = 64 << 10
	maxCachedPerRequester = 1 << 20
	maxCachedTotal        = 32 << 20
	roomCheckInterval     = 5 * time.Minute
	credentialIDKey       = "authentication.kubernetes.io/credential-id"
)

// Requests returns the informer for certificate requests. A cluster creates many, and a node can create any number. The informer caches requests that
// need a decision, and requests of nodes for a signer that they do not need. Of all others, it caches only that they need no decision.
func Requests() kube.Informer {
	return kube.Informer{
		Object: &certificatesv1.CertificateSigningRequest{}, Keep: kube.KeepFunc(keep), Bytes: maxCached,
		Share: &kube.Share{Total: maxCachedTotal, PerOwner: maxCachedPerRequester, Owner: requester},
	}
}

// keep caches undecided requests for the operator's signers or of a node. A spec.request that is too long to be approved is cut just above the limit.
func keep(r *certificatesv1.CertificateSigningRequest) (client.Object, bool) {
	isRelevant := r.Spec.SignerName == certificatesv1.KubeAPIServerClientKubeletSignerName || r.Spec.SignerName == certificatesv1.KubeletServingSignerName ||
		r.Spec.SignerName == certificatesv1.KubeAPIServerClientSignerName || strings.HasPrefix(r.Spec.Username, csr.NodeUserPrefix)
	if len(r.Status.Conditions) > 0 || len(r.Status.Certificate) > 0 || !isRelevant {
		decided := &certificatesv1.CertificateSigningRequest{TypeMeta: r.TypeMeta}
		decided.Name, decided.UID, decided.ResourceVersion = r.Name, r.UID, r.ResourceVersion
		decided.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: noDecisionNeeded}}
		return decided, false
	}
	r.ManagedFields = nil
	if len(r.Spec.Request) > csr.MaxRequest {
		r.Spec.Request = bytes.Clone(r.Spec.Request[:csr.MaxRequest+1])
	}
	return r, true
}

// noDecisionNeeded is a condition, in the cache only, of requests that need no decision.
const noDecisionNeeded certificatesv1.RequestConditionType = "NothingToDecide"

// requester returns the requester of a request. Joining hosts share a user, and each has its own token.
func requester(o client.Object) string {
	r, ok := o.(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%.256s %.256s", r.Spec.Username, fmt.Sprint(r.Spec.Extra[credentialIDKey]))
}

// read returns the request. If the cache has cut it because its requester had created too many, read gets it from the API server. It returns nil if
// the cache has no room for it, or if it was deleted.
func (c *Controller) read(ctx context.Context, r *certificatesv1.CertificateSigningRequest) (*certificatesv1.CertificateSigningRequest, reconcile.Result, error) {
	owner, isCut := kube.CutOf(r)
	if !isCut {
		return r, reconcile.Result{}, nil
	}
	if owner == "" || c.CacheShare == nil || !c.CacheShare.HasRoom(owner, maxCached) {
		return nil, reconcile.Result{RequeueAfter: roomCheckInterval}, nil
	}
	whole := &certificatesv1.CertificateSigningRequest{}
	if err := c.Live.Get(ctx, client.ObjectKeyFromObject(r), whole); err != nil {
		return nil, reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if whole.UID != r.UID {
		return nil, reconcile.Result{}, nil
	}
	return whole, reconcile.Result{}, nil
}
