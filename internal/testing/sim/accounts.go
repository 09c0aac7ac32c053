package sim

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// Accounts is what the computer has for group Managed Service Accounts.
type Accounts struct {
	// Domain is the name of the domain that it is joined to; empty for none.
	Domain string
	// Plugins are the registered plugins of Container Credential Guard by key name. The value is true if the plugin's class exists.
	Plugins map[string]bool
	// Fails makes each call fail.
	Fails error
}

// accounts are those of one boot.
type accounts struct{ boot *boot }

// Domain implements hostapi.Accounts.
func (a accounts) Domain(ctx context.Context) (string, error) {
	got, err := a.get(ctx)
	return got.Domain, err
}

// Plugins implements hostapi.Accounts.
func (a accounts) Plugins(ctx context.Context) (plugins []string, err error) {
	got, err := a.get(ctx)
	guid := regexp.MustCompile(`(?i)^\{[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}\}$`)
	for name, hasClass := range got.Plugins {
		if hasClass && guid.MatchString(name) {
			plugins = append(plugins, strings.ToUpper(name))
		}
	}
	slices.Sort(plugins)
	return plugins[:min(len(plugins), hostapi.MaxPlugins)], err
}

func (a accounts) get(ctx context.Context) (Accounts, error) {
	w := a.boot.w
	if err := a.boot.lock(ctx); err != nil {
		return Accounts{}, err
	}
	defer w.mu.Unlock()
	if w.accounts.Fails != nil {
		return Accounts{}, w.accounts.Fails
	}
	return Accounts{Domain: w.accounts.Domain, Plugins: maps.Clone(w.accounts.Plugins)}, nil
}

// EditAccounts changes what the computer has for group Managed Service Accounts, like an administrator.
func (w *Windows) EditAccounts(edit func(*Accounts)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	edit(&w.accounts)
}
