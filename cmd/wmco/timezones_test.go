package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// inRoot is set in the process that TestTimeZonesAreEmbedded starts.
const inRoot = "WMCO_TEST_IN_ROOT"

// TestTimeZonesAreEmbedded loads a time zone in a root folder that contains only the program, as in the operator's image: maintenance windows
// name time zones.
func TestTimeZonesAreEmbedded(t *testing.T) {
	if os.Getenv(inRoot) != "" {
		if _, err := time.LoadLocation("Europe/Berlin"); err != nil {
			t.Error(err)
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root may change the root folder of a process")
	}
	if program, err := elf.Open("/proc/self/exe"); err != nil || slices.ContainsFunc(program.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		t.Skipf("only a static executable runs without files; build it with CGO_ENABLED=0 (%v)", err)
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "test"), self, 0o700); err != nil {
		t.Fatal(err)
	}
	command := exec.Command("/test", "-test.run=^"+t.Name()+"$")
	command.Env, command.Dir = []string{inRoot + "=yes"}, "/"
	command.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
