package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/windows-machine-config/wmco/internal/shared/httpclient"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// Exit codes, documented in docs/kubectl-windows.md.
const (
	// CodeOK means success.
	CodeOK = 0
	// CodeFailed means a failure that has no code of its own.
	CodeFailed = 1
	// CodeUsage means that the command line is wrong.
	CodeUsage = 2
	// CodeFindings means that a check found errors, or that a host did not reach the requested state.
	CodeFindings = 3
	// CodeUnreachable means that there is no cluster, or that it does not respond.
	CodeUnreachable = 4
	// CodeForbidden means that the user lacks a permission or is unknown to the cluster.
	CodeForbidden = 5
	// CodeNotInstalled means that the cluster does not have the operator's kinds, or has old ones.
	CodeNotInstalled = 6
	// CodeNotFound means that there is no such host.
	CodeNotFound = 7
	// CodeTimeout means that the deadline named in the message passed.
	CodeTimeout = 8
)

// Failure is an error with its exit code.
type Failure struct {
	Code int
	Err  error
}

// Error implements error.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap implements errors.Unwrap.
func (f *Failure) Unwrap() error { return f.Err }

// Failf returns an error with an exit code.
func Failf(code int, format string, args ...any) error {
	return &Failure{Code: code, Err: fmt.Errorf(format, args...)}
}

// CodeOf returns the exit code for an error.
func CodeOf(err error) int {
	var f *Failure
	switch {
	case err == nil:
		return CodeOK
	case errors.As(err, &f):
		return f.Code
	case errors.Is(err, context.DeadlineExceeded):
		return CodeTimeout
	}
	return CodeFailed
}

// Explain renders the error of a request as one clear line with an exit code. operation names the request, as in "listing windowsinstances in
// namespace a".
func Explain(err error, operation string) error {
	var known *Failure
	var failed *url.Error
	var network net.Error
	var redirect *httpclient.Redirect
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return err
	case apierrors.IsForbidden(err):
		return Failf(CodeForbidden, "%s: missing permission: %s", operation, denied(err))
	case apierrors.IsUnauthorized(err):
		return Failf(CodeForbidden, "%s: the API server does not accept your credentials: log in again, or select another user with --context or --user", operation)
	case meta.IsNoMatchError(err):
		return Failf(CodeNotInstalled, "%s: the API server does not serve this kind: install the operator (docs/tasks/install.md)", operation)
	case errors.As(err, &redirect):
		return Failf(CodeFailed, "%s: %s: the request carries your credentials; check the server's address in the kubeconfig, and proxies in between", operation, redirect.By("the API server"))
	case errors.Is(err, context.Canceled):
		return Failf(CodeFailed, "%s: interrupted", operation)
	case errors.As(err, &network) && network.Timeout(), errors.Is(err, context.DeadlineExceeded), apierrors.IsTimeout(err):
		return Failf(CodeTimeout, "%s: no response from the API server within the deadline; increase it with --request-timeout", operation)
	case errors.As(err, &failed):
		return Failf(CodeUnreachable, "%s: cannot reach the API server: %s", operation, truncate.Printable(failed.Err.Error(), truncate.Note))
	}
	return Failf(CodeFailed, "%s: %s", operation, truncate.Printable(err.Error(), truncate.Note))
}

// denied names the missing permission, from the API server's message (k8s.io/apiserver, pkg/endpoints/handlers/responsewriters).
func denied(err error) string {
	message := truncate.Printable(err.Error(), truncate.Note)
	reported := regexp.MustCompile(`User "([^"]*)" cannot (\S+) resource "([^"]*)" in API group "([^"]*)"(.*?)(?::|$)`).FindStringSubmatch(message)
	if reported == nil {
		return message
	}
	resource := reported[3]
	if reported[4] != "" {
		resource += "." + reported[4]
	}
	return fmt.Sprintf("%s %s%s (user %s)", reported[2], resource, reported[5], reported[1])
}
