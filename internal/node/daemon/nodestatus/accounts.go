package nodestatus

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// accountsInterval is how often the support for group Managed Service Accounts is checked. Windows has no notification for it.
const accountsInterval = 10 * time.Minute

// Accounts checks whether the host has what containers need for group Managed Service Accounts, and reports it to the Node.
type Accounts struct {
	state.Session
	wake state.Signal

	mu   sync.Mutex
	last accounts
}

// accounts is the result of a check; reason is empty before the first.
type accounts struct{ reason, message string }

// NewAccounts returns an Accounts, which sends wake when there is something to report.
func NewAccounts(s state.Session, wake state.Signal) *Accounts {
	return &Accounts{Session: s, wake: wake}
}

// Run checks until ctx is done.
func (a *Accounts) Run(ctx context.Context) {
	for ctx.Err() == nil {
		current, err := a.check(ctx)
		if err != nil && ctx.Err() == nil {
			a.Log.Warn("Reading the domain and the plugins of Container Credential Guard failed", "error", err.Error())
		}
		if err == nil && a.set(current) {
			a.wake.Send()
		}
		_ = backoff.Sleep(ctx, accountsInterval)
	}
}

func (a *Accounts) check(ctx context.Context) (accounts, error) {
	domain, err := a.Host.Accounts.Domain(ctx)
	if err != nil {
		return accounts{}, err
	}
	plugins, err := a.Host.Accounts.Plugins(ctx)
	if err != nil {
		return accounts{}, err
	}
	return capability(domain, plugins), nil
}

// capability returns what the Node reports for a domain and plugins.
func capability(domain string, plugins []string) accounts {
	var parts []string
	current := accounts{reason: api.ReasonNotInDomain}
	if len(plugins) > 0 {
		current.reason = api.ReasonCredentialPlugin
		parts = append(parts, "plugins of Container Credential Guard are registered: "+truncate.List(plugins, 4, ", "))
	}
	if domain != "" {
		current.reason = api.ReasonDomainJoined
		parts = append([]string{fmt.Sprintf("the host is joined to domain %q", domain)}, parts...)
	}
	if len(parts) == 0 {
		parts = []string{"the host is not joined to a domain and has no plugin of Container Credential Guard"}
	}
	current.message = truncate.Text(strings.Join(parts, "; "), truncate.Note)
	return current
}

// set stores the result and reports whether it is new.
func (a *Accounts) set(current accounts) (changed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	changed = a.last != current
	a.last = current
	return changed
}

// ReportTo reports the support for group Managed Service Accounts by a condition. A Node that never had any gets no condition.
func (a *Accounts) ReportTo(ctx context.Context, w *Writer, node *corev1.Node) error {
	a.mu.Lock()
	current := a.last
	a.mu.Unlock()
	next := corev1.NodeCondition{Type: api.ConditionGMSACapable, Status: corev1.ConditionTrue, Reason: current.reason, Message: current.message}
	if current.reason == api.ReasonNotInDomain {
		next.Status = corev1.ConditionFalse
	}
	if current.reason == "" || next.Status == corev1.ConditionFalse && nodestate.Condition(node, next.Type) == nil {
		return nil
	}
	return w.SetCondition(ctx, node, next)
}
