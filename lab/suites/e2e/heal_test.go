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

// TestHealing changes and stops the real services of a node on a Windows host. The node repairs itself, without the operator.
func TestHealing(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunRegistries())
	p := newPlace(t, testenv.Options{WineHosts: 1, Components: []string{"windows_exporter"}})
	p.joinAll()
	w := ward{place: p, host: p.Lab.Hosts()[0]}
	w.name = ours(w.host.Address())
	w.eventually("all services run", func(context.Context) string { _, missing := w.processes(); return missing })
	w.declared = w.declarations()
	connections := w.connections()
	for _, service := range []string{"windows_exporter", "kubelet", "containerd"} {
		t.Run(service, func(t *testing.T) { w.in(t).repairs(service) })
	}
	t.Run("TheDaemon", func(t *testing.T) { w.in(t).repairsDaemon() })
	t.Run("WithoutTheDaemon", func(t *testing.T) { w.in(t).runsWithoutDaemon() })
	t.Run("ARestartWithoutTheAPIServer", func(t *testing.T) { w.in(t).restarts() })
	if n := w.connections() - connections; n != 0 {
		t.Errorf("the operator connected %d times", n)
	}
	t.Run("ADeletedNode", func(t *testing.T) { w.in(t).registersAgain() })
}

// ward is a place with one host whose services are damaged.
type ward struct {
	place
	host *lab.Host
	name types.NamespacedName
	// declared are the services' correct declarations.
	declared map[string]declaration
}

// declaration is the configuration of a service in the registry.
type declaration struct {
	Command   string
	Start     uint64
	DependsOn []string
}

func (w ward) in(t *testing.T) ward {
	w.place = w.place.in(t)
	return w
}

func (w ward) connections() int {
	w.t.Helper()
	stats, err := w.host.Stats()
	must(w.t, err)
	return stats.Connections
}

// services are all services of a node, including WICD.
func services() []string {
	return []string{"containerd", "kubelet", "windows_exporter", api.WICDService}
}

