package contract

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// ContainersFixture is one computer for one test.
type ContainersFixture struct {
	Containers hostapi.Containers
	Disk       hostapi.Disk
	// Folder is an empty folder for the test, by its Windows name.
	Folder string
	// Start copies a program to this path and starts it; it runs until it is killed. Running reports whether it runs.
	Start   func(t *testing.T, path string)
	Running func(t *testing.T, path string) bool
	// Container starts a container, Network creates the network of a pod and returns its GUID, Layer creates a layer; nil if
	// there are none, and NoContainers is the reason.
	Container    func(t *testing.T, name string)
	Network      func(t *testing.T) (id string)
	Layer        func(t *testing.T, folder string)
	NoContainers string
	// Hang makes the Host Compute Service stop answering until the test ends; nil if a test cannot, and NoHang is the reason.
	Hang   func(t *testing.T)
	NoHang string
}

// Containers checks the contract of hostapi.Containers.
func Containers(t *testing.T, fixture func(t *testing.T) ContainersFixture) {
	run(t, fixture, []test[ContainersFixture]{
		{"EndProgramsEndsOnlyProgramsBelowFolder", endProgramsEndsOnlyProgramsBelowFolder},
		{"EndingNoProgramsIsNoError", endingNoProgramsIsNoError},
		{"AbsentObjectsAreNoError", absentObjectsAreNoError},
		{"ContainersAreListedUntilTheyEnd", containersAreListedUntilTheyEnd},
		{"ListEndsWithItsContext", listEndsWithItsContext},
		{"PodNetworksAreRemovedOnce", podNetworksAreRemovedOnce},
		{"LayersAreRemoved", layersAreRemoved},
	})
}

func endProgramsEndsOnlyProgramsBelowFolder(t *testing.T, f ContainersFixture) {
	inside, deep, beside := f.Folder+`\inside\one.exe`, f.Folder+`\inside\deep\two.exe`, f.Folder+`\inside-not\three.exe`
	for _, path := range []string{inside, deep, beside} {
		f.Start(t, path)
	}
	ended, err := f.Containers.EndPrograms(deadline(t), f.Folder+`\INSIDE`)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{deep, inside}
	slices.Sort(want)
	if diff := cmp.Diff(want, ended); diff != "" {
		t.Errorf("ended (-want +got):\n%s", diff)
	}
	if f.Running(t, inside) || f.Running(t, deep) || !f.Running(t, beside) {
		t.Errorf("running: %v, %v, and beside %v; want false, false, true", f.Running(t, inside), f.Running(t, deep), f.Running(t, beside))
	}
	if err := f.Disk.Remove(inside); err != nil {
		t.Errorf("a program that has ended is still in use: %v", err)
	}
	if ended, err := f.Containers.EndPrograms(deadline(t), f.Folder); err != nil || !slices.Equal(ended, []string{beside}) {
		t.Errorf("EndPrograms() of all = %q, %v, want %q", ended, err, beside)
	}
}

func listEndsWithItsContext(t *testing.T, f ContainersFixture) {
	if f.Hang == nil {
		t.Skip(f.NoHang)
	}
	f.Hang(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := f.Containers.List(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a hanging service returned %v, want DeadlineExceeded", err)
	}
}

func endingNoProgramsIsNoError(t *testing.T, f ContainersFixture) {
	for _, folder := range []string{f.Folder, f.Folder + `\absent`} {
		if ended, err := f.Containers.EndPrograms(deadline(t), folder); err != nil || len(ended) > 0 {
			t.Errorf("EndPrograms(%s) = %q, %v", folder, ended, err)
		}
	}
}

func absentObjectsAreNoError(t *testing.T, f ContainersFixture) {
	if _, err := f.Containers.List(deadline(t)); err != nil {
		t.Errorf("List(): %v", err)
	}
	if err := f.Containers.End(deadline(t), "wicd-contract-absent"); err != nil {
		t.Errorf("End(): %v", err)
	}
	if err := f.Containers.RemoveLayer(deadline(t), f.Folder+`\absent`); err != nil {
		t.Errorf("RemoveLayer(): %v", err)
	}
	const absent = "11111111-2222-4333-8444-555555555555"
	if removed, err := f.Containers.RemoveNamespace(deadline(t), absent); err != nil || removed {
		t.Errorf("RemoveNamespace() = %v, %v", removed, err)
	}
}

func containersAreListedUntilTheyEnd(t *testing.T, f ContainersFixture) {
	if f.Container == nil {
		t.Skip(f.NoContainers)
	}
	for _, name := range []string{"wicd-contract-b", "wicd-contract-a"} {
		f.Container(t, name)
	}
	for _, want := range [][]string{{"wicd-contract-a", "wicd-contract-b"}, {"wicd-contract-b"}, nil} {
		got, err := f.Containers.List(deadline(t))
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("List() = %q, %v, want %q", got, err, want)
		}
		if len(want) > 0 {
			if err := f.Containers.End(deadline(t), want[0]); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func podNetworksAreRemovedOnce(t *testing.T, f ContainersFixture) {
	if f.Network == nil {
		t.Skip(f.NoContainers)
	}
	id := f.Network(t)
	for _, want := range []bool{true, false} {
		if removed, err := f.Containers.RemoveNamespace(deadline(t), id); err != nil || removed != want {
			t.Errorf("RemoveNamespace() = %v, %v, want %v", removed, err, want)
		}
	}
}

func layersAreRemoved(t *testing.T, f ContainersFixture) {
	if f.Layer == nil {
		t.Skip(f.NoContainers)
	}
	layer := f.Folder + `\7`
	f.Layer(t, layer)
	if err := f.Containers.RemoveLayer(deadline(t), layer); err != nil {
		t.Fatal(err)
	}
	if f.Disk.Exists(layer) {
		t.Error("the layer still exists")
	}
}
