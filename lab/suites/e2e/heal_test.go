//go:build linux

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
)

// TestServiceRepair changes and stops the real services of a node on a Wine host, and checks that WICD repairs them without the operator.
func TestServiceRepair(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunRegistries())
	p := newHarness(t, testenv.Options{WineHosts: 1, Components: []string{"windows_exporter"}})
	p.joinAll()
	w := repairTest{harness: p, host: p.Lab.Hosts()[0]}
	w.name = operatorObject(w.host.Address())
	w.eventually("all services run", func(context.Context) string { _, missing := w.processes(); return missing })
	w.declared = w.declarations()
	connections := w.connections()
	for _, service := range []string{"windows_exporter", "kubelet", "containerd"} {
		t.Run(service, func(t *testing.T) { w.withT(t).repairs(service) })
	}
	t.Run("WICD", func(t *testing.T) { w.withT(t).repairsDaemon() })
	t.Run("WithoutWICD", func(t *testing.T) { w.withT(t).runsWithoutDaemon() })
	t.Run("RebootWithoutAPIServer", func(t *testing.T) { w.withT(t).rebootWithoutAPIServer() })
	if n := w.connections() - connections; n != 0 {
		t.Errorf("the operator connected %d times, want 0", n)
	}
	t.Run("DeletedNodeRegistersAgain", func(t *testing.T) { w.withT(t).registersAgain() })
}

// repairTest is a harness with one host whose services are damaged.
type repairTest struct {
	harness
	host *lab.Host
	name types.NamespacedName
	// declared are the correct configurations of the services.
	declared map[string]declaration
}

// declaration is the configuration of a service in the registry.
type declaration struct {
	Command   string
	Start     uint64
	DependsOn []string
}

func (w repairTest) withT(t *testing.T) repairTest {
	w.harness = w.harness.withT(t)
	return w
}

func (w repairTest) connections() int {
	w.t.Helper()
	stats, err := w.host.Stats()
	must(w.t, err)
	return stats.Connections
}

// services returns all services of a node, including WICD.
func services() []string {
	return []string{"containerd", "kubelet", "windows_exporter", api.WICDService}
}

// processes returns the processes of the services; missing lists those that do not run.
func (w repairTest) processes() (pids map[string]uint32, missing string) {
	w.t.Helper()
	all, err := w.host.Services(w.t.Context())
	if err != nil {
		return nil, err.Error()
	}
	pids = map[string]uint32{}
	for _, s := range all {
		if slices.Contains(services(), s.Name) && s.State == "running" {
			pids[s.Name] = s.PID
		}
	}
	for _, name := range services() {
		if pids[name] == 0 {
			missing += "service " + name + " does not run; "
		}
	}
	return pids, missing
}

func (w repairTest) pids() map[string]uint32 {
	w.t.Helper()
	pids, missing := w.processes()
	if missing != "" {
		w.t.Fatal(missing)
	}
	return pids
}

