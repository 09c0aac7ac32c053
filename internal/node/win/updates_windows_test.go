package win

import (
	"errors"
	"testing"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
	"github.com/windows-machine-config/wmco/internal/testing/sim/contract"
	"github.com/windows-machine-config/wmco/internal/testing/sim/updateregistry"
)

// updateService is the service of the Windows Update Agent.
const updateService = "wuauserv"

// labPackages is the key below HKEY_LOCAL_MACHINE with the packages of the lab's DISM (lab/windows/shims/dismapi.c).
const labPackages = `SOFTWARE\WMCOLab\Packages`

func TestUpdateAgentKeepsTheContract(t *testing.T) {
	h := mustHost(t)
	contract.UpdateAgent(t, func(*testing.T) contract.UpdatesFixture {
		f := contract.UpdatesFixture{Agent: h.UpdateAgent}
		if !onWine() {
			f.NoUpdates, f.NoServer = "a test cannot offer an update", "a test has no update server"
			f.NoCumulative = "a test must not remove updates of a real Windows"
			f.NoPolicies, f.NoDisabling = "a test must not set policies on a real Windows", "a test must not disable services of a real Windows"
			return f
		}
		f.Configure = configureUpdates
		f.NoCumulative = "this Wine has no DismApi.dll (lab/windows/shims/dismapi.c)"
		if windows.NewLazySystemDLL("DismApi.dll").Load() == nil {
			f.Cumulative = func(t *testing.T) (build, revision int) {
				setLab(t, labPackages, map[string]any{"Previous": uint32(1), "Removed": uint32(0)})
				t.Cleanup(func() { setLab(t, labPackages, map[string]any{"Previous": uint32(0), "Removed": uint32(0)}) })
				build, revision, err := h.Inventory.Version(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return build, revision
			}
		}
		t.Cleanup(func() { removeServedUpdates(t) })
		f.Serve = func(t *testing.T, u windowsupdate.Update) { serveUpdate(t, updateregistry.Update{Update: u}) }
		f.RestartFirst = func(t *testing.T) { setLabUpdates(t, "", map[string]any{updateregistry.RestartFirst: uint32(1)}) }
		f.Offer = func(t *testing.T, title, kb string, class windowsupdate.Class) {
			u := windowsupdate.Update{ID: "5a1c7c1e-0000-4000-8000-00000000000f", Title: title, KBs: []string{kb}, Class: class}
			serveUpdate(t, updateregistry.Update{Update: u, IsFound: true})
		}
		if _, err := isRunning(updateService); errors.Is(err, hostapi.ErrNotFound) {
			f.Disable = func(t *testing.T) { mustRunInstead(t, h.Services, updateService); disable(t, updateService) }
		} else {
			f.Disable = func(t *testing.T) { disable(t, updateService) }
		}
		return f
	})
}

// serveUpdate adds an update to the server of the lab's agent.
func serveUpdate(t *testing.T, u updateregistry.Update) {
	t.Helper()
	removeServedUpdates(t)
	setLabUpdates(t, `\00000001`, u.Values())
}

func removeServedUpdates(t *testing.T) {
	t.Helper()
	_ = registry.DeleteKey(registry.LOCAL_MACHINE, updateregistry.Key+`\00000001`)
	if err := registry.DeleteKey(registry.LOCAL_MACHINE, updateregistry.Key); err != nil && !errors.Is(err, registry.ErrNotExist) {
		t.Error(err)
	}
}

// setLabUpdates sets values of a key below that of the lab's agent.
func setLabUpdates(t *testing.T, below string, values map[string]any) {
	t.Helper()
	setLab(t, updateregistry.Key+below, values)
}

// setLab sets values of a key below HKEY_LOCAL_MACHINE that the lab's stand-ins read.
func setLab(t *testing.T, path string, values map[string]any) {
	t.Helper()
	key, _, err := registry.CreateKey(registry.LOCAL_MACHINE, path, registry.ALL_ACCESS)
	if err != nil {
		t.Fatal(err)
	}
	defer key.Close()
	for name, value := range values {
		switch v := value.(type) {
		case string:
			err = key.SetStringValue(name, v)
		case uint32:
			err = key.SetDWordValue(name, v)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// updatePolicies is the key below HKEY_LOCAL_MACHINE with the policies of Windows Update.
const updatePolicies = `SOFTWARE\Policies\Microsoft\Windows\WindowsUpdate`

func removeUpdatePolicies() {
	_ = registry.DeleteKey(registry.LOCAL_MACHINE, updatePolicies+`\AU`)
	_ = registry.DeleteKey(registry.LOCAL_MACHINE, updatePolicies)
}

// configureUpdates sets policies of Windows Update, like a group policy, until the test ends.
func configureUpdates(t *testing.T, server string, isOff bool) {
	t.Helper()
	removeUpdatePolicies()
	t.Cleanup(removeUpdatePolicies)
	for path, values := range map[string]map[string]any{
		updatePolicies:         {"WUServer": server},
		updatePolicies + `\AU`: {"UseWUServer": server != "", "NoAutoUpdate": isOff},
	} {
		key, _, err := registry.CreateKey(registry.LOCAL_MACHINE, path, registry.ALL_ACCESS|registry.WOW64_64KEY)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range values {
			switch v := value.(type) {
			case string:
				err = key.SetStringValue(name, v)
			case bool:
				err = key.SetDWordValue(name, map[bool]uint32{true: 1}[v])
			}
			if err != nil {
				t.Error(err)
			}
		}
		key.Close()
	}
}

// disable disables a service until the test ends.
func disable(t *testing.T, name string) {
	t.Helper()
	const keep = windows.SERVICE_NO_CHANGE
	set := func(start uint32) {
		withService(t, name, windows.SERVICE_CHANGE_CONFIG, func(h windows.Handle) error {
			return windows.ChangeServiceConfig(h, keep, start, keep, nil, nil, nil, nil, nil, nil, nil)
		})
	}
	set(windows.SERVICE_DISABLED)
	t.Cleanup(func() { set(windows.SERVICE_DEMAND_START) })
}
