package daemon_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/windows-machine-config/wmco/internal/node/daemon"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// FuzzRequests passes arbitrary requests to the commands that take one. Each must be answered, and nothing may be written outside drive C:. A leave
// on a host without anything of the operator's changes nothing.
func FuzzRequests(f *testing.F) {
	request, err := json.Marshal(newRequest(newCargo("1")))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(wicdapi.CommandJoin, request)
	f.Add(wicdapi.CommandJoin, bytes.ReplaceAll(request, []byte(`C:\\k`), []byte(`C:\\..\\..`)))
	f.Add(wicdapi.CommandJoin, []byte(`{"node":"n","cluster":"c","desired":{"digest":"`+strings.Repeat("a", 64)+`","files":[{"path":"C:\\..\\x"}]}}`))
	f.Add(wicdapi.CommandJoin, bytes.Replace(request, []byte(`"mayReboot":true`), []byte(`"hostname":"other","mayReboot":true`), 1))
	f.Add(wicdapi.CommandJoin, bytes.Replace(request, []byte(`"digest":`), []byte(`"authorizedKeys":["`+keyLine("a")+`"],"retiredKeys":["x"],"digest":`), 1))
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
			Program: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(program)), nil },
		})
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		var last map[string]json.RawMessage
		if json.Unmarshal([]byte(lines[len(lines)-1]), &last) != nil || last["result"] == nil && last["error"] == nil {
			t.Errorf("the last line is %q", lines[len(lines)-1])
		}
		if command == wicdapi.CommandLeave && w.Changes() > 0 {
			t.Errorf("the leave made %d changes on a host with nothing of ours", w.Changes())
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

// FuzzRecords runs a leave on a host whose record, list of certificates and CNI results are arbitrary. Files of others must stay, and after a
// successful leave, a second one must find nothing to do.
func FuzzRecords(f *testing.F) {
	r := newRequest(newCargo("1"))
	r.Desired.Files = append(r.Desired.Files, desired.File{Path: `C:\data\..\data\x`})
	b, err := json.Marshal(r)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, []byte(`["aa"]`), []byte(`{"netns":"x"}`))
	f.Add([]byte(`{"cluster":"11111111-2222-3333-4444-555555555555","node":"n","desired":{"directories":["C:\\data","C:\\"],"files":[{"path":"C:\\"},{"path":"C:\\data"},{"path":"C:"}]}}`), []byte(`{`), []byte(`[]`))
	f.Add([]byte(`{"node":"n","desired":{"environment":{"OTHER":"x","":"y"},"watchedEnvironment":["=","a"]}}`), []byte(`null`), []byte(`{"netns":1}`))
	f.Fuzz(func(t *testing.T, record, certificates, network []byte) {
		synctest.Test(t, func(t *testing.T) {
			w := newWindows(t, sim.WindowsOptions{})
			const others = `C:\data\sub\important.txt`
			for name, content := range map[string][]byte{
				others: nil, desired.State + `\node.json`: record, desired.State + `\certificates.json`: certificates,
				desired.CNIData + `\results\x`: network,
			} {
				mustWrite(t, w.Disk(), name, string(content))
			}
			const cluster = "11111111-2222-3333-4444-555555555555"
			if _, err := newWire(w).leave(cluster); err != nil {
				return
			}
			if !w.Disk().Exists(others) {
				t.Errorf("%s is gone", others)
			}
			if again, err := newWire(w).leave(cluster); err != nil || len(again.Removed) > 0 {
				t.Errorf("the second leave: %+v, %v", again, err)
			}
		})
	})
}