func (w repairTest) declarations() map[string]declaration {
	w.t.Helper()
	all := map[string]declaration{}
	for _, name := range services() {
		values := map[string]guestapi.RegistryValue{}
		for _, value := range []string{"ImagePath", "Start", "DependOnService"} {
			v, _, err := w.host.ReadRegistry(w.t.Context(), `HKLM\SYSTEM\CurrentControlSet\Services\`+name, value)
			must(w.t, err)
			values[value] = v
		}
		all[name] = declaration{values["ImagePath"].Text, values["Start"].Number, values["DependOnService"].Texts}
	}
	return all
}

// damage is a change of a service that WICD must repair.
type damage struct {
	name string
	do   func(context.Context) error
	// restarts are the services that must restart; mayRestart are others that can.
	restarts, mayRestart []string
}

// repairs damages a service in several ways.
func (w repairTest) repairs(service string) {
	dependent := []string{service} // with the services that stop together with it
	if service == "containerd" {
		dependent = append(dependent, "kubelet")
	}
	onService := func(do func(context.Context, string) error) func(context.Context) error {
		return func(ctx context.Context) error { return do(ctx, service) }
	}
	deleted := func(ctx context.Context) error {
		// Unlike Windows, Wine's service manager does not report that a running service was deleted.
		return errors.Join(w.host.DeleteService(ctx, service), w.host.StopService(ctx, service))
	}
	edited := guestapi.ServiceEdit{
		Name: service, Command: w.declared[service].Command + " --other", DependsOn: []string{"Eventlog"}, Disabled: true,
	}
	for _, d := range []damage{
		// An edit while WICD configures the services is reverted by that; the process then still has the right configuration.
		{"edited", func(ctx context.Context) error { return w.host.EditService(ctx, edited) }, nil, dependent},
		{"killed", onService(w.host.KillService), []string{service}, nil},
		{"stopped", onService(w.host.StopService), []string{service}, nil},
		{"deleted", deleted, []string{service}, dependent}, // WICD can restart it before it detects the deletion
	} {
		w.repair(service, d)
	}
	w.expectReady(w.name)
	if missing := notReady(w.node("win-1")); missing != "" {
		w.t.Error(missing)
	}
}

// repairsDaemon changes the configuration of WICD's own service, which WICD repairs without restarting.
func (w repairTest) repairsDaemon() {
	edited := guestapi.ServiceEdit{
		Name: api.WICDService, Command: `C:\windows\system32\notepad.exe`, DependsOn: []string{"Eventlog"}, Disabled: true,
	}
	w.repair(api.WICDService, damage{name: "edited", do: func(ctx context.Context) error { return w.host.EditService(ctx, edited) }})
}

// runsWithoutDaemon stops WICD and changes a running service. The service must continue to run, and must be repaired after WICD is
// started.
func (w repairTest) runsWithoutDaemon() {
	without := func(ctx context.Context) error {
		if err := w.host.StopService(ctx, api.WICDService); err != nil {
			return err
		}
		w.eventually("WICD stops", func(ctx context.Context) string {
			if s, _, err := w.host.Service(ctx, api.WICDService); err != nil || s.State != "stopped" {
				return fmt.Sprintf("state %s (%v)", s.State, err)
			}
			return ""
		})
		err := w.host.EditService(ctx, guestapi.ServiceEdit{Name: "kubelet", Disabled: true})
		return errors.Join(err, w.host.StartService(ctx, api.WICDService))
	}
	w.repair(api.WICDService, damage{name: "stopped and started", do: without, restarts: []string{api.WICDService}})
}

// stableFor is how long processes must stay the same.
const stableFor = 2 * time.Second

// repair damages a service, and waits until all services have their configuration and those that must restart have restarted.
func (w repairTest) repair(service string, d damage) {
	w.t.Helper()
	before := w.pids()
	began := time.Now()
	must(w.t, d.do(w.t.Context()))
	var current map[string]uint32 // processes
	var since time.Time
	w.eventually(fmt.Sprintf("service %s, which was %s, is repaired", service, d.name), func(context.Context) string {
		pids, missing := w.processes()
		if !maps.Equal(pids, current) {
			current, since = pids, time.Now()
		}
		for _, name := range d.restarts {
			if pids[name] == before[name] {
				missing += "service " + name + " has not restarted; "
			}
		}
		if missing != "" {
			return missing
		}
		if diff := cmp.Diff(w.declared, w.declarations()); diff != "" {
			return diff
		}
		if time.Since(since) < stableFor {
			return "processes may still change"
		}
		return ""
	})
	w.t.Logf("%s was %s: repaired after %.1f s", service, d.name, since.Sub(began).Seconds())
	for name, pid := range w.pids() {
		if pid != before[name] && !slices.Contains(d.restarts, name) && !slices.Contains(d.mayRestart, name) {
			w.t.Errorf("service %s was restarted although only %s was %s", name, service, d.name)
		}
	}
}

// rebootWithoutAPIServer reboots the host while the API server is down.
func (w repairTest) rebootWithoutAPIServer() {
	boot := w.node("win-1").Status.NodeInfo.BootID
	stop := w.keepOperatorRunning()
	defer stop()
	w.Lab.ControlPlane.StopAPIServer()
	entries := len(w.journal())
	began := time.Now()
	must(w.t, w.host.Reboot(w.t.Context()))
	w.eventually("all services run without the API server", func(context.Context) string { _, missing := w.processes(); return missing })
	w.t.Logf("all services run %.1f s after the reboot began", time.Since(began).Seconds())
	if diff := cmp.Diff(w.declared, w.declarations()); diff != "" {
		w.t.Errorf("services (-before +after the reboot):\n%s", diff)
	}
	before := w.pids()
	must(w.t, w.Lab.ControlPlane.StartAPIServer(w.t.Context()))
	w.expectBooted("win-1", boot)
	w.expectReady(w.name)
	if after := w.pids(); !maps.Equal(before, after) {
		w.t.Errorf("services were restarted when the API server was started: got %v, want %v", after, before)
	}
	for _, entry := range w.journal()[entries:] {
		if entry.Error != "" || !strings.HasSuffix(entry.Change, " started") {
			w.t.Errorf("unexpected journal entry after the reboot: %+v", entry)
		}
	}
}

// journal returns the entries of WICD's journal.
func (w repairTest) journal() (entries []wicdapi.JournalEntry) {
	w.t.Helper()
	text, err := w.host.ReadFile(`C:\k\state\journal.jsonl`)
	must(w.t, err)
	for line := range bytes.Lines(text) {
		var e wicdapi.JournalEntry
		must(w.t, json.Unmarshal(line, &e))
		entries = append(entries, e)
	}
	return entries
}

// registersAgain deletes the Node and reboots the host, as many administrators do to repair a node. The kubelet registers the Node again before Windows
// has an address.
func (w repairTest) registersAgain() {
	before := w.node("win-1")
	w.remove(before)
	must(w.t, w.host.Reboot(w.t.Context()))
	w.eventually("the instance has another Node", func(context.Context) string {
		if i := w.instance(w.name); i.Status.NodeRef == nil || i.Status.NodeRef.UID == before.UID {
			return fmt.Sprintf("got status %+v", i.Status)
		}
		return ""
	})
	w.expectAllReady()
}
