//go:build linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
	"github.com/windows-machine-config/wmco/lab/windows/hostspec"
)

// Versions that hosts report.
const (
	Build       = 20348 // Windows Server 2022
	Revision    = 2402  // UBR
	ProductName = "Windows Server 2022 Datacenter"
)

// ErrNoWindows means that this machine cannot run Windows hosts; the error's text names what is missing.
var ErrNoWindows = errors.New("no Windows hosts on this machine")

func guestProgram() program {
	return program{
		pkg: "windows/guest", about: "building the hosts' own programs",
		env:     []string{"GOOS=windows", "GOARCH=amd64"},
		sources: []string{"windows/sshd", "../internal/testing/sshserver", "windows/guestapi", "windows/hns"},
	}
}

func reaperProgram() program {
	return program{
		pkg: "reaper", about: "building the reaper",
		sources: []string{"windows/hostspec", "windows/guestapi", "windows/hns", "windows/balancer"},
	}
}

// hostComputeLibrary returns vmcompute.dll.
func hostComputeLibrary() program {
	return program{
		pkg: "windows/hostcompute", about: "building the simulation of Windows' container services", library: true,
		env:     []string{"GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=1", "CC=" + compiler},
		sources: []string{"windows/guestapi", "windows/hcs", "windows/hns", "windows/hostspec"},
	}
}

// CanRunWindows returns nil if this machine can run Windows hosts, or an error that wraps ErrNoWindows and names what is missing.
func CanRunWindows() error {
	if err := CanHaveHosts(); err != nil {
		return fmt.Errorf("%w: %w", ErrNoWindows, err)
	}
	if _, err := findWine(); err != nil {
		return err
	}
	for program, from := range map[string]string{compiler: "gcc-mingw-w64-x86-64", linuxCompiler: "gcc and libc6-dev"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%w: %s not found; install %s", ErrNoWindows, program, from)
		}
	}
	return nil
}

// CanBalance returns nil if Services work on this machine's hosts, or an error that names what is missing.
func CanBalance() error {
	if findNFT() == "" {
		return fmt.Errorf("%s not found; install nftables", nft)
	}
	return CanRunWindows()
}

const nft = "/usr/sbin/nft"

// findNFT returns the path of nft, which sets the kernel's rules for Services, or "" if it is not installed.
func findNFT() string {
	if _, err := os.Stat(nft); err != nil {
		return ""
	}
	return nft
}

const (
	compiler      = "x86_64-w64-mingw32-gcc"
	linuxCompiler = "gcc"
)

// findWine returns the paths of Wine's own programs, not of Debian's script /usr/bin/wine.
func findWine() (hostspec.Wine, error) {
	const dir = "/usr/lib/wine"
	w := hostspec.Wine{Loader: filepath.Join(dir, "wine64"), Server: filepath.Join(dir, "wineserver64")}
	for _, file := range []string{w.Loader, w.Server} {
		if _, err := os.Stat(file); err != nil {
			return w, fmt.Errorf("%w: %s not found; install wine64", ErrNoWindows, file)
		}
	}
	return w, nil
}

// template returns the folder over which hosts are layered: a new Wine prefix with the shims, the guest's programs and the
// registry of a Windows Server. It depends on the machine, Wine's version and the sources.
func (c cache) template(ctx context.Context) (string, error) {
	wine, err := findWine()
	if err != nil {
		return "", err
	}
	guest, err := c.build(ctx, guestProgram())
	if err != nil {
		return "", err
	}
	reaper, err := c.build(ctx, reaperProgram())
	if err != nil {
		return "", err
	}
	hostCompute, err := c.build(ctx, hostComputeLibrary())
	if err != nil {
		return "", err
	}
	version, err := exec.CommandContext(ctx, wine.Loader, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("reading Wine's version: %w", err)
	}
	words := []string{string(version)}
	for _, built := range []string{guest, reaper, hostCompute} {
		words = append(words, filepath.Base(filepath.Dir(built)))
	}
	key, err := contentKey(words, c.module, []string{"windows/shims", "template.go"})
	if err != nil {
		return "", err
	}
	return c.get(ctx, item{name: "template", about: "creating the Windows template", key: key, make: func(ctx context.Context, path string) error {
		files := map[string]string{
			guestapi.GuestProgram:                              guest,
			`C:\lab\hns.exe`:                                   guest,
			system32 + `OpenSSH\sshd.exe`:                      guest,
			system32 + `shutdown.exe`:                          guest,
			system32 + `WindowsPowerShell\v1.0\powershell.exe`: guest,
			system32 + `vmcompute.dll`:                         hostCompute,
		}
		return c.makeTemplate(ctx, path, reaper, files, wine)
	}})
}

