package apiclient

import (
	"context"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/identity"
)

// Issue implements identity.Requester. It creates the request if it does not exist, and waits for the answer. The API server deletes requests that
// stay unanswered for a day; the caller's next attempt then creates the request again.
func (a *Client) Issue(ctx context.Context, p identity.Pending) ([]byte, error) {
	if err := a.createRequest(ctx, p); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	for {
		request, err := a.getRequest(ctx, p.Name)
		if err != nil {
			return nil, err
		}
		if request, err = a.awaitAnswer(ctx, request); err != nil {
			return nil, err
		}
		if done, err := answered(request); done {
			return request.Status.Certificate, err
		}
	}
}

// answered reports whether a request has been issued or refused.
func answered(r *certificatesv1.CertificateSigningRequest) (bool, error) {
	for _, c := range r.Status.Conditions {
		if c.Type == certificatesv1.CertificateDenied || c.Type == certificatesv1.CertificateFailed {
			return true, fmt.Errorf("%w: %s is %s, %s: %s", identity.ErrRefused, r.Name, c.Type, c.Reason, c.Message)
		}
	}
	return len(r.Status.Certificate) > 0, nil
}

// awaitAnswer returns the request once it is answered, or its last state when it is deleted or the watch ends.
func (a *Client) awaitAnswer(ctx context.Context, r *certificatesv1.CertificateSigningRequest) (*certificatesv1.CertificateSigningRequest, error) {
	if done, _ := answered(r); done {
		return r, nil
	}
	w, err := a.watchRequest(ctx, r.Name, r.ResourceVersion)
	if err != nil {
		return nil, fmt.Errorf("watching: %w", err)
	}
	defer w.Stop()
	began := time.Now()
	for event := range w.ResultChan() {
		current, ok := event.Object.(*certificatesv1.CertificateSigningRequest)
		if !ok || event.Type == watch.Deleted {
			break
		}
		if done, _ := answered(current); done {
			return current, nil
		}
	}
	if time.Since(began) < time.Second { // do not retry without a pause if watches end immediately
		return r, backoff.Sleep(ctx, time.Second)
	}
	return r, ctx.Err()
}