// processes returns the processes of the services; missing lists those that do not run.
func (w ward) processes() (pids map[string]uint32, missing string) {
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

func (w ward) pids() map[string]uint32 {
	w.t.Helper()
	pids, missing := w.processes()
	if missing != "" {
		w.t.Fatal(missing)
	}
	return pids
}

func (w ward) declarations() map[string]declaration {
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

// harm is a change of a service.
type harm struct {
	name string
	do   func(context.Context) error
	// restarts are the services that must restart; may are others that can.
	restarts, may []string
}

// repairs damages a service in several ways.
func (w ward) repairs(service string) {
	with := []string{service} // services that stop together with the service
	if service == "containerd" {
		with = append(with, "kubelet")
	}
	of := func(do func(context.Context, string) error) func(context.Context) error {
		return func(ctx context.Context) error { return do(ctx, service) }
	}
	deleted := func(ctx context.Context) error {
		// Unlike Windows, Wine's service manager does not report that a running service was deleted.
		return errors.Join(w.host.DeleteService(ctx, service), w.host.StopService(ctx, service))
	}
	edited := guestapi.ServiceEdit{
		Name: service, Command: w.declared[service].Command + " --other", DependsOn: []string{"Eventlog"}, Disabled: true,
	}
	for _, h := range []harm{
		// An edit during WICD's own declaration of the services is reverted by it; the process still has the right declaration.
		{"edited", func(ctx context.Context) error { return w.host.EditService(ctx, edited) }, nil, with},
		{"killed", of(w.host.KillService), []string{service}, nil},
		{"stopped", of(w.host.StopService), []string{service}, nil},
		{"deleted", deleted, []string{service}, with}, // it can be restarted before the deletion is noticed
	} {
		w.repair(service, h)
	}
	w.expectReady(w.name)
	if missing := notReady(w.node("win-1")); missing != "" {
		w.t.Error(missing)
	}
}

// repairsDaemon changes the declaration of the daemon, which repairs it without restarting.
func (w ward) repairsDaemon() {
	edited := guestapi.ServiceEdit{
		Name: api.WICDService, Command: `C:\windows\system32\notepad.exe`, DependsOn: []string{"Eventlog"}, Disabled: true,
	}
	w.repair(api.WICDService, harm{name: "edited", do: func(ctx context.Context) error { return w.host.EditService(ctx, edited) }})
}

// runsWithoutDaemon stops the daemon and changes a running service. The service continues, and is repaired once the daemon is
// started.
func (w ward) runsWithoutDaemon() {
	without := func(ctx context.Context) error {
		if err := w.host.StopService(ctx, api.WICDService); err != nil {
			return err
		}
		w.eventually("the daemon stops", func(ctx context.Context) string {
			if s, _, err := w.host.Service(ctx, api.WICDService); err != nil || s.State != "stopped" {
				return fmt.Sprintf("it is %s (%v)", s.State, err)
			}
			return ""
		})
		err := w.host.EditService(ctx, guestapi.ServiceEdit{Name: "kubelet", Disabled: true})
		return errors.Join(err, w.host.StartService(ctx, api.WICDService))
	}
	w.repair(api.WICDService, harm{name: "stopped and started", do: without, restarts: []string{api.WICDService}})
}

// calm is how long processes must stay the same.
const calm = 2 * time.Second

// repair damages a service, and waits until all services are as declared and those that must restart have restarted.
func (w ward) repair(service string, h harm) {
	w.t.Helper()
	before := w.pids()
	began := time.Now()
	must(w.t, h.do(w.t.Context()))
	var same map[string]uint32 // the current processes
	var since time.Time
	w.eventually(fmt.Sprintf("service %s, which was %s, is repaired", service, h.name), func(context.Context) string {
		pids, missing := w.processes()
		if !maps.Equal(pids, same) {
			same, since = pids, time.Now()
		}
		for _, name := range h.restarts {
			if pids[name] == before[name] {
				missing += "service " + name + " is the process it was; "
			}
		}
		if missing != "" {
			return missing
		}
		if diff := cmp.Diff(w.declared, w.declarations()); diff != "" {
			return diff
		}
		if time.Since(since) < calm {
			return "processes may still come and go"
		}
		return ""
	})
	w.t.Logf("%s was %s: repaired after %.1f s", service, h.name, since.Sub(began).Seconds())
	for name, pid := range w.pids() {
		if pid != before[name] && !slices.Contains(h.restarts, name) && !slices.Contains(h.may, name) {
			w.t.Errorf("service %s was restarted when %s was %s", name, service, h.name)
		}
	}
}

// restarts restarts the host while the API server is down.
func (w ward) restarts() {
	boot := w.node("win-1").Status.NodeInfo.BootID
	stop := w.keepOperatorRunning()
	defer stop()
	w.Lab.ControlPlane.StopAPIServer()
	noted := len(w.journal())
	began := time.Now()
	must(w.t, w.host.Reboot(w.t.Context()))
	w.eventually("all services run without the API server", func(context.Context) string { _, missing := w.processes(); return missing })
	w.t.Logf("all services run %.1f s after the restart began", time.Since(began).Seconds())
	if diff := cmp.Diff(w.declared, w.declarations()); diff != "" {
		w.t.Errorf("services (-before +after the restart):\n%s", diff)
	}
	before := w.pids()
	must(w.t, w.Lab.ControlPlane.StartAPIServer(w.t.Context()))
	w.expectBooted("win-1", boot)
	w.expectReady(w.name)
	if after := w.pids(); !maps.Equal(before, after) {
		w.t.Errorf("services were restarted when the API server came back: %v, then %v", before, after)
	}
	for _, entry := range w.journal()[noted:] {
		if entry.Error != "" || !strings.HasSuffix(entry.Change, " started") {
			w.t.Errorf("after the restart: %+v", entry)
		}
	}
}

// journal is WICD's journal.
func (w ward) journal() (entries []wicdapi.JournalEntry) {
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

// registersAgain deletes the Node and restarts the host, which is what many administrators do to repair a node. The kubelet registers the Node again on
// its own, without an address: Windows has none yet.
func (w ward) registersAgain() {
	before := w.node("win-1")
	w.remove(before)
	must(w.t, w.host.Reboot(w.t.Context()))
	w.eventually("the instance has another Node", func(context.Context) string {
		if i := w.instance(w.name); i.Status.NodeRef == nil || i.Status.NodeRef.UID == before.UID {
			return fmt.Sprintf("its status is %+v", i.Status)
		}
		return ""
	})
	w.expectAllReady()
}
