package overlay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/windows-machine-config/wmco/internal/backoff"
	"github.com/windows-machine-config/wmco/internal/identity"
)

const requestsPath = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

// signingRequest is the part of a CertificateSigningRequest that is written and read here.
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

// certificate returns what was issued, nothing while the request waits, or why it was refused.
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

// shortestLife is the shortest that a request may ask for.
const shortestLife = 10 * time.Minute

// createRequest creates the request. The life is exactly what OVN-Kubernetes allows, and the usages are those it demands.
func (c *client) createRequest(ctx context.Context, p identity.Pending, life time.Duration) error {
	r := signingRequest{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest"}
	r.Metadata.Name = p.Name
	r.Spec.Request, r.Spec.SignerName = p.Request, "kubernetes.io/kube-apiserver-client"
	r.Spec.ExpirationSeconds, r.Spec.Usages = int32(max(life, shortestLife).Seconds()), []string{"digital signature", "client auth"}
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return c.do(ctx, http.MethodPost, requestsPath, "application/json", body, nil)
}

// requester asks OVN-Kubernetes for certificates that live so long.
type requester struct {
	*client
	life time.Duration
}

// Issue implements identity.Requester. It makes the request, unless it is there, and waits until it is answered. The API server removes
// requests that nobody answered for a day; then the caller's next attempt makes it again.
func (r requester) Issue(ctx context.Context, p identity.Pending) ([]byte, error) {
	issued, err := r.awaitCertificate(ctx, p, r.life)
	if hasCode(err, http.StatusUnauthorized) {
		err = fmt.Errorf("%w: %w", identity.ErrRejected, err)
	}
	return issued, err
}

func (c *client) awaitCertificate(ctx context.Context, p identity.Pending, life time.Duration) ([]byte, error) {
	if err := c.createRequest(ctx, p, life); err != nil && !hasCode(err, http.StatusConflict) {
		return nil, err
	}
	for {
		var r signingRequest
		if err := c.do(ctx, http.MethodGet, requestsPath+"/"+url.PathEscape(p.Name), "", nil, &r); err != nil {
			return nil, err
		}
		if issued, err := r.certificate(); len(issued) > 0 || err != nil {
			return issued, err
		}
		if err := c.awaitChange(ctx, r); err != nil {
			return nil, err
		}
	}
}

// errChanged ends a watch.
var errChanged = errors.New("the object has changed")

// awaitChange returns when the request changed, or some time has gone by.
func (c *client) awaitChange(ctx context.Context, r signingRequest) error {
	began := time.Now()
	query := url.Values{
		"watch": {"true"}, "fieldSelector": {"metadata.name=" + r.Metadata.Name}, "resourceVersion": {r.Metadata.ResourceVersion},
		"timeoutSeconds": {fmt.Sprint(int(watchWithin.Seconds()))},
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
	if time.Since(began) < firstPause { // whoever ends watches at once must not be asked without pause
		return backoff.Sleep(ctx, firstPause)
	}
	return ctx.Err()
}
