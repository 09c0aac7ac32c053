// Package contract holds the tests that every Windows behind the daemon's ports must pass, the real one and the
// simulated one alike. An implementation calls Services, Probes, System, Rights, Environment, Certificates, Containers, Networks and NextStart from
// tests of its own, with a fixture that says how its world is prepared.
package contract

import (
	"context"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/host"
)

// patience bounds every wait of the tests. A host that is well needs a fraction of it.
const patience = 30 * time.Second

// Names of the services that the tests make. The fixture removes those an earlier run has left.
const (
	First  = "wicd-contract-first"
	Second = "wicd-contract-second"
	Third  = "wicd-contract-third"
)

// Names returns First, Second and Third.
func Names() []string { return []string{First, Second, Third} }

// ServicesFixture is one service control manager for one test, in which no service of Names exists. Whatever the
// test leaves behind is the fixture's to remove (t.Cleanup).
type ServicesFixture struct {
	Services host.Services
	Changes  host.Changes
	// Runs is the command line of a program that runs as a service until it is asked to stop.
	Runs string
	// AlsoRuns is another command line that does the same; it has an argument with a space in quotes.
	AlsoRuns string
	// Missing is the command line of a program that does not exist.
	Missing string
	// Crash ends the process of a running service from outside, with an exit code other than zero.
	Crash func(t *testing.T, name string)
	// Edits change the declaration of a service as somebody else would, each in one way.
	Edits map[string]func(t *testing.T, name string)
	// Delete deletes a service as somebody else would; one that runs goes when it has stopped.
	Delete func(t *testing.T, name string)
	// DeleteItself makes the program of a running service delete the service by Services.Delete, and go on running. It returns
	// when that is done.
	DeleteItself func(t *testing.T, name string)
	// End makes the program of a running service stop by itself, with this exit code: 0 or 1.
	End func(t *testing.T, name string, code uint32)
	// Recovery is how long the service manager waits before it starts again what failed. NoRecovery says why it does
	// not; empty when it does.
	Recovery   time.Duration
	NoRecovery string
	// Variables is the environment with which the process of a running service started. NoVariables says why this
	// service manager does not give a service its own; empty when it does.
	Variables   func(t *testing.T, name string) map[string]string
	NoVariables string
}

func declare(name, command string, dependsOn ...string) desired.Service {
	return desired.Service{Name: name, Description: desired.ServiceDescription(name), Command: command, DependsOn: dependsOn}
}

func mustPut(t *testing.T, f ServicesFixture, services ...desired.Service) {
	t.Helper()
	for _, s := range services {
		if _, err := f.Services.Put(deadline(t), s); err != nil {
			t.Fatalf("putting %s: %v", s.Name, err)
		}
	}
}

func mustStart(t *testing.T, f ServicesFixture, name string) {
	t.Helper()
	if err := f.Services.Start(deadline(t), name); err != nil {
		t.Fatalf("starting %s: %v", name, err)
	}
}

// mustList returns the services of the tests by name.
func mustList(t *testing.T, f ServicesFixture) map[string]host.Service {
	t.Helper()
	list, err := f.Services.List(deadline(t), Names())
	if err != nil {
		t.Fatalf("listing services: %v", err)
	}
	found := map[string]host.Service{}
	for _, s := range list {
		if _, twice := found[s.Name]; twice {
			t.Errorf("%s is listed twice", s.Name)
		}
		found[s.Name] = s
	}
	return found
}

// eventually waits for what happens without a message to wait for.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(patience); !holds(); {
		select {
		case <-end:
			t.Fatalf("waited %v in vain until %s", patience, what)
		case <-tick.C:
		}
	}
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}
