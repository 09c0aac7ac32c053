package win

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/node/win/scm"
	"github.com/windows-machine-config/wmco/internal/testing/sim/contract"
)

func TestServicesKeepTheContract(t *testing.T) {
	host := mustHost(t)
	contract.Services(t, func(t *testing.T) contract.ServicesFixture {
		folder := tempFolder(t)
		removeAfter(t, host.Services, contract.Names()...)
		f := contract.ServicesFixture{
			Services:     host.Services,
			Changes:      host.Changes,
			Runs:         command(t, `tells "`+folder+`"`),
			AlsoRuns:     command(t, `runs "in another way"`),
			Missing:      `C:\no\such\program.exe`,
			Crash:        crash,
			Edits:        edits(),
			Delete:       markDeleted,
			DeleteItself: func(t *testing.T, name string) { request(t, name, deleteRequest) },
			End:          end,
			Recovery:     5 * time.Second,
			Variables:    func(t *testing.T, name string) map[string]string { return mustReadVariables(t, folder+`\`+name) },
		}
		if onWine() {
			f.Recovery, f.NoRecovery = 0, "Wine's service control manager starts nothing again"
			f.NoVariables = "Wine's service control manager ignores the environment of a service"
		}
		return f
	})
}

func TestSystemKeepsTheContract(t *testing.T) {
	host := mustHost(t)
	contract.System(t, func(t *testing.T) contract.SystemFixture {
		f := contract.SystemFixture{System: host.System, Disk: host.Disk, Folder: tempFolder(t), Feature: "Containers", OtherHypervisor: !onWine()}
		switch {
		case !onWine():
			f.Feature, f.NoFeatures = "", "a test must not enable features of a real Windows"
		case windows.NewLazySystemDLL("DismApi.dll").Load() != nil:
			f.Feature, f.NoFeatures = "", "this Wine has no DismApi.dll (lab/windows/shims/dismapi.c)"
		}
		return f
	})
}

func TestEnvironmentKeepsTheContract(t *testing.T) {
	host := mustHost(t)
	contract.Environment(t, func(t *testing.T) contract.EnvironmentFixture {
		key := mustOpenEnvironment(t, contract.Variables()...)
		return contract.EnvironmentFixture{
			Environment: host.Environment,
			Give: func(t *testing.T, name, value string) {
				if err := key.SetStringValue(name, value); err != nil {
					t.Fatal(err)
				}
			},
			All: func(t *testing.T) map[string]string { return mustReadAll(t, key) },
		}
	})
}

func TestCertificatesKeepTheContract(t *testing.T) {
	host := mustHost(t)
	contract.Certificates(t, func(t *testing.T) contract.CertificatesFixture {
		untrustAfter(t, host.Certificates)
		return contract.CertificatesFixture{Certificates: host.Certificates}
	})
}

func TestContainersKeepTheContract(t *testing.T) {
	host := mustHost(t)
	contract.Containers(t, func(t *testing.T) contract.ContainersFixture {
		running := map[string]*exec.Cmd{}
		f := contract.ContainersFixture{
			Containers: host.Containers, Disk: host.Disk, Folder: tempFolder(t),
			Start:   func(t *testing.T, path string) { running[path] = mustStartCopy(t, path) },
			NoHang:  "a test cannot make the service hang",
			Running: func(_ *testing.T, path string) bool { return !scm.Died(uint32(running[path].Process.Pid)) },
		}
		switch {
		case !onWine():
			f.NoContainers = "a test must not make containers on a real Windows"
		case windows.NewLazySystemDLL("vmcompute.dll").Load() != nil:
			f.NoContainers = "this Wine has no vmcompute.dll (lab/windows/hostcompute)"
		default:
			serveReaper(t, drivesPort)
			f.Container, f.Network = mustCreateContainer, mustCreateNetwork
			f.Layer = func(t *testing.T, folder string) {
				if _, err := host.Disk.WriteFile(folder+`\Files\License.txt`, "a layer"); err != nil {
					t.Fatal(err)
				}
			}
		}
		return f
	})
}

// mustStartCopy starts a copy of the test program that runs until it is killed.
func mustStartCopy(t *testing.T, path string) *exec.Cmd {
	t.Helper()
	mustCopySelf(t, path)
	c := exec.Command(path, asChild)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	return c
}

func TestNextStartKeepsTheContract(t *testing.T) {
	host := mustHost(t)
	contract.NextStart(t, func(t *testing.T) contract.NextStartFixture {
		mustBeWine(t)
		keepName(t)
		return contract.NextStartFixture{
			NextStart: host.NextStart, System: host.System,
			Await:     func(t *testing.T) { mustAwaitUpdates(t) },
			AtOnce:    "Wine keeps one name only",
			NoRestart: "a test cannot restart the computer that it runs on",
		}
	})
}

// mustOpenEnvironment opens the environment of the machine, and removes these variables now and after the test.
func mustOpenEnvironment(t *testing.T, names ...string) registry.Key {
	t.Helper()
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, machineEnvironment, registry.ALL_ACCESS)
	if err != nil {
		t.Fatal(err)
	}
	clean := func() {
		for _, name := range names {
			if err := key.DeleteValue(name); err != nil && !errors.Is(err, registry.ErrNotExist) {
				t.Error(err)
			}
		}
	}
	clean()
	t.Cleanup(func() {
		clean()
		key.Close()
	})
	return key
}

func mustReadAll(t *testing.T, key registry.Key) map[string]string {
	t.Helper()
	names, err := key.ReadValueNames(0)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, name := range names {
		if all[name], _, err = key.GetStringValue(name); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// mustReadVariables reads the environment that a service reported.
func mustReadVariables(t *testing.T, file string) map[string]string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return parse(strings.Split(string(content), "\n"))
}

// untrustAfter removes the certificates that a test adds.
func untrustAfter(t *testing.T, certificates hostapi.Certificates) {
	t.Helper()
	before, err := certificates.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		after, err := certificates.List(context.Background())
		for _, hash := range after {
			if !slices.Contains(before, hash) {
				_, removeErr := certificates.Remove(context.Background(), hash)
				err = errors.Join(err, removeErr)
			}
		}
		if err != nil {
			t.Error(err)
		}
	})
}

// tempFolder is an empty folder for a test. Wine rejects how Go removes a tree, so t.TempDir cannot be used.
func tempFolder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "wicd-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := (hostapi.Disk{}).RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	return folder
}

func mustHost(t *testing.T) hostapi.Host {
	t.Helper()
	host, err := Host()
	if err != nil {
		t.Fatal(err)
	}
	return host
}

// crash kills the process of a service.
func crash(t *testing.T, name string) {
	t.Helper()
	h, err := windows.OpenProcess(windows.PROCESS_TERMINATE, false, mustFind(t, name).PID)
	if err != nil {
		t.Fatal(err)
	}
	defer windows.CloseHandle(h)
	if err := windows.TerminateProcess(h, 3); err != nil {
		t.Fatal(err)
	}
}

// edits change the declaration of a service with the calls that Windows' own tools use.
func edits() map[string]func(*testing.T, string) {
	const keep = windows.SERVICE_NO_CHANGE
	all := map[string]func(*testing.T, string){
		"environment": func(t *testing.T, name string) {
			key, err := registry.OpenKey(registry.LOCAL_MACHINE, scm.ServicesKey+name, registry.SET_VALUE)
			if err != nil {
				t.Fatal(err)
			}
			defer key.Close()
			if err := key.SetStringsValue(ownEnvironment, []string{"OTHER=x"}); err != nil {
				t.Fatal(err)
			}
		},
	}
	for what, edit := range map[string]func(h windows.Handle) error{
		"start type": func(h windows.Handle) error {
			return windows.ChangeServiceConfig(h, keep, windows.SERVICE_DISABLED, keep, nil, nil, nil, nil, nil, nil, nil)
		},
		"program and arguments": func(h windows.Handle) error {
			other, _ := windows.UTF16PtrFromString(`C:\other.exe --more`)
			return windows.ChangeServiceConfig(h, keep, keep, keep, other, nil, nil, nil, nil, nil, nil)
		},
		"dependencies": func(h windows.Handle) error {
			return windows.ChangeServiceConfig(h, keep, keep, keep, nil, nil, nil, &block(nil)[0], nil, nil, nil)
		},
		"description": func(h windows.Handle) error {
			text, _ := windows.UTF16PtrFromString("edited")
			return windows.ChangeServiceConfig2(h, windows.SERVICE_CONFIG_DESCRIPTION, (*byte)(unsafe.Pointer(&windows.SERVICE_DESCRIPTION{Description: text})))
		},
	} {
		all[what] = func(t *testing.T, name string) { withService(t, name, windows.SERVICE_CHANGE_CONFIG, edit) }
	}
	return all
}

func markDeleted(t *testing.T, name string) {
	withService(t, name, deleteAccess, windows.DeleteService)
}

// withService calls a function with an open service.
func withService(t *testing.T, name string, access uint32, do func(windows.Handle) error) {
	t.Helper()
	m, err := connect(0)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	svc, err := m.open(name, access)
	if err != nil {
		t.Fatal(err)
	}
	defer svc.Close()
	if err := do(svc.Handle); err != nil {
		t.Fatal(err)
	}
}

// end makes a service stop on its own.
func end(t *testing.T, name string, code uint32) {
	t.Helper()
	request(t, name, endRequest+code)
}

// request sends a user-defined control to a service, and returns when it has handled it.
func request(t *testing.T, name string, code uint32) {
	t.Helper()
	const access = 0x100 // SERVICE_USER_DEFINED_CONTROL
	withService(t, name, access, func(h windows.Handle) error {
		return windows.ControlService(h, code, &windows.SERVICE_STATUS{})
	})
}

// mustFind returns the state of a service.
func mustFind(t *testing.T, name string) hostapi.Service {
	t.Helper()
	found, err := (&services{}).List(t.Context(), []string{name})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range found {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("%s is not listed", name)
	return hostapi.Service{}
}

// removeAfter removes services now, and again after the test.
func removeAfter(t *testing.T, s hostapi.Services, names ...string) {
	t.Helper()
	remove := func() {
		for _, name := range names {
			mustRemove(t, s, name)
		}
	}
	remove()
	t.Cleanup(remove)
}

// mustRemove stops and deletes a service, and waits until it is gone.
func mustRemove(t *testing.T, s hostapi.Services, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := s.Stop(ctx, name); err != nil {
		t.Fatal(err)
	}
	m, err := connect(0)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for {
		svc, err := m.open(name, deleteAccess)
		if errors.Is(err, hostapi.ErrNotFound) {
			return
		}
		if err == nil {
			err = windows.DeleteService(svc.Handle)
			svc.Close()
		}
		if err != nil && !errors.Is(err, windows.ERROR_SERVICE_MARKED_FOR_DELETE) {
			t.Fatalf("deleting service %s: %v", name, err)
		}
		if err := backoff.Sleep(ctx, tick/4); err != nil {
			t.Fatalf("waiting until service %s was removed: %v", name, err)
		}
	}
}
