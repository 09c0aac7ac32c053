//go:build linux

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
	"github.com/windows-machine-config/wmco/lab/windows/hostspec"
)

// loaderName is the program beside its own loader by which Wine starts every process, if it exists: with the path of the loader as first
// argument.
const loaderName = "wine64-preloader"

// namesLibrary is a library beside Wine's loader for the programs of containers.
const namesLibrary = "names.so"

// load replaces this process by Wine's loader. Processes of containers get the Wine prefix of their container: the same server and the
// same registry, but another drive C:, its limits, the network of its pod, and the container's own name and way to resolve others.
func load(args, environment []string) error {
	if len(args) == 0 {
		return errors.New("want Wine's loader and its arguments")
	}
	environment, drive := ofContainer(environment)
	if drive != "" {
		if err := errors.Join(enterLimits(drive), enterNetwork(drive), takeName(drive), resolveAs(drive)); err != nil {
			return err
		}
		environment = append(environment, "LD_PRELOAD="+filepath.Join(filepath.Dir(args[0]), namesLibrary))
	}
	return syscall.Exec(args[0], args, environment)
}

// ofContainer returns the environment with the prefix of the container that is named in it, if any, and the name of its drive.
func ofContainer(environment []string) (own []string, drive string) {
	for i, variable := range environment {
		if name, found := strings.CutPrefix(variable, "WINEDEBUG="+guestapi.DriveTag); found {
			drive = filepath.Base(name)
			environment[i] = "WINEDEBUG=-all"
		}
	}
	if drive == "" {
		return environment, ""
	}
	for i, variable := range environment {
		if strings.HasPrefix(variable, "WINEPREFIX=") {
			environment[i] = "WINEPREFIX=" + drivePrefix(drive)
		}
	}
	return environment, drive
}

// placeLoader puts this program in front of Wine's loader, and the library beside it. It needs the machine's /tmp.
func placeLoader(dir string, wine hostspec.Wine) error {
	from, to := filepath.Dir(wine.Loader), filepath.Join(dir, "wine")
	if err := os.RemoveAll(to); err != nil { // of the last boot
		return err
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	for name, source := range map[string]string{loaderName: "/proc/self/exe", namesLibrary: wine.Names} {
		content, err := os.ReadFile(source)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, name), content, 0o755); err != nil {
			return err
		}
	}
	return bind(to, from)
}
