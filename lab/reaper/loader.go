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

// loaderName is the program in the folder of its own loader with which Wine starts all processes if it exists. The first
// argument is the path of the loader.
const loaderName = "wine64-preloader"

// namesLibrary is a library in the folder of Wine's loader for the programs of containers.
const namesLibrary = "names.so"

// load replaces this process with Wine's loader. Processes of containers use the Wine prefix of their container: it has the
// same server and registry, but another drive C:. They also have the container's limits, the network of its pod, and its host
// name and name resolution.
func load(args, environment []string) error {
	if len(args) == 0 {
		return errors.New("want Wine's loader and its arguments")
	}
	environment, drive := containerEnvironment(environment)
	if drive != "" {
		if err := errors.Join(enterLimits(drive), enterNetwork(drive), enterName(drive), enterResolver(drive)); err != nil {
			return err
		}
		environment = append(environment, "LD_PRELOAD="+filepath.Join(filepath.Dir(args[0]), namesLibrary))
	}
	return syscall.Exec(args[0], args, environment)
}

// containerEnvironment returns the environment with the Wine prefix of the container that it names, and the name of its drive,
// which is "" for processes outside of containers.
func containerEnvironment(environment []string) (changed []string, drive string) {
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

// placeLoader installs this program and the library in the folder of Wine's loader. It must run before /tmp is replaced.
func placeLoader(dir string, wine hostspec.Wine) error {
	from, to := filepath.Dir(wine.Loader), filepath.Join(dir, "wine")
	if err := os.RemoveAll(to); err != nil { // from the last boot
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
