package contract

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// RightsFixture is a part of a drive for one test.
type RightsFixture struct {
	Rights hostapi.Rights
	// Disk is where Folder is.
	Disk hostapi.Disk
	// Folder is an empty folder for the test, by its Windows name.
	Folder string
	// Open gives everyone full access to a folder. NoReadback is why rights cannot be read; empty if they can.
	Open       func(t *testing.T, folder string)
	NoReadback string
	// ChangeOwner makes an ordinary user the owner of a file or folder. NoOtherOwners is why that is not possible; empty if it is.
	ChangeOwner   func(t *testing.T, name string)
	NoOtherOwners string
	// Link creates a link to a folder. NoLinks is why that is not possible; empty if it is.
	Link    func(t *testing.T, to, name string)
	NoLinks string
}

// Rights checks the contract of hostapi.Rights.
func Rights(t *testing.T, fixture func(t *testing.T) RightsFixture) {
	run(t, fixture, []test[RightsFixture]{
		{"FoldersAreCreatedWithRights", foldersAreCreatedWithRights},
		{"ExistingFolderIsUnchanged", existingFolderIsUnchanged},
		{"ProtectedFoldersAreUsable", protectedFoldersAreUsable},
		{"ProtectSetsExactRights", protectSetsExactRights},
		{"AbsentObjectIsNotFound", absentObjectIsNotFound},
		{"ForeignOwnersAreReported", foreignOwnersAreReported},
		{"LinksAreNotFollowed", linksAreNotFollowed},
	})
}

func accesses() []hostapi.Access {
	return []hostapi.Access{hostapi.Private, hostapi.Readable, hostapi.Volumes}
}

// mustMakeFolder makes a folder in that of the test.
func mustMakeFolder(t *testing.T, f RightsFixture, base string, access hostapi.Access) (folder string) {
	t.Helper()
	folder = f.Folder + `\` + base
	if created, err := f.Rights.MakeFolder(folder, access); err != nil || !created {
		t.Fatalf("MakeFolder() = %v, %v", created, err)
	}
	return folder
}

// expectRights checks the rights of an object, which only administrators may own.
func expectRights(t *testing.T, f RightsFixture, name string, want hostapi.Access) {
	t.Helper()
	for _, access := range accesses() {
		matches, owner, err := f.Rights.Check(name, access)
		if err != nil || matches != (access == want) || owner != "" {
			t.Errorf("Check(%s, %d) = %v, %q, %v; want rights %d", name, access, matches, owner, err, want)
		}
	}
}

func foldersAreCreatedWithRights(t *testing.T, f RightsFixture) {
	if f.NoReadback != "" {
		t.Skip(f.NoReadback)
	}
	for i, access := range accesses() {
		expectRights(t, f, mustMakeFolder(t, f, string(rune('a'+i)), access), access)
	}
}

func existingFolderIsUnchanged(t *testing.T, f RightsFixture) {
	folder := mustMakeFolder(t, f, "folder", hostapi.Readable)
	if created, err := f.Rights.MakeFolder(folder, hostapi.Private); err != nil || created {
		t.Errorf("again: MakeFolder() = %v, %v", created, err)
	}
	if f.NoReadback == "" {
		expectRights(t, f, folder, hostapi.Readable)
	}
}

func protectedFoldersAreUsable(t *testing.T, f RightsFixture) {
	for _, access := range accesses() {
		file := f.Folder + `\file`
		if err := f.Rights.Protect(f.Folder, access); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f.Disk.Local(file), []byte("content"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := f.Rights.Protect(file, hostapi.Private); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(f.Disk.Local(file)); err != nil || string(b) != "content" {
			t.Errorf("read %q, %v", b, err)
		}
	}
	if names, err := f.Disk.List(f.Folder); err != nil || len(names) != 1 {
		t.Errorf("the folder holds %q, %v, want one file", names, err)
	}
}

func protectSetsExactRights(t *testing.T, f RightsFixture) {
	if f.NoReadback != "" {
		t.Skip(f.NoReadback)
	}
	for _, access := range accesses() {
		f.Open(t, f.Folder)
		if matches, _, err := f.Rights.Check(f.Folder, access); err != nil || matches {
			t.Errorf("a folder with full access for everyone: Check() = %v, %v", matches, err)
		}
		if err := f.Rights.Protect(f.Folder, access); err != nil {
			t.Fatal(err)
		}
		expectRights(t, f, f.Folder, access)
	}
}

func absentObjectIsNotFound(t *testing.T, f RightsFixture) {
	if err := f.Rights.Protect(f.Folder+`\absent`, hostapi.Private); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Protect() = %v, want fs.ErrNotExist", err)
	}
	if _, _, err := f.Rights.Check(f.Folder+`\absent`, hostapi.Private); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Check() = %v, want fs.ErrNotExist", err)
	}
	if _, err := f.Rights.MakeFolder(f.Folder+`\absent\folder`, hostapi.Private); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("MakeFolder() in an absent folder = %v, want fs.ErrNotExist", err)
	}
}

func foreignOwnersAreReported(t *testing.T, f RightsFixture) {
	if f.NoOtherOwners != "" {
		t.Skip(f.NoOtherOwners)
	}
	folder := mustMakeFolder(t, f, "folder", hostapi.Private)
	f.ChangeOwner(t, folder)
	if matches, owner, err := f.Rights.Check(folder, hostapi.Private); err != nil || matches || owner == "" {
		t.Errorf("Check() = %v, %q, %v; want the foreign owner", matches, owner, err)
	}
	if err := f.Disk.Rename(folder, folder+".aside"); err != nil {
		t.Fatal(err)
	}
	if _, owner, err := f.Rights.Check(folder+".aside", hostapi.Private); err != nil || owner == "" {
		t.Errorf("after a rename: %q, %v; want the foreign owner", owner, err)
	}
	if err := f.Rights.Protect(folder+".aside", hostapi.Private); err != nil {
		t.Fatal(err)
	}
	if _, owner, err := f.Rights.Check(folder+".aside", hostapi.Private); err != nil || owner != "" {
		t.Errorf("after Protect(), its owner is %q, %v", owner, err)
	}
}

func linksAreNotFollowed(t *testing.T, f RightsFixture) {
	if f.NoLinks != "" {
		t.Skip(f.NoLinks)
	}
	folder, link := mustMakeFolder(t, f, "folder", hostapi.Readable), f.Folder+`\link`
	f.Link(t, folder, link)
	if err := f.Rights.Protect(link, hostapi.Private); err == nil {
		t.Error("Protect() of a link succeeds")
	}
	if created, err := f.Rights.MakeFolder(link, hostapi.Private); err != nil || created {
		t.Errorf("MakeFolder() where a link is = %v, %v", created, err)
	}
	if matches, _, err := f.Rights.Check(link, hostapi.Readable); err != nil || matches {
		t.Errorf("Check() at a link = %v, %v; want false", matches, err)
	}
	if f.NoReadback == "" {
		expectRights(t, f, folder, hostapi.Readable)
	}
}
