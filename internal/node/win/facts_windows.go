package win

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// Keys below HKEY_LOCAL_MACHINE.
const (
	currentVersion  = `SOFTWARE\Microsoft\Windows NT\CurrentVersion`
	prefetch        = `SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters`
	sessionManager  = `SYSTEM\CurrentControlSet\Control\Session Manager`
	computerName    = `SYSTEM\CurrentControlSet\Control\ComputerName`
	servicing       = `SOFTWARE\Microsoft\Windows\CurrentVersion\Component Based Servicing`
	servicingReboot = servicing + `\RebootPending`
	servicingNow    = servicing + `\RebootInProgress`
	servicingQueue  = servicing + `\SessionsPending`
	setup           = `SYSTEM\Setup`
	setupState      = `SOFTWARE\Microsoft\Windows\CurrentVersion\Setup\State`
	updateReboot    = `SOFTWARE\Microsoft\Windows\CurrentVersion\WindowsUpdate\Auto Update\RebootRequired`
)

// Facts implements hostapi.System.
func (s *system) Facts(ctx context.Context) (wicdapi.HostFacts, error) {
	build, revision, err := inventory{}.Version(ctx)
	if err != nil {
		return wicdapi.HostFacts{}, err
	}
	f := wicdapi.HostFacts{
		Architecture:   architecture(),
		Virtualization: virtualization(),
		Build:          build,
		UBR:            revision,
		Product:        text(currentVersion, "ProductName"),
		Installation:   text(currentVersion, "InstallationType"),
		Clock:          time.Now().UTC(),
		PendingReboot:  waits().All(),
	}
	unread := func(fact string, err error) {
		if err == nil {
			return
		}
		if f.Unread == nil {
			f.Unread = map[string]string{}
		}
		f.Unread[fact] = err.Error()
	}
	f.BootID, err = bootID()
	unread(wicdapi.FactBootID, err)
	f.Hostname, err = dnsName(windows.ComputerNameDnsHostname)
	unread(wicdapi.FactHostname, err)
	f.Domain, err = dnsName(windows.ComputerNameDnsDomain)
	unread(wicdapi.FactDomain, err)
	f.Interfaces, f.Adapters, err = interfaces()
	unread(wicdapi.FactInterfaces, err)
	f.SystemDrive, err = systemDrive()
	unread(wicdapi.FactSystemDrive, err)
	f.FreeBytes, f.DiskBytes, err = diskSpace(cmp.Or(f.SystemDrive, "C:") + `\`)
	unread(wicdapi.FactFreeBytes, err)
	f.MemoryBytes, err = memoryBytes()
	unread(wicdapi.FactMemory, err)
	f.Processors, f.NUMANodes = processors(), numaNodes()
	f.Listeners, err = listeners()
	unread(wicdapi.FactListeners, err)
	f.RuntimePipe, err = hasPipe(desired.RuntimePipe)
	unread(wicdapi.FactRuntimePipe, err)
	return f, ctx.Err()
}

// systemDrive returns the drive of the Windows folder.
func systemDrive() (string, error) {
	folder, err := windows.GetSystemWindowsDirectory()
	return strings.ToUpper(filepath.VolumeName(folder)), err
}

// architecture returns the architecture of the machine, which differs from the process's if Windows emulates another one.
func architecture() string {
	var process, native uint16
	if err := windows.IsWow64Process2(windows.CurrentProcess(), &process, &native); err != nil {
		return "unknown"
	}
	switch native { // IMAGE_FILE_MACHINE_*
	case 0x8664:
		return "amd64"
	case 0xaa64:
		return "arm64"
	case 0x014c:
		return "386"
	}
	return fmt.Sprintf("unknown (machine type %#x)", native)
}

// bootID returns the number that the kubelet also reports. Windows increases it at each start.
func bootID() (string, error) {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, prefetch, registry.QUERY_VALUE|registry.WOW64_64KEY)
	if err != nil {
		return "", fmt.Errorf(`opening HKLM\%s: %w`, prefetch, err)
	}
	defer key.Close()
	id, _, err := key.GetIntegerValue("BootId")
	if err != nil {
		return "", fmt.Errorf(`reading BootId of HKLM\%s: %w`, prefetch, err)
	}
	return strconv.FormatUint(id, 10), nil
}

// dnsName returns a current name of Windows. The names of the physical computer would be those after the next start.
func dnsName(kind uint32) (string, error) {
	size := uint32(256) // a host name has at most 63 characters, a full name 255
	name := make([]uint16, size)
	if err := windows.GetComputerNameEx(kind, &name[0], &size); err != nil {
		return "", err
	}
	return windows.UTF16ToString(name), nil
}

// diskSpace returns the bytes of the folder's drive that are free, and all of its bytes.
func diskSpace(folder string) (free, all uint64, err error) {
	name, err := windows.UTF16PtrFromString(folder)
	if err != nil {
		return 0, 0, err
	}
	err = windows.GetDiskFreeSpaceEx(name, &free, &all, nil)
	return free, all, err
}

// processors counts the processors of all groups, as the kubelet does (pkg/kubelet/winstats).
func processors() int {
	const allGroups = 0xffff // ALL_PROCESSOR_GROUPS
	return int(windows.GetActiveProcessorCount(allGroups))
}

// numaNodes returns the number of NUMA nodes, or 0 if Windows does not return it.
func numaNodes() int {
	var highest uint32
	call := windows.NewLazySystemDLL("kernel32.dll").NewProc("GetNumaHighestNodeNumber")
	if ok, _, _ := call.Call(uintptr(unsafe.Pointer(&highest))); ok == 0 {
		return 0
	}
	return int(highest) + 1
}

// waits returns why Windows needs a restart.
func waits() (w hostapi.Waits) {
	if w.Servicing = exists(servicingReboot); w.Servicing {
		w.Causes = append(w.Causes, "features or updates are half installed (Component Based Servicing)")
	}
	if exists(updateReboot) {
		w.Causes = append(w.Causes, "updates are installed (Windows Update)")
	}
	w.Replacements = hostapi.Replacements(texts(sessionManager, "PendingFileRenameOperations"))
	active, next := text(computerName+`\ActiveComputerName`, "ComputerName"), text(computerName+`\ComputerName`, "ComputerName")
	if cause := hostapi.PendingRename(active, next); cause != "" {
		w.Causes = append(w.Causes, cause)
	}
	return w
}

// read passes an open key below HKEY_LOCAL_MACHINE to a function, unless the key is absent.
func read(path string, use func(registry.Key)) {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, path, registry.QUERY_VALUE|registry.WOW64_64KEY)
	if err != nil {
		return
	}
	defer key.Close()
	use(key)
}

func exists(path string) (found bool) {
	read(path, func(registry.Key) { found = true })
	return found
}

// text returns the value of a key; empty if there is none.
func text(path, name string) (value string) {
	read(path, func(k registry.Key) { value, _, _ = k.GetStringValue(name) })
	return value
}

// texts returns the strings of a value of a key.
func texts(path, name string) (values []string) {
	read(path, func(k registry.Key) { values, _, _ = k.GetStringsValue(name) })
	return values
}

// number returns the value of a key; 0 if there is none.
func number(path, name string) (value uint64) {
	read(path, func(k registry.Key) { value, _, _ = k.GetIntegerValue(name) })
	return value
}
