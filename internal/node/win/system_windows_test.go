package win

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/windows/registry"

	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// mustBeWine skips tests that change what a real Windows needs.
func mustBeWine(t *testing.T) {
	t.Helper()
	if !onWine() {
		t.Skip("changes the registry of Windows itself: only for Wine")
	}
}

// TestLeftoversOfEarlierRunAreRemoved: a killed test does not restore what it set. The acceptance program runs these tests several times on
// one Windows.
func TestLeftoversOfEarlierRunAreRemoved(t *testing.T) {
	mustBeWine(t)
	run := os.Getenv("WMCO_WINE_RUN")
	if run == "" {
		t.Skip("the test needs testdata/wine, which begins each run with a new registry")
	}
	key, _, err := registry.CreateKey(registry.LOCAL_MACHINE, `Software\WMCOLab`, registry.ALL_ACCESS)
	if err != nil {
		t.Fatal(err)
	}
	defer key.Close()
	if former, _, err := key.GetStringValue("Run"); err == nil && former != run {
		t.Errorf("the registry is that of run %s, not of %s", former, run)
	}
	if err := key.SetStringValue("Run", run); err != nil {
		t.Fatal(err)
	}
}

// mustSet writes a number to the registry and restores it after the test.
func mustSet(t *testing.T, path, name string, value uint32) {
	t.Helper()
	key, _, err := registry.CreateKey(registry.LOCAL_MACHINE, path, registry.ALL_ACCESS)
	if err != nil {
		t.Fatal(err)
	}
	before, _, readErr := key.GetIntegerValue(name)
	if err := key.SetDWordValue(name, value); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer key.Close()
		err := key.SetDWordValue(name, uint32(before))
		if errors.Is(readErr, registry.ErrNotExist) {
			err = key.DeleteValue(name)
		}
		if err != nil {
			t.Error(err)
		}
	})
}

func mustFacts(t *testing.T) wicdapi.HostFacts {
	t.Helper()
	facts, err := mustHost(t).System.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return facts
}

func TestFactsDescribeServer(t *testing.T) {
	mustBeWine(t)
	mustSet(t, prefetch, "BootId", 41)
	mustSet(t, currentVersion, "UBR", 587)
	facts := mustFacts(t)
	type seen struct {
		Build, UBR                                  int
		Product, Installation, Architecture, BootID string
	}
	want := seen{20348, 587, "Windows Server 2022 Datacenter", "Server Core", "amd64", "41"}
	got := seen{facts.Build, facts.UBR, facts.Product, facts.Installation, facts.Architecture, facts.BootID}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if name, _ := os.Hostname(); !strings.EqualFold(name, facts.Hostname) {
		t.Errorf("host name %q, want %q", facts.Hostname, name)
	}
	if facts.FreeBytes < 1<<20 || facts.MemoryBytes < 1<<28 {
		t.Errorf("%d bytes free, %d of memory", facts.FreeBytes, facts.MemoryBytes)
	}
}

// TestVirtualizationIsThatOfTheProcessor compares it with Linux' data about the same processor. Wine does not run in its own virtual machine.
func TestVirtualizationIsThatOfTheProcessor(t *testing.T) {
	mustBeWine(t)
	content, err := os.ReadFile(`\\?\unix\proc\cpuinfo`)
	if err != nil {
		t.Skipf("reading the processor information of Linux: %v", err)
	}
	_, flags, _ := strings.Cut(string(content), "\nflags")
	flags, _, _ = strings.Cut(flags, "\n")
	has := func(any ...string) bool {
		return slices.ContainsFunc(strings.Fields(flags), func(flag string) bool { return slices.Contains(any, flag) })
	}
	got := mustFacts(t).Virtualization
	t.Logf("%+v", got)
	if isGuest := has("hypervisor"); isGuest != (got.Hypervisor != "") {
		t.Errorf("the hypervisor is %q, and Linux is a guest of one: %v", got.Hypervisor, isGuest)
	}
	if got.Processor && !has("vmx", "svm") {
		t.Error("the processor has virtualization, which Linux does not report")
	}
	if got.HyperV {
		t.Error("Wine runs on Hyper-V, and may create virtual machines")
	}
}

