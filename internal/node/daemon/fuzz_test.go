package daemon_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/daemon"
	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// FuzzRequests passes arbitrary requests to the commands that take one. Each must be answered, and nothing may be written outside drive C:. A leave
// on a host without anything of the operator's changes nothing.
func FuzzRequests(f *testing.F) {
	request, err := json.Marshal(daemontest.NewRequest(daemontest.NewPayload("1")))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(wicdapi.CommandJoin, request)
	f.Add(wicdapi.CommandJoin, bytes.ReplaceAll(request, []byte(`C:\\k`), []byte(`C:\\..\\..`)))
	f.Add(wicdapi.CommandJoin, []byte(`{"node":"n","cluster":"c","desired":{"digest":"`+strings.Repeat("a", 64)+`","files":[{"path":"C:\\..\\x"}]}}`))
	f.Add(wicdapi.CommandJoin, bytes.Replace(request, []byte(`"mayReboot":true`), []byte(`"hostname":"other","mayReboot":true`), 1))
	f.Add(wicdapi.CommandJoin, bytes.Replace(request, []byte(`"digest":`), []byte(`"authorizedKeys":["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"],"retiredKeys":["x"],"digest":`), 1))
	f.Add(wicdapi.CommandLeave, []byte(`{"cluster":"11111111-2222-3333-4444-555555555555"}`))
	f.Add(wicdapi.CommandLeave, []byte(`{"cluster":"another"}`))
	f.Add(wicdapi.CommandLeave, []byte(`{"cluster":null}`))
	f.Add(wicdapi.CommandReceive, []byte(`{"content":[{"sha256":"`+strings.Repeat("a", 64)+`","size":1,"compressedSize":3}]}`+"\nabcd"))
	f.Add(wicdapi.CommandReceive, []byte(`{"content":null}`))
	f.Add(wicdapi.CommandJoin, []byte("no JSON"))
	f.Fuzz(func(t *testing.T, command string, stdin []byte) {
		if command != wicdapi.CommandJoin && command != wicdapi.CommandReceive && command != wicdapi.CommandLeave {
			return
		}
		base := t.TempDir()
		w := sim.NewWindows(sim.WindowsOptions{Root: filepath.Join(base, "computer")})
		defer w.PowerOff()
		h := w.Host()
		var out bytes.Buffer
		daemon.Main(t.Context(), daemon.Call{
			Args: []string{command}, Stdin: bytes.NewReader(stdin), Stdout: &out, Stderr: io.Discard,
			Host:    func() (hostapi.Host, error) { return h, nil },
			Program: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(daemontest.Program)), nil },
		})
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		var last map[string]json.RawMessage
		if json.Unmarshal([]byte(lines[len(lines)-1]), &last) != nil || last["result"] == nil && last["error"] == nil {
			t.Errorf("the last line is %q", lines[len(lines)-1])
		}
		if command == wicdapi.CommandLeave && w.Changes() > 0 {
			t.Errorf("the leave made %d changes on a host without anything of the operator", w.Changes())
		}
		for _, folder := range []string{base, filepath.Join(base, "computer")} {
			entries, _ := os.ReadDir(folder)
			for _, e := range entries {
				if e.Name() != "computer" && e.Name() != "C" {
					t.Errorf("%s was created in %s", e.Name(), folder)
				}
			}
		}
	})
}
