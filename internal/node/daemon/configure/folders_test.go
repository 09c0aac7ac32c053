package configure_test

import (
	"os"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

const (
	binDir    = `C:\opt\cni\bin`
	configDir = `C:\etc\cni\net.d`
)

func TestUserFoldersAreCreatedAndKept(t *testing.T) {
	w, r := daemontest.NewHost(t, sim.WindowsOptions{})
	r.Desired.UserNetwork = &desired.UserNetwork{BinDir: binDir, ConfigDir: configDir}
	daemontest.MustWrite(t, w.Disk(), binDir+`\calico.exe`, "the user's")
	if err := w.Open(binDir); err != nil {
		t.Fatal(err)
	}
	daemontest.MustJoin(t, w, r)
	for folder, who := range map[string]hostapi.Access{`C:\etc`: hostapi.Readable, `C:\etc\cni`: hostapi.Readable, configDir: hostapi.Private} {
		if matches, _, err := w.Host().Rights.Check(folder, who); err != nil || !matches {
			t.Errorf("%s was created with rights other than %d (%v)", folder, who, err)
		}
	}
	if info, err := os.Stat(w.Disk().Local(binDir)); err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("the rights of an existing folder are %v (%v)", info, err)
	}
	daemontest.ExpectNoChange(t, w, r)
	daemontest.MustLeave(t, w, r.Cluster)
	daemontest.ExpectContent(t, w.Disk(), binDir+`\calico.exe`, "the user's")
	if !w.Disk().Exists(configDir) {
		t.Errorf("%s was removed", configDir)
	}
}

func TestFoldersOwnedByHostUsersAreRejected(t *testing.T) {
	for _, trap := range []string{`C:\opt`, `C:\opt\cni`, binDir, configDir} {
		t.Run(trap, func(t *testing.T) {
			w, r := daemontest.NewHost(t, sim.WindowsOptions{})
			r.Desired.UserNetwork = &desired.UserNetwork{BinDir: binDir, ConfigDir: configDir}
			daemontest.MustWrite(t, w.Disk(), trap+`\planted`, "by a user")
			if err := w.ChangeOwner(trap); err != nil {
				t.Fatal(err)
			}
			_, err := daemontest.NewWire(w).Join(r)
			if want := "using " + trap + ", a folder of spec.network.custom: it belongs to "; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the join returned %v, want %q", err, want)
			}
			daemontest.ExpectContent(t, w.Disk(), trap+`\planted`, "by a user")
		})
	}
}
