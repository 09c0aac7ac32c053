package sim

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// environment is the machine's environment.
type environment struct{ boot *boot }

// Set implements hostapi.Environment. Each variable is a separate change.
func (e environment) Set(ctx context.Context, variables map[string]string, owned []string) (changed []string, err error) {
	if err := hostapi.CheckVariables(variables); err != nil {
		return nil, fmt.Errorf("setting the environment of the machine: %w", err)
	}
	w := e.boot.w
	if err := e.boot.lock(ctx); err != nil {
		return nil, err
	}
	defer w.mu.Unlock()
	wanted := slices.Sorted(maps.Keys(variables))
	for _, name := range wanted {
		key, found := spelled(w.environment, name)
		if found && w.environment[key] == variables[name] {
			continue
		}
		if err := e.boot.changeLocked("variable " + name); err != nil {
			return changed, err
		}
		w.environment[key] = variables[name]
		changed = append(changed, name)
	}
	for _, name := range owned {
		key, found := spelled(w.environment, name)
		if _, keep := spelled(variables, name); !found || keep {
			continue
		}
		if err := e.boot.changeLocked("variable " + name); err != nil {
			return changed, err
		}
		delete(w.environment, key)
		changed = append(changed, name)
	}
	slices.Sort(changed)
	return changed, nil
}

// spelled finds a variable without regard to case, and returns its existing spelling.
func spelled(variables map[string]string, name string) (string, bool) {
	for key := range variables {
		if strings.EqualFold(key, name) {
			return key, true
		}
	}
	return name, false
}

// merged returns variables, overridden by others.
func merged(variables, others map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, variables)
	for name, value := range others {
		key, _ := spelled(all, name)
		delete(all, key)
		all[name] = value
	}
	return all
}

// SetVariable sets a variable of the machine, like another program: it does not count as a change.
func (w *Windows) SetVariable(name, value string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key, _ := spelled(w.environment, name)
	w.environment[key] = value
}

// Environment returns the machine's environment in the registry.
func (w *Windows) Environment() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.environment)
}

// certificates are the trusted certificates of the machine.
type certificates struct{ boot *boot }

// List implements hostapi.Certificates.
func (c certificates) List(ctx context.Context) ([]string, error) {
	if err := c.boot.lock(ctx); err != nil {
		return nil, err
	}
	defer c.boot.w.mu.Unlock()
	return slices.Sorted(maps.Keys(c.boot.w.trusted)), nil
}

// Add implements hostapi.Certificates.
func (c certificates) Add(ctx context.Context, der []byte) (added bool, err error) {
	if _, err := x509.ParseCertificate(der); err != nil {
		return false, fmt.Errorf("trusting a certificate: it is invalid: %w", err)
	}
	sum := sha256.Sum256(der)
	return c.set(ctx, hex.EncodeToString(sum[:]), true)
}

// Remove implements hostapi.Certificates.
func (c certificates) Remove(ctx context.Context, hash string) (removed bool, err error) {
	return c.set(ctx, hash, false)
}

func (c certificates) set(ctx context.Context, hash string, trusted bool) (changed bool, err error) {
	w := c.boot.w
	if err := c.boot.lock(ctx); err != nil {
		return false, err
	}
	defer w.mu.Unlock()
	if w.trusted[hash] == trusted {
		return false, nil
	}
	if err := c.boot.changeLocked("certificate " + hash); err != nil {
		return false, err
	}
	if trusted {
		w.trusted[hash] = true
	} else {
		delete(w.trusted, hash)
	}
	return true, nil
}
