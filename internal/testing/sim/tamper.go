package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// Probe implements hostapi.Probes: a service answers at its declared address once it has been running for its Startup.
func (b *boot) Probe(ctx context.Context, address string) error {
	w := b.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if b.off {
		return ErrPower
	}
	for name, d := range w.declared {
		p := b.running[name]
		if d.ready != address || p == nil || p.stopping {
			continue
		}
		if d.silent || time.Since(p.since) < w.options.Startup[name] {
			return fmt.Errorf("probing %s: service %s does not respond", address, name)
		}
		return ctx.Err()
	}
	return fmt.Errorf("probing %s: connection refused", address)
}

// Silence makes the program of a running service stop answering probes, until it is called with false.
func (w *Windows) Silence(service string, silent bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if d := w.declared[service]; d != nil {
		d.silent = silent
	}
}

// Edit changes the declaration of a service, like another program: it does not count as a change.
func (w *Windows) Edit(service string, edit func(*desired.Service)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if d := w.declared[service]; d != nil {
		edited := kept(d.Service)
		edit(&edited)
		d.Service = kept(edited)
		w.boot.watches.notify(service)
	}
}

// Disable disables a service, like another program.
func (w *Windows) Disable(service string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if d := w.declared[service]; d != nil {
		d.disabled = true
		w.boot.watches.notify(service)
	}
}

// DeleteService deletes a service, like another program: a running one exists until it has stopped.
func (w *Windows) DeleteService(service string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.declared[service]
	switch {
	case d == nil:
		return
	case w.boot.running[service] == nil:
		delete(w.declared, service)
	default:
		d.deleted = true
	}
	w.boot.watches.notify(service)
}

// Disabled reports whether a service is disabled.
func (w *Windows) Disabled(service string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.declared[service]
	return d != nil && d.disabled
}

// Since returns when the process of a service started; zero if it does not run.
func (w *Windows) Since(service string) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.boot.running[service]; p != nil {
		return p.since
	}
	return time.Time{}
}
