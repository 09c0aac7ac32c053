package kubeapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/identity"
)

const requestsPath = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

// minDuration is the shortest duration that a request may have (ValidateCertificateSigningRequestCreate of Kubernetes).
const minDuration = 10 * time.Minute

// signingRequest has the fields of a CertificateSigningRequest that are written and read here.
type signingRequest struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name            string `json:"name"`
		ResourceVersion string `json:"resourceVersion,omitempty"`
	} `json:"metadata"`
	Spec struct {
		Request           []byte   `json:"request"`
		SignerName        string   `json:"signerName"`
		ExpirationSeconds int32    `json:"expirationSeconds,omitempty"`
		Usages            []string `json:"usages"`
	} `json:"spec"`
	Status *struct {
		Certificate []byte `json:"certificate"`
		Conditions  []struct {
			Type    string `json:"type"`
			Reason  string `json:"reason"`
			Message string `json:"message"`
		} `json:"conditions"`
	} `json:"status,omitempty"`
}

// certificate returns the certificate, nil while the request is pending, or an error if it was denied.
func (r signingRequest) certificate() ([]byte, error) {
	if r.Status == nil {
		return nil, nil
	}
	for _, c := range r.Status.Conditions {
		if c.Type == "Denied" || c.Type == "Failed" {
			return nil, fmt.Errorf("%w: %s is %s, %s: %s", identity.ErrRefused, r.Metadata.Name, c.Type, c.Reason, c.Message)
		}
	}
	return r.Status.Certificate, nil
}

func (r signingRequest) isApproved() bool {
	if r.Status == nil {
		return false
	}
	for _, c := range r.Status.Conditions {
		if c.Type == "Approved" {
			return true
		}
	}
	return false
}

// Requester requests client certificates. It implements identity.Requester.
type Requester struct {
	Client *Client
	// Duration is the requested lifetime.
	Duration time.Duration
	// Pending, if not nil, is called with each request that has no certificate yet, and whether it is approved.
	Pending func(name string, isApproved bool)
}

// Issue implements identity.Requester. It creates the request unless it exists, and waits for the decision. Kubernetes removes requests that have
// been pending for a day; then the caller's next attempt creates it again.
func (r Requester) Issue(ctx context.Context, p identity.Pending) ([]byte, error) {
	if err := r.create(ctx, p); err != nil && !HasCode(err, http.StatusConflict) {
		return nil, err
	}
	for {
		var request signingRequest
		if err := r.Client.Get(ctx, requestsPath+"/"+url.PathEscape(p.Name), nil, &request); err != nil {
			return nil, err
		}
		if issued, err := request.certificate(); len(issued) > 0 || err != nil {
			return issued, err
		}
		if r.Pending != nil {
			r.Pending(p.Name, request.isApproved())
		}
		if err := r.waitForChange(ctx, request); err != nil {
			return nil, err
		}
	}
}

// create creates the request. The operator and OVN-Kubernetes require exactly this signer and these usages.
func (r Requester) create(ctx context.Context, p identity.Pending) error {
	request := signingRequest{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest"}
	request.Metadata.Name = p.Name
	request.Spec.Request, request.Spec.SignerName = p.Request, "kubernetes.io/kube-apiserver-client"
	request.Spec.ExpirationSeconds = int32(max(r.Duration, minDuration).Seconds())
	request.Spec.Usages = []string{"digital signature", "client auth"}
	return r.Client.Create(ctx, requestsPath, request)
}

// errChanged ends a watch.
var errChanged = errors.New("the object has changed")

// waitForChange returns when the request has changed, or after some time.
func (r Requester) waitForChange(ctx context.Context, request signingRequest) error {
	began := time.Now()
	query := url.Values{"fieldSelector": {"metadata.name=" + request.Metadata.Name}, "resourceVersion": {request.Metadata.ResourceVersion}}
	err := r.Client.Watch(ctx, requestsPath, query, func(Event) error { return errChanged })
	if errors.Is(err, errChanged) {
		return nil
	}
	if err != nil && !HasCode(err, http.StatusGone) {
		return fmt.Errorf("watching: %w", err)
	}
	if time.Since(began) < time.Second { // pause between requests to a server that ends watches immediately
		return backoff.Sleep(ctx, time.Second)
	}
	return ctx.Err()
}
