package daemon_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/daemon"
	"github.com/windows-machine-config/wmco/internal/sim"
)

// FuzzRequests hands arbitrary requests to the commands that take one. Each must be answered, and nothing may be
// written anywhere but on drive C:.
func FuzzRequests(f *testing.F) {
	request, err := json.Marshal(newRequest(newCargo("1")))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(agent.CommandJoin, request)
	f.Add(agent.CommandJoin, bytes.ReplaceAll(request, []byte(`C:\\k`), []byte(`C:\\..\\..`)))
	f.Add(agent.CommandJoin, []byte(`{"node":"n","cluster":"c","desired":{"digest":"`+strings.Repeat("a", 64)+`","files":[{"path":"C:\\..\\x"}]}}`))
	f.Add(agent.CommandReceive, []byte(`{"content":[{"sha256":"`+strings.Repeat("a", 64)+`","size":1,"compressedSize":3}]}`+"\nabcd"))
	f.Add(agent.CommandReceive, []byte(`{"content":null}`))
	f.Add(agent.CommandJoin, []byte("no JSON"))
	f.Fuzz(func(t *testing.T, command string, stdin []byte) {
		if command != agent.CommandJoin && command != agent.CommandReceive {
			return
		}
		base := t.TempDir()
		w := sim.NewWindows(sim.WindowsOptions{Root: filepath.Join(base, "computer")})
		defer w.PowerOff()
		host := w.Host()
		var out bytes.Buffer
		daemon.Main(t.Context(), daemon.Call{
			Args: []string{command}, Stdin: bytes.NewReader(stdin), Stdout: &out, Stderr: io.Discard,
			Host:    func() (daemon.Host, error) { return host, nil },
			Program: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(program)), nil },
		})
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		var last map[string]json.RawMessage
		if json.Unmarshal([]byte(lines[len(lines)-1]), &last) != nil || last["result"] == nil && last["error"] == nil {
			t.Errorf("the last line is %q", lines[len(lines)-1])
		}
		for _, folder := range []string{base, filepath.Join(base, "computer")} {
			entries, _ := os.ReadDir(folder)
			for _, e := range entries {
				if e.Name() != "computer" && e.Name() != "C" {
					t.Errorf("%s was made in %s", e.Name(), folder)
				}
			}
		}
	})
}
