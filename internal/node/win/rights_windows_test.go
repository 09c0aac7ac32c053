package win

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim/contract"
)

func TestRightsKeepTheContract(t *testing.T) {
	host := mustHost(t)
	contract.Rights(t, func(t *testing.T) contract.RightsFixture {
		f := contract.RightsFixture{
			Rights: host.Rights, Disk: host.Disk, Folder: tempFolder(t),
			Open:        func(t *testing.T, folder string) { mustRights(t, folder, "(A;OICI;FA;;;BA)(A;OICI;FA;;;WD)") },
			ChangeOwner: func(t *testing.T, name string) { mustChangeOwner(t, name, windows.WinBuiltinGuestsSid) },
			Link: func(t *testing.T, to, name string) {
				if err := os.Symlink(to, name); err != nil {
					t.Fatal(err)
				}
			},
		}
		if onWine() {
			f.NoReadback = "Wine returns the rights of the file on its host system"
			f.NoOtherOwners = "on Wine all files belong to the user who runs it"
			f.NoLinks = "Wine cannot create links"
		}
		return f
	})
}

// mustChangeOwner makes another user the owner of a file or folder.
func mustChangeOwner(t *testing.T, name string, who windows.WELL_KNOWN_SID_TYPE) {
	t.Helper()
	sid, err := windows.CreateWellKnownSid(who)
	if err == nil {
		err = privileged(func() error {
			return windows.SetNamedSecurityInfo(name, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION, sid, nil, nil, nil)
		}, ownPrivileges()...)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestRightsAreSpelledAsWindowsDoes: Windows must return rights in the form in which the product writes them. Otherwise every check would find
// differences.
func TestRightsAreSpelledAsWindowsDoes(t *testing.T) {
	for _, list := range []string{privateFile, readableFile, privateFolder, readableFolder, volumesFolder} {
		descriptor, err := windows.SecurityDescriptorFromString(ownRights + list)
		if err != nil {
			t.Fatal(err)
		}
		got := descriptor.String()
		if onWine() {
			got = strings.Replace(got, "D:(", "D:P(", 1) // it does not return whether rights are inherited
		}
		if got != ownRights+list {
			t.Errorf("Windows writes %s, the test writes %s", got, ownRights+list)
		}
	}
}

func TestProtectRemovesForeignRights(t *testing.T) {
	folder := tempFolder(t)
	file := folder + `\file`
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	const openToEveryone = "(A;OICI;FA;;;BA)(A;OICI;FA;;;WD)"
	for path, want := range map[string]string{folder: ownRights + privateFolder, file: ownRights + privateFile} {
		if !strings.Contains(mustRights(t, path, openToEveryone), ";;;WD)") {
			t.Fatalf("making %s readable by everyone failed", path)
		}
		if err := (rights{}).Protect(path, hostapi.Private); err != nil {
			t.Fatal(err)
		}
		got := mustRights(t, path, "")
		if strings.Contains(got, ";;;WD)") {
			t.Errorf("everyone still has rights to %s: %s", path, got)
		}
		// Wine returns the rights of the file on its host system.
		if !onWine() && got != want {
			t.Errorf("%s has %s, want %s", path, got, want)
		}
	}
}

func TestProtectAppliesToFilesCreatedLater(t *testing.T) {
	if onWine() {
		t.Skip("on Wine, files do not inherit rights from folders")
	}
	folder := tempFolder(t)
	if err := (rights{}).Protect(folder, hostapi.Private); err != nil {
		t.Fatal(err)
	}
	file := folder + `\file`
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if got, want := mustRights(t, file, ""), "O:BAD:AI(A;ID;FA;;;SY)(A;ID;FA;;;BA)"; got != want {
		t.Errorf("a new file has %s, want %s", got, want)
	}
}

// mustRights sets rights, unless they are empty, and returns those that Windows then reports.
func mustRights(t *testing.T, path, rights string) string {
	t.Helper()
	o, err := openObject(path, windows.WRITE_DAC|windows.WRITE_OWNER)
	if err != nil {
		t.Fatal(err)
	}
	defer windows.CloseHandle(o.handle)
	if rights != "" {
		if err := o.secure(rights); err != nil {
			t.Fatal(err)
		}
	}
	const what = windows.OWNER_SECURITY_INFORMATION | windows.DACL_SECURITY_INFORMATION
	descriptor, err := windows.GetSecurityInfo(o.handle, windows.SE_FILE_OBJECT, what)
	if err != nil {
		t.Fatal(err)
	}
	return descriptor.String()
}
