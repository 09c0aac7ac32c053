package win

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/node/win/scm"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// TestHostLeaves removes services, processes, files and settings. One service has a process that continues for a while after it reported
// that it has stopped; the shim of a container belongs to no service.
func TestHostLeaves(t *testing.T) {
	mustBeWine(t) // it would remove a real node
	host := mustHost(t)
	key := mustOpenEnvironment(t, "WICD_TEST_PROXY")
	if err := key.SetStringValue("WICD_TEST_PROXY", "x"); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{desired.Root, `C:\var`, desired.ContainerdData} {
		t.Cleanup(func() {
			if err := host.Disk.RemoveAll(folder); err != nil {
				t.Error(err)
			}
		})
	}
	const program = desired.Versions + `\x\program.exe`
	mustCopySelf(t, program)
	containerd := desired.Service{Name: "containerd", Description: desired.ServiceDescription("containerd"), Command: program + ` service lingers`}
	kubelet := desired.Service{Name: "kubelet", Description: desired.ServiceDescription("kubelet"), Command: program + ` service runs`, DependsOn: []string{"containerd"}}
	removeAfter(t, host.Services, "kubelet", "containerd")
	for _, s := range []desired.Service{containerd, kubelet} {
		if _, err := host.Services.Put(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if err := host.Services.Start(t.Context(), "kubelet"); err != nil {
		t.Fatal(err)
	}
	shim := mustStartCopy(t, `C:\k\containerd\`+shimOwner)
	record, err := json.Marshal(map[string]any{
		"cluster": "c", "node": "win-1", "complete": true,
		"desired": desired.Node{Services: []desired.Service{containerd, kubelet}, WatchedEnvironment: []string{"WICD_TEST_PROXY"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		desired.State + `\node.json`: string(record), desired.ContainerdRoot + `\meta.db`: "x", desired.KubeletData + `\pods\x`: "x",
		desired.Logs + `\kubelet\kubelet.log`: "x",
	} {
		if _, err := host.Disk.WriteFile(name, content); err != nil {
			t.Fatal(err)
		}
	}
	result := mustLeave(t, host)
	if len(result.Remains) > 0 {
		t.Errorf("remains: %q", result.Remains)
	}
	if !scm.Died(uint32(shim.Process.Pid)) {
		t.Error("the shim keeps running")
	}
	if found, err := host.Services.List(t.Context(), nil); err != nil || len(found) > 0 {
		t.Errorf("services %+v, %v", found, err)
	}
	if all := mustReadAll(t, key); all["WICD_TEST_PROXY"] != "" {
		t.Error("the variable exists")
	}
	want := []string{desired.Logs + `\kubelet\kubelet.log`, desired.State + `\journal.jsonl`}
	var files []string
	for _, folder := range []string{desired.Root, `C:\var`, desired.ContainerdData} {
		_ = host.Disk.Walk(folder, func(name string, info fs.FileInfo) error {
			if !info.IsDir() {
				files = append(files, name)
			}
			return nil
		})
	}
	slices.Sort(files)
	slices.Sort(want)
	if !slices.Equal(files, want) {
		t.Errorf("files %q, want %q", files, want)
	}
	if again := mustLeave(t, host); len(again.Removed)+len(again.Remains) > 0 {
		t.Errorf("the second leave: %+v", again)
	}
}

func mustLeave(t *testing.T, h hostapi.Host) (result wicdapi.LeaveResult) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out bytes.Buffer
	daemon.Main(ctx, daemon.Call{
		Args: []string{wicdapi.CommandLeave}, Stdin: strings.NewReader(`{"cluster":"c"}`), Stdout: &out, Stderr: io.Discard,
		Host: func() (hostapi.Host, error) { return h, nil },
	})
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var last struct{ Result *wicdapi.LeaveResult }
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Result == nil {
		t.Fatalf("output of the leave:\n%s", out.String())
	}
	return *last.Result
}

// mustCopySelf makes a copy of the test program.
func mustCopySelf(t *testing.T, path string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (hostapi.Disk{}).WriteFile(path, string(content)); err != nil {
		t.Fatal(err)
	}
}
