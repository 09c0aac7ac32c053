package acceptance

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/shared/httpclient"
	"github.com/windows-machine-config/wmco/internal/testing/controlplane"
)

const (
	// callTimeout limits a request to the API server, and maxAnswer the size of a response, in bytes.
	callTimeout = 30 * time.Second
	maxAnswer   = 16 << 20
	// pollInterval is the pause between two checks.
	pollInterval = time.Second
)

// apiServer is a client with the rights of a cluster administrator. A Kubernetes client library would double the size of this program.
type apiServer struct {
	url  string
	http *http.Client
}

func newAPIServer(url string, c controlplane.Credentials) (apiServer, error) {
	certificate, err := tls.X509KeyPair(c.Admin.Cert, c.Admin.Key)
	if err != nil {
		return apiServer{}, fmt.Errorf("reading the administrator's certificate: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.CA.PEM)
	transport := httpclient.Transport(&tls.Config{RootCAs: roots, Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13})
	transport.Proxy = nil // the API server runs on this machine
	return apiServer{url: url, http: httpclient.New(transport, callTimeout)}, nil
}

// get reads an object. It returns errAbsent if there is none.
func (a apiServer) get(ctx context.Context, path string, result any) error {
	return a.call(ctx, http.MethodGet, path, nil, result)
}

// create creates an object in a collection and, unless result is nil, decodes the response into it.
func (a apiServer) create(ctx context.Context, path string, object, result any) error {
	return a.call(ctx, http.MethodPost, path, object, result)
}

// patch applies a JSON merge patch (RFC 7396) to an object.
func (a apiServer) patch(ctx context.Context, path string, fields any) error {
	return a.call(ctx, http.MethodPatch, path, fields, nil)
}

// remove deletes an object. An absent one is not an error.
func (a apiServer) remove(ctx context.Context, path string) error {
	err := a.call(ctx, http.MethodDelete, path, nil, nil)
	if errors.Is(err, errAbsent) {
		return nil
	}
	return err
}

// errAbsent is what apiServer returns for an object that does not exist.
var errAbsent = errors.New("not found")

func (a apiServer) call(ctx context.Context, method, path string, object, result any) error {
	var body io.Reader
	if object != nil {
		text, err := json.Marshal(object)
		if err != nil {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
		body = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, a.url+path, body)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	request.Header.Set("Accept", "application/json")
	response, err := a.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	switch {
	case err != nil:
		return fmt.Errorf("%s %s: %w", method, path, err)
	case response.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%s %s: %w", method, path, errAbsent)
	case response.StatusCode >= http.StatusBadRequest:
		var status metav1.Status
		_ = json.Unmarshal(answer, &status) // without a status object, the status code has to suffice
		return fmt.Errorf("%s %s: %s: %s", method, path, response.Status, status.Message)
	case result == nil:
		return nil
	}
	if err := json.Unmarshal(answer, result); err != nil {
		return fmt.Errorf("%s %s: reading the response: %w", method, path, err)
	}
	return nil
}

// await polls check until nothing is missing, check fails, or ctx ends. In the last case, the error includes what was missing.
func await(ctx context.Context, problem string, check func(context.Context) (missing string, err error)) error {
	last := "not checked yet"
	for {
		missing, err := check(ctx)
		if err != nil || missing == "" {
			return err
		}
		if ctx.Err() == nil { // otherwise the error only repeats that ctx ended
			last = missing
		}
		if err := backoff.Sleep(ctx, pollInterval); err != nil {
			return fmt.Errorf("%s: %w: %s", problem, err, last)
		}
	}
}
