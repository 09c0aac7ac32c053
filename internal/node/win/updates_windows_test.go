package win

import (
	"errors"
	"testing"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim/contract"
)

// updateService is the service of the Windows Update Agent.
const updateService = "wuauserv"

func TestUpdateAgentKeepsTheContract(t *testing.T) {
	h := mustHost(t)
	contract.UpdateAgent(t, func(*testing.T) contract.UpdatesFixture {
		f := contract.UpdatesFixture{Agent: h.UpdateAgent, NoUpdates: "a test cannot offer an update", NoServer: "a test has no update server"}
		if !onWine() {
			f.NoPolicies, f.NoDisabling = "a test must not set policies on a real Windows", "a test must not disable services of a real Windows"
			return f
		}
		f.Configure = configureUpdates
		if _, err := isRunning(updateService); errors.Is(err, hostapi.ErrNotFound) {
			f.Disable = func(t *testing.T) { mustRunInstead(t, h.Services, updateService); disable(t, updateService) }
		} else {
			f.Disable = func(t *testing.T) { disable(t, updateService) }
		}
		return f
	})
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
