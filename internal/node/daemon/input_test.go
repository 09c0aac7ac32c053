package daemon_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/daemon"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

const (
	inputProgram = `C:\Users\Administrator\wicd-0123456789abcdef.exe`
	inputFolder  = "wicd-input-ABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

// callWithInput runs a command with its input from the folder.
func callWithInput(t *testing.T, w *sim.Windows, command, folder string) (answer string) {
	t.Helper()
	var out strings.Builder
	daemon.Main(t.Context(), daemon.Call{
		Path: inputProgram, Args: []string{command, "--input=" + folder}, Stdin: strings.NewReader("not this"), Stdout: &out, Stderr: io.Discard,
		Host:    func() (hostapi.Host, error) { return w.Host(), nil },
		Program: func() (io.ReadCloser, error) { return nil, errors.ErrUnsupported },
	})
	return out.String()
}

func newInputWindows(t *testing.T) *sim.Windows {
	t.Helper()
	w := sim.NewWindows(sim.WindowsOptions{Root: t.TempDir()})
	t.Cleanup(w.PowerOff)
	if _, err := w.Disk().MakeFolder(hostapi.Parent(inputProgram)); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestInputFilesArePrivate(t *testing.T) {
	w := newInputWindows(t)
	folder := hostapi.Parent(inputProgram) + `\` + inputFolder
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	put := make(chan error, 1)
	go func() {
		for ctx.Err() == nil && !w.Disk().Exists(folder) {
		}
		private, _, err := w.Host().Rights.Check(folder, hostapi.Private)
		if err == nil && !private {
			err = errors.New("others may read the folder")
		}
		if err == nil {
			_, err = w.Disk().WriteFile(folder+`\000001.piece`, `{"cluster":`)
		}
		if err == nil {
			_, err = w.Disk().WriteFile(folder+`\000002.last`, "\"c\"}\n")
		}
		put <- err
	}()
	if got := callWithInput(t, w, wicdapi.CommandLeave, inputFolder); !strings.Contains(got, `{"result":`) {
		t.Errorf("the response is %s", got)
	}
	cancel()
	if err := <-put; err != nil {
		t.Error(err)
	}
	if w.Disk().Exists(folder) {
		t.Errorf("%s remains", folder)
	}
}

func TestInputIsReadOnlyFromItsFolder(t *testing.T) {
	for _, name := range []string{`..\x`, "wicd-input-", "wicd-input-abc", `C:\Windows`, inputFolder + `\..`, inputFolder + "A"} {
		w := newInputWindows(t)
		if got := callWithInput(t, w, wicdapi.CommandLeave, name); !strings.Contains(got, string(wicdapi.CodeRequestInvalid)) {
			t.Errorf("with %q, the response is %s", name, got)
		}
	}
	w := newInputWindows(t)
	if _, err := w.Disk().WriteFile(hostapi.Parent(inputProgram)+`\`+inputFolder+`\000001.last`, "{}\n"); err != nil {
		t.Fatal(err)
	}
	if got := callWithInput(t, w, wicdapi.CommandLeave, inputFolder); !strings.Contains(got, "it already exists") {
		t.Errorf("with a folder of another owner, the response is %s", got)
	}
}
