// Package contract has the tests that every implementation of the daemon's ports must pass, the real and the simulated Windows.
// An implementation calls Services, Probes, System, Rights, Environment, Certificates, Containers, Networks, ACLs and NextStart
// from its own tests, with a fixture.
package contract

import (
	"context"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// test is one test of a contract. It gets its own fixture.
type test[F any] struct {
	name string
	run  func(t *testing.T, f F)
}

func run[F any](t *testing.T, fixture func(t *testing.T) F, tests []test[F]) {
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.run(t, fixture(t)) })
	}
}

// waitTimeout is the timeout of the tests. A healthy host needs a fraction of it.
const waitTimeout = 30 * time.Second

// Names of the tests' services. The fixture removes those of earlier runs.
const (
	First  = "wicd-contract-first"
	Second = "wicd-contract-second"
	Third  = "wicd-contract-third"
)

// Names returns First, Second and Third.
func Names() []string { return []string{First, Second, Third} }

// ServicesFixture is a service control manager for one test, without services of Names. The fixture cleans up after the test
// (t.Cleanup).
type ServicesFixture struct {
	Services hostapi.Services
	Changes  hostapi.Changes
	// Runs is the command line of a program that runs as a service until it is stopped.
	Runs string
	// AlsoRuns is another command line that does the same; it has an argument with a space in quotes.
	AlsoRuns string
	// Missing is the command line of a program that does not exist.
	Missing string
	// Crash kills the process of a running service, with an exit code other than zero.
	Crash func(t *testing.T, name string)
	// Edits change the declaration of a service like other programs, each in one way.
	Edits map[string]func(t *testing.T, name string)
	// Delete deletes a service, like another program; a running one exists until it has stopped.
	Delete func(t *testing.T, name string)
	// DeleteItself makes the program of a running service delete the service by Services.Delete and continue to run. It returns after the deletion.
	DeleteItself func(t *testing.T, name string)
	// End makes the program of a running service stop on its own with this exit code: 0 or 1.
	End func(t *testing.T, name string, code uint32)
	// Recovery is how long the service manager waits before it restarts a failed service. NoRecovery is why it does not; empty if
	// it does.
	Recovery   time.Duration
	NoRecovery string
	// Variables is the environment with which the process of a running service started. NoVariables is why this service manager
	// does not support an environment for a service; empty if it does.
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
func mustList(t *testing.T, f ServicesFixture) map[string]hostapi.Service {
	t.Helper()
	list, err := f.Services.List(deadline(t), Names())
	if err != nil {
		t.Fatalf("listing services: %v", err)
	}
	found := map[string]hostapi.Service{}
	for _, s := range list {
		if _, twice := found[s.Name]; twice {
			t.Errorf("%s is listed twice", s.Name)
		}
		found[s.Name] = s
	}
	return found
}

// eventually polls until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(waitTimeout); !holds(); {
		select {
		case <-end:
			t.Fatalf("timed out after %v: %s", waitTimeout, what)
		case <-tick.C:
		}
	}
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	t.Cleanup(cancel)
	return ctx
}

// canceled returns a context that has ended.
func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