const system32 = `C:\windows\system32\`

// makeTemplate creates the template with files (path on drive C: -> file) and the shims.
func (c cache) makeTemplate(ctx context.Context, path, reaperProgram string, files map[string]string, wine hostspec.Wine) error {
	dir, err := os.MkdirTemp("", "wmco-lab-template-")
	if err != nil {
		return fmt.Errorf("creating a work folder: %w", err)
	}
	defer os.RemoveAll(dir)
	for _, source := range []string{"pdh.c", "mi.c", "bcryptprimitives.c", "dismapi.c", "wuapi.c", "bindfltapi.c", "computecore.c", "computenetwork.def"} {
		name := strings.TrimSuffix(source, filepath.Ext(source)) + ".dll"
		dll := filepath.Join(dir, name)
		shim := filepath.Join(c.module, "windows", "shims", source)
		if err := compile(ctx, compiler, "-O2", "-s", "-shared", "-o", dll, shim, "-ladvapi32", "-lole32", "-loleaut32", "-luuid"); err != nil {
			return err
		}
		files[system32+name] = dll
	}
	if err := hostspec.Write(dir, hostspec.Template{Prefix: path, Files: files, Registry: registryEntries(), Wine: wine}); err != nil {
		return err
	}
	r, err := startReaper(reaperProgram, hostNamespaces, "template", dir)
	if err != nil {
		return err
	}
	defer r.stop()
	select {
	case <-r.ended:
	case <-ctx.Done():
		return fmt.Errorf("waiting for the template: %w", ctx.Err())
	}
	if !r.cmd.ProcessState.Success() {
		return r.failure()
	}
	return nil
}

// hostNamespaces are the kinds of namespaces of a host.
const hostNamespaces = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC

func compile(ctx context.Context, compiler string, args ...string) error {
	if out, err := exec.CommandContext(ctx, compiler, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("compiling %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// preload compiles a library that is loaded into programs of Wine.
func (c cache) preload(ctx context.Context, name string) (string, error) {
	source := filepath.Join("windows", "shims", name+".c")
	key, err := contentKey([]string{linuxCompiler}, c.module, []string{source})
	if err != nil {
		return "", err
	}
	return c.get(ctx, item{name: name + ".so", about: "building a library for Wine", key: key, make: func(ctx context.Context, path string) error {
		return compile(ctx, linuxCompiler, "-O2", "-s", "-shared", "-fPIC", "-o", path, filepath.Join(c.module, source))
	}})
}

// registryEntries returns the values that kubelet and WICD read about Windows. Wine also uses them for the version that programs see, which is why
// CurrentVersion is 10.0 here and 6.3 on Windows.
func registryEntries() []guestapi.RegistryEntry {
	// updates is a class of the Windows Update Agent that Wine lacks; see windows/shims/wuapi.c.
	const updates = `{13639463-00DB-4646-803D-528026140D88}`
	const current = `HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion`
	text := func(key, name, value string) guestapi.RegistryEntry {
		return guestapi.RegistryEntry{RegistryName: guestapi.RegistryName{Key: key, Name: name}, Value: guestapi.RegistryValue{Type: "REG_SZ", Text: value}}
	}
	number := func(key, name string, value uint64) guestapi.RegistryEntry {
		return guestapi.RegistryEntry{RegistryName: guestapi.RegistryName{Key: key, Name: name}, Value: guestapi.RegistryValue{Type: "REG_DWORD", Number: value}}
	}
	build := fmt.Sprint(Build)
	return []guestapi.RegistryEntry{
		text(current, "CurrentBuild", build),
		text(current, "CurrentBuildNumber", build),
		text(current, "CurrentVersion", "10.0"),
		number(current, "CurrentMajorVersionNumber", 10),
		number(current, "CurrentMinorVersionNumber", 0),
		number(current, "UBR", Revision),
		text(current, "CSDVersion", ""),
		text(current, "ProductName", ProductName),
		text(current, "InstallationType", "Server Core"),
		text(current, "EditionID", "ServerDatacenter"),
		text(current, "ReleaseId", "2009"),
		text(current, "DisplayVersion", "21H2"),
		text(`HKLM\SYSTEM\CurrentControlSet\Control\ProductOptions`, "ProductType", "ServerNT"),
		number(`HKLM\Software\WMCOLab\Features`, "Containers", 1), // enabled; see windows/shims/dismapi.c
		number(`HKLM\Software\WMCOLab\Packages`, "Previous", 0),
		number(`HKLM\Software\WMCOLab\Packages`, "Removed", 0),
		text(`HKLM\SOFTWARE\Classes\Microsoft.Update.UpdateColl\CLSID`, "", updates),
		text(`HKLM\SOFTWARE\Classes\CLSID\`+updates+`\InprocServer32`, "", system32+"wuapi.dll"),
		text(`HKLM\SOFTWARE\Classes\CLSID\`+updates+`\InprocServer32`, "ThreadingModel", "Both"),
		text(`HKLM\SYSTEM\HardwareConfig`, "LastConfig", "{00000000-0000-0000-0000-000000000000}"),
		number(`HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters`, "BootId", 0),
		// Both are milliseconds. Wine 8 ignores them unless they are strings. On Wine, the process of a service sometimes hangs at exit; on Windows
		// it does not. Here Wine kills it after this time.
		text(`HKLM\SYSTEM\CurrentControlSet\Control`, "WaitToKillServiceTimeout", "10000"),
		// Timeout for the start of a service and its answers to controls: 10 s on Wine, 30 s on Windows. On a busy machine of the lab, Wine needs
		// longer than that for a program as large as the kubelet.
		text(`HKLM\SYSTEM\CurrentControlSet\Control`, "ServicesPipeTimeout", "60000"),
	}
}
