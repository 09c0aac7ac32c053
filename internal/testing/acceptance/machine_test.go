package acceptance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// computer is a simulated computer with the Windows programs that probes use.
type computer struct {
	*sim.Windows
	feature string // state of testFeature
	hyperV  string // state of Hyper-V in the output of dism.exe; empty if unknown to it
	restart bool   // whether a restart is scheduled
	// security is whether virtualization-based security runs.
	security bool
	shell    string // output of reg.exe for the default shell of OpenSSH
}

func newComputer(t *testing.T) *computer {
	t.Helper()
	c := &computer{feature: "Disabled", hyperV: "Disabled", Windows: sim.NewWindows(sim.WindowsOptions{
		Root: t.TempDir(), Hostname: "WIN-ACC", NoQuirks: "each verdict is expected", Features: map[string]wicdapi.FeatureState{"Containers": wicdapi.FeatureDisabled, testFeature: wicdapi.FeatureDisabled},
	})}
	t.Cleanup(c.PowerOff)
	if _, err := c.Disk().MakeFolder(hostapi.Parent(Root)); err != nil {
		t.Fatal(err)
	}
	c.AddRule(sim.Rule{FirewallRule: desired.FirewallRule{Name: "foreign", Protocol: desired.TCP, Ports: []uint16{22}}})
	return c
}

func (c *computer) machine() Machine {
	h := c.Host()
	h.Programs = c
	h.System = features{h.System, c}
	return Machine{Host: h, Elevated: true}
}

// features are the computer's features, as dism.exe reports them.
type features struct {
	hostapi.System
	c *computer
}

func (f features) EnableFeature(ctx context.Context, name string) (bool, error) {
	reboot, err := f.System.EnableFeature(ctx, name)
	if err == nil && name == testFeature {
		f.c.feature = "Enabled"
	}
	return reboot, err
}

// Run implements wicdapi.Runner.
func (c *computer) Run(_ context.Context, command string, _ io.Reader, stdout io.Writer) error {
	words := strings.Fields(strings.TrimPrefix(command, system32))
	switch {
	case words[0] == "dism.exe" && words[3] == "/Get-FeatureInfo":
		name, state := strings.TrimPrefix(words[4], "/FeatureName:"), c.feature
		if name == desired.HyperVFeature {
			state = c.hyperV
		}
		if state == "" { // an edition without this feature
			fmt.Fprint(stdout, "Error: 0x800f080c\r\n")
			return exitCode(1)
		}
		fmt.Fprintf(stdout, "Feature Name : %s\r\n\r\nState : %s\r\nRestart Required : Possible\r\n", name, state)
	case words[0] == "dism.exe":
		c.feature = "Disabled"
	case c.security && strings.Contains(command, "VirtualizationBasedSecurityStatus"):
		fmt.Fprint(stdout, "\ufeff2\r\n")
	case c.shell != "" && words[0] == "reg.exe" && words[2] == openSSHKey:
		fmt.Fprint(stdout, c.shell)
	case words[0] == "reg.exe":
		return exitCode(1)
	case words[0] == "route.exe":
		c.LoseRoutes()
	case words[0] == "shutdown.exe" && words[1] == "/a":
		c.restart = false
	case words[0] == "shutdown.exe" && c.restart:
		return exitCode(shutdownScheduled)
	case words[0] == "shutdown.exe":
		c.restart = true
	default:
		return fs.ErrNotExist
	}
	return nil
}

// exitCode is the error of a program that ended with this exit code.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit status %d", int(e)) }
func (e exitCode) ExitCode() int { return int(e) }

// state is everything on the computer that probes change. A pending restart is not included, because the simulated computer sets it even if it is
// renamed to its current name.
type state struct {
	Feature   string
	Restart   bool
	Hostname  string
	Rules     []sim.Rule
	Routes    []hostapi.Route
	Roots     []string
	Defender  sim.Defender
	Leftovers []string
}

func (c *computer) state(t *testing.T) state {
	t.Helper()
	h := c.Host()
	facts, err := h.System.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	roots, err := h.Certificates.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := state{
		Feature: c.feature, Restart: c.restart, Hostname: facts.Hostname, Rules: c.Rules(), Routes: c.Routes(), Roots: roots,
		Defender: c.Defender(),
	}
	s.Defender.Writes = 0
	if h.Disk.Exists(Root) {
		s.Leftovers, _ = h.Disk.List(Root)
		s.Leftovers = append(s.Leftovers, Root)
	}
	return s
}

// failingDefender fails to remove exclusions.
type failingDefender struct{ hostapi.Defender }

func (failingDefender) Remove(context.Context, desired.Exclusions) error {
	return errors.New("it refuses")
}

func mustPut(t *testing.T, m *Machine, s desired.Service) {
	t.Helper()
	if _, err := m.Host.Services.Put(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}
