package state_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// claimed returns folders with the access that users must have to them.
func claimed() map[string]hostapi.Access {
	return map[string]hostapi.Access{
		desired.Root: hostapi.Private, desired.ContainerdData: hostapi.Private, desired.ContainerdRoot: hostapi.Private, desired.ContainerdState: hostapi.Private,
		desired.Logs + `\kubelet`: hostapi.Private, desired.KubeletCertificates: hostapi.Private,
		`C:\var`: hostapi.Readable, `C:\var\lib`: hostapi.Readable, desired.Logs: hostapi.Readable, desired.KubeletData: hostapi.Readable,
		desired.KubeletData + `\pods`: hostapi.Volumes,
	}
}

func expectClaimed(t *testing.T, w *sim.Windows) {
	t.Helper()
	for folder, who := range claimed() {
		if matches, foreignOwner, err := w.Host().Rights.Check(folder, who); err != nil || !matches {
			t.Errorf("%s: Check() = %v, %q, %v; want it owned by Administrators, with rights %d", folder, matches, foreignOwner, err, who)
		}
	}
}

func mustChangeOwner(t *testing.T, w *sim.Windows, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := w.ChangeOwner(name); err != nil {
			t.Fatal(err)
		}
	}
}

// On a real host, users have rights to new folders below C:\ unless the creator restricts them.
func TestHostUsersCannotChangeServiceFolders(t *testing.T) {
	w, r := daemontest.NewNode(t, sim.WindowsOptions{})
	expectClaimed(t, w)
	for folder := range claimed() {
		if err := w.Open(folder); err != nil {
			t.Fatal(err)
		}
	}
	daemontest.MustJoin(t, w, r)
	expectClaimed(t, w)
}

// A user created the folders before the host became a node, keeps them open, and writes to them.
func TestUserCreatedFoldersAreMovedAside(t *testing.T) {
	for _, trap := range []string{
		desired.Root, `C:\var`, desired.Logs, desired.Logs + `\kubelet`, desired.Logs + `\pods`, `C:\var\lib`, desired.KubeletData, desired.KubeletData + `\pods`,
		desired.KubeletData + `\device-plugins`, desired.KubeletCertificates, desired.CNIData, desired.ContainerdData,
		desired.ContainerdRoot, desired.ContainerdRoot + `\io.containerd.content.v1.content`,
	} {
		t.Run(trap, func(t *testing.T) {
			w, c := daemontest.NewWindows(t, sim.WindowsOptions{}), daemontest.NewPayload("1")
			r := daemontest.NewRequest(c)
			daemontest.MustWrite(t, w.Disk(), trap+`\planted`, "by a user")
			mustChangeOwner(t, w, trap)
			daemontest.MustSend(t, w, c)
			result := daemontest.MustJoin(t, w, r)
			daemontest.ExpectJoined(t, w, r)
			expectClaimed(t, w)
			if w.Disk().Exists(trap + `\planted`) {
				t.Error("a planted file is in a folder of services")
			}
			daemontest.ExpectContent(t, w.Disk(), trap+`.old0\planted`, "by a user")
			daemontest.ExpectContains(t, daemontest.Journal(t, w), "belonged to")
			if trap != desired.Root && !slices.ContainsFunc(result.Changed, func(s string) bool { return strings.Contains(s, trap+" belonged to ") }) {
				t.Errorf("the join does not report it: %q", result.Changed)
			}
			daemontest.ExpectNoChange(t, w, r)
		})
	}
}

// The original operator's C:\k lets users create folders and files in it.
func TestPlantedFilesAreMovedAside(t *testing.T) {
	w, c := daemontest.NewWindows(t, sim.WindowsOptions{}), daemontest.NewPayload("1")
	for _, name := range []string{`C:\k\ours\file`, `C:\k\ours\planted`, `C:\k\store\planted`} {
		daemontest.MustWrite(t, w.Disk(), name, "x")
	}
	mustChangeOwner(t, w, `C:\k\ours\planted`, `C:\k\store`)
	if err := errors.Join(w.Open(desired.Root), w.Open(`C:\k\ours`)); err != nil {
		t.Fatal(err)
	}
	daemontest.MustSend(t, w, c)
	daemontest.MustJoin(t, w, daemontest.NewRequest(c))
	daemontest.ExpectJoined(t, w, daemontest.NewRequest(c))
	daemontest.ExpectContent(t, w.Disk(), `C:\k\ours\file`, "x")
	for _, name := range []string{`C:\k\ours\planted`, `C:\k\store\planted`} {
		if w.Disk().Exists(name) {
			t.Errorf("%s exists", name)
		}
	}
}

func TestLinkInParentFolderIsRejected(t *testing.T) {
	for _, trap := range []string{
		desired.Root, `C:\var`, desired.Logs, desired.Logs + `\kubelet`, `C:\var\lib`, desired.KubeletData, desired.KubeletData + `\pods`, desired.KubeletCertificates,
		desired.CNIData, `C:\ProgramData`, desired.ContainerdData, desired.ContainerdState,
	} {
		t.Run(trap, func(t *testing.T) {
			w, c := daemontest.NewWindows(t, sim.WindowsOptions{}), daemontest.NewPayload("1")
			d := w.Disk()
			daemontest.MustWrite(t, d, `C:\elsewhere\file`, "somebody else's")
			daemontest.MustWrite(t, d, trap+`\file`, "x")
			if err := errors.Join(d.RemoveAll(trap), os.Symlink(d.Local(`C:\elsewhere`), d.Local(trap))); err != nil {
				t.Fatal(err)
			}
			_, err := daemontest.NewWire(w).Send(c)
			if err == nil {
				_, err = daemontest.NewWire(w).Join(daemontest.NewRequest(c))
			}
			if want := "claiming " + trap + ": it is a link"; err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "remove it") {
				t.Errorf("the join returned %v, want %q and a remedy", err, want)
			}
			if names, _ := d.List(`C:\elsewhere`); !slices.Equal(names, []string{"file"}) {
				t.Errorf("the target of the link has %q", names)
			}
		})
	}
}

// Windows does not rename a folder in which a file is open.
func TestFolderThatCannotBeRenamedIsRejected(t *testing.T) {
	w, r := daemontest.NewHost(t, sim.WindowsOptions{})
	daemontest.MustWrite(t, w.Disk(), `C:\var\planted`, "x")
	mustChangeOwner(t, w, `C:\var`)
	w.FailNext(`rename C:\var.old0`)
	_, err := daemontest.NewWire(w).Join(r)
	if err == nil || !strings.Contains(err.Error(), `renaming C:\var, which belongs to`) || !strings.Contains(err.Error(), `icacls C:\var /setowner`) {
		t.Errorf("the join returned %v, want a remedy", err)
	}
	daemontest.MustJoin(t, w, r)
	expectClaimed(t, w)
}