func TestMissingBootIDIsNamed(t *testing.T) {
	mustBeWine(t)
	mustSet(t, prefetch, "BootId", 1) // restores it afterwards
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, prefetch, registry.SET_VALUE)
	if err != nil {
		t.Fatal(err)
	}
	defer key.Close()
	if err := key.DeleteValue("BootId"); err != nil {
		t.Fatal(err)
	}
	if f, err := mustHost(t).System.Facts(t.Context()); err != nil || !strings.Contains(f.Unread[wicdapi.FactBootID], prefetch) {
		t.Errorf("Facts() = %q, %v, want the missing value", f.Unread, err)
	}
	if err := key.SetDWordValue("BootId", 1); err != nil {
		t.Fatal(err)
	}
}

func TestDefaultRouteHasInterface(t *testing.T) {
	if !slices.ContainsFunc(mustFacts(t).Interfaces, func(i wicdapi.Interface) bool { return i.DefaultRoute && len(i.Addresses) > 0 }) {
		if routes, err := defaultRoutes(); err == nil && len(routes) == 0 {
			t.Skip("this machine has no default route")
		}
		t.Errorf("no interface has it: %+v", mustFacts(t).Interfaces)
	}
}

// TestAdapterVLANIsFound uses keys of two drivers, one of them for another adapter.
func TestAdapterVLANIsFound(t *testing.T) {
	mustBeWine(t)
	list := mustFacts(t).Interfaces
	if len(list) == 0 {
		t.Skip("this machine has no interface that is up")
	}
	for key, values := range map[string][2]string{
		"9998": {"{00000000-0000-0000-0000-000000000001}", "7"},
		"9999": {"{" + strings.ToUpper(list[0].GUID) + "}", "12"},
	} {
		mustMakeKey(t, networkAdapters+`\`+key, map[string]string{"NetCfgInstanceId": values[0], "VlanID": values[1]})
	}
	if got := mustFacts(t).Interfaces[0].VLAN; got != 12 || list[0].VLAN != 0 {
		t.Errorf("the VLAN is %d, before it was %d; want 12 and 0", got, list[0].VLAN)
	}
}

// mustMakeKey creates a registry key with texts, which is removed after the test.
func mustMakeKey(t *testing.T, path string, values map[string]string) {
	t.Helper()
	key, _, err := registry.CreateKey(registry.LOCAL_MACHINE, path, registry.ALL_ACCESS)
	if err != nil {
		t.Fatal(err)
	}
	defer key.Close()
	t.Cleanup(func() {
		if err := registry.DeleteKey(registry.LOCAL_MACHINE, path); err != nil {
			t.Error(err)
		}
	})
	for name, value := range values {
		if err := key.SetStringValue(name, value); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPendingRebootsAreFound(t *testing.T) {
	mustBeWine(t)
	if reason := mustFacts(t).PendingReboot; len(reason) != 0 {
		t.Fatalf("before the test: %q", reason)
	}
	mustAwaitUpdates(t)
	key, _, err := registry.CreateKey(registry.LOCAL_MACHINE, sessionManager, registry.ALL_ACCESS)
	if err != nil {
		t.Fatal(err)
	}
	defer key.Close()
	const renames = "PendingFileRenameOperations"
	if err := key.SetStringsValue(renames, []string{`\??\C:\old`, `\??\C:\new`}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = key.DeleteValue(renames) })
	reason := strings.Join(mustFacts(t).PendingReboot, "\n")
	for _, want := range []string{"Component Based Servicing", "Windows Update", renames} {
		if !strings.Contains(reason, want) {
			t.Errorf("%q does not contain %q", reason, want)
		}
	}
	if err := key.DeleteValue(renames); err != nil {
		t.Fatal(err)
	}
}

// mustAwaitUpdates makes Windows wait for a restart until the test ends, as updates do.
func mustAwaitUpdates(t *testing.T) {
	t.Helper()
	for _, path := range []string{servicingReboot, updateReboot} {
		key, _, err := registry.CreateKey(registry.LOCAL_MACHINE, path, registry.ALL_ACCESS)
		if err != nil {
			t.Fatal(err)
		}
		key.Close()
		t.Cleanup(func() {
			if err := registry.DeleteKey(registry.LOCAL_MACHINE, path); err != nil {
				t.Error(err)
			}
		})
	}
}

// keepName restores the computer's name for its next start.
func keepName(t *testing.T) {
	t.Helper()
	for path, name := range map[string]string{
		computerName + `\ComputerName`: "ComputerName",
		tcpip:                          "Hostname",
	} {
		before, isThere := text(path, name), exists(path)
		t.Cleanup(func() {
			key, err := registry.OpenKey(registry.LOCAL_MACHINE, path, registry.SET_VALUE)
			if err != nil && !isThere {
				return
			}
			if err == nil {
				defer key.Close()
				err = key.SetStringValue(name, before)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// tcpip is the key with the DNS host name.
const tcpip = `SYSTEM\CurrentControlSet\Services\Tcpip\Parameters`

func TestFeatureIsPendingUntilNextBoot(t *testing.T) {
	mustBeWine(t)
	system := mustHost(t).System
	if _, err := system.EnableFeature(t.Context(), "Containers"); err != nil {
		t.Skipf("no DismApi.dll in this Wine (lab/windows/shims/dismapi.c): %v", err)
	}
	mustSet(t, prefetch, "BootId", 100)
	mustSet(t, features, "Containers", 0)
	mustSet(t, features, "Containers.BootId", 0)
	expect := func(when string, want wicdapi.FeatureState) {
		t.Helper()
		if got, err := system.Feature(t.Context(), "Containers"); err != nil || got != want {
			t.Errorf("%s it is %s, %v, want %s", when, got, err, want)
		}
	}
	enable := func(when string, want bool) {
		t.Helper()
		if reboot, err := system.EnableFeature(t.Context(), "Containers"); err != nil || reboot != want {
			t.Errorf("%s: EnableFeature() = %v, %v, want %v, nil", when, reboot, err, want)
		}
	}
	expect("at first", wicdapi.FeatureDisabled)
	enable("the first time", true)
	expect("before the restart", wicdapi.FeaturePending)
	enable("before the restart", true)
	mustSet(t, prefetch, "BootId", 101)
	expect("after the restart", wicdapi.FeatureEnabled)
	enable("after the restart", false)
}

func TestRebootCallsShutdown(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := tempFolder(t) + `\arguments`
	t.Setenv(asShutdown, file)
	s := &system{shutdown: program}
	if err := s.Reboot(t.Context(), `Windows needs "Containers", 100%`, 2500*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"/r", "/t", "3", "/c", `Windows needs "Containers", 100%`, "/d", "p:4:1"}
	if diff := cmp.Diff(want, strings.Split(string(got), "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRepeatedRebootIsHarmless(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(asShutdown, tempFolder(t)+`\arguments`)
	for code, fails := range map[string]bool{"1190": false, "1115": false, "5": true} {
		t.Setenv("exit", code)
		err := (&system{shutdown: program}).Reboot(t.Context(), "", 0)
		var exit *exec.ExitError
		if (err != nil) != fails || fails && !errors.As(err, &exit) {
			t.Errorf("exit code %s: Reboot() = %v", code, err)
		}
	}
}

func TestLockIsReleasedWhenProcessEnds(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := tempFolder(t) + `\test.lock`
	holder := exec.Command(program)
	holder.Env = append(os.Environ(), asLockHolder+"="+name)
	output, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := output.Read(make([]byte, 1)); err != nil {
		t.Fatalf("reading the output of the other process: %v", err)
	}
	s := &system{}
	if _, err := s.Lock(name); err == nil {
		t.Error("locked while another process holds the lock")
	}
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = holder.Wait()
	release, err := s.Lock(name)
	if err != nil {
		t.Fatal(err)
	}
	release()
}
