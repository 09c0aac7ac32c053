package overlay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/identity"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

const requestsPath = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

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

// pending describes what the request waits for.
func (r signingRequest) pending(node string) string {
	if r.Status != nil {
		for _, c := range r.Status.Conditions {
			if c.Type == "Approved" {
				return fmt.Sprintf("certificate request %s of %s is approved but not signed; kube-controller-manager signs it", r.Metadata.Name, node)
			}
		}
	}
	return fmt.Sprintf("OVN-Kubernetes' ovnkube-identity has not approved certificate request %s of %s: it must run with --enable-hybrid-overlay "+
		"(enableOvnKubeIdentity in its chart)", r.Metadata.Name, node)
}

// minDuration is the shortest duration that a request may have.
const minDuration = 10 * time.Minute

// createRequest creates the request. OVN-Kubernetes requires exactly this duration and these usages.
func (c *client) createRequest(ctx context.Context, p identity.Pending, duration time.Duration) error {
	r := signingRequest{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest"}
	r.Metadata.Name = p.Name
	r.Spec.Request, r.Spec.SignerName = p.Request, "kubernetes.io/kube-apiserver-client"
	r.Spec.ExpirationSeconds, r.Spec.Usages = int32(max(duration, minDuration).Seconds()), []string{"digital signature", "client auth"}
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return c.do(ctx, http.MethodPost, requestsPath, "application/json", body, nil)
}

// requester requests certificates of a duration from OVN-Kubernetes.
type requester struct {
	*client
	duration time.Duration
	node     string
	report   *reporter
}

// Issue implements identity.Requester. It creates the request unless it exists, and waits for the decision. The API server removes
// requests that are pending for a day; then the caller's next attempt creates it again.
func (r requester) Issue(ctx context.Context, p identity.Pending) ([]byte, error) {
	issued, err := r.waitForCertificate(ctx, p)
	if hasCode(err, http.StatusUnauthorized) {
		err = fmt.Errorf("%w: %w", identity.ErrRejected, err)
	}
	if errors.Is(err, identity.ErrRefused) {
		r.report.setCertificate("OVN-Kubernetes has refused the certificate request of " + r.node + ": " + truncate.Printable(err.Error(), maxAnswered))
	}
	return issued, err
}

func (r requester) waitForCertificate(ctx context.Context, p identity.Pending) ([]byte, error) {
	if err := r.createRequest(ctx, p, r.duration); err != nil && !hasCode(err, http.StatusConflict) {
		return nil, err
	}
	for {
		var request signingRequest
		if err := r.do(ctx, http.MethodGet, requestsPath+"/"+url.PathEscape(p.Name), "", nil, &request); err != nil {
			return nil, err
		}
		if issued, err := request.certificate(); len(issued) > 0 || err != nil {
			return issued, err
		}
		r.report.setCertificate(request.pending(r.node))
		if err := r.waitForChange(ctx, request); err != nil {
			return nil, err
		}
	}
}

// errChanged ends a watch.
var errChanged = errors.New("the object has changed")

// waitForChange returns when the request has changed, or after some time.
func (c *client) waitForChange(ctx context.Context, r signingRequest) error {
	began := time.Now()
	query := url.Values{
		"watch": {"true"}, "fieldSelector": {"metadata.name=" + r.Metadata.Name}, "resourceVersion": {r.Metadata.ResourceVersion},
		"timeoutSeconds": {fmt.Sprint(int(watchTimeout.Seconds()))},
	}
	body, err := c.open(ctx, http.MethodGet, requestsPath+"?"+query.Encode(), "", nil)
	if err != nil {
		return fmt.Errorf("watching: %w", err)
	}
	defer body.Close()
	err = readEvents(body, func(e event) error {
		if e.Type == "BOOKMARK" {
			return nil
		}
		return errChanged
	})
	if errors.Is(err, errChanged) {
		return nil
	}
	if err != nil && !hasCode(err, http.StatusGone) {
		return fmt.Errorf("watching: %w", err)
	}
	if time.Since(began) < firstPause { // pause between requests to a server that ends watches immediately
		return backoff.Sleep(ctx, firstPause)
	}
	return ctx.Err()
}
