package hcs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
)

func TestParseDocument(t *testing.T) {
	for name, test := range map[string]struct {
		document string
		want     System
		result   Result
	}{
		"a container": {
			`{"Owner":"shim","ShouldTerminateOnLastHandleClosed":true,"Container":{"Storage":{"Path":"\\\\?\\Volume{1}\\"},"GuestOs":{"HostName":"pod-1"},"Networking":{"Namespace":"n1"},"Memory":{"SizeInMB":128},"Processor":{"Maximum":1000},"MappedDirectories":[{"HostPath":"C:\\a","ContainerPath":"C:\\b","ReadOnly":true}]}}`,
			System{ID: "c1", Owner: "shim", Host: "pod-1", Root: `\\?\Volume{1}\`, Namespace: "n1", EndsWithHandle: true, Limits: guestapi.Limits{MemoryInMB: 128, ProcessorMax: 1000},
				Mounts: []guestapi.Mount{{HostPath: `C:\a`, ContainerPath: `C:\b`, ReadOnly: true}}}, 0,
		},
		"virtual machine": {`{"VirtualMachine":{}}`, System{}, NotImplemented},
		"without storage": {`{"Owner":"shim"}`, System{}, InvalidJSON},
		"invalid JSON":    {`[`, System{}, InvalidJSON},
	} {
		got, err := ParseDocument("c1", test.document)
		if diff := cmp.Diff(test.want, got); diff != "" || ResultOf(err) != test.result {
			t.Errorf("%s: %s (%v)", name, diff, err)
		}
	}
}

func TestErrorsMapToResults(t *testing.T) {
	for _, test := range []struct {
		err  error
		want Result
	}{
		{nil, 0}, {NotFound, NotFound}, {fmt.Errorf("opening c1: %w", AlreadyStopped), AlreadyStopped},
		{fs.ErrNotExist, FileNotFound}, {errors.New("anything"), Fail},
	} {
		if got := ResultOf(test.err); got != test.want {
			t.Errorf("ResultOf(%v) = %v, want %v", test.err, got, test.want)
		}
	}
}

// newSystems returns compute systems of two owners, and one whose job has ended.
func newSystems(t *testing.T) Systems {
	t.Helper()
	all := Systems{Dir: t.TempDir(), Alive: func(id string) bool { return id != "gone" }}
	for id, owner := range map[string]string{"a": "shim", "b": "other", "gone": "shim"} {
		if err := all.Put(System{ID: id, Owner: owner}); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func TestListReturnsRunningComputeSystems(t *testing.T) {
	for query, want := range map[string][]string{
		"":                             {"a", "b"},
		`{"Types":["Container"]}`:      {"a", "b"},
		`{"Types":["VirtualMachine"]}`: {},
	} {
		text, err := newSystems(t).List(query)
		if err != nil {
			t.Fatal(err)
		}
		var found []struct{ Id, SystemType string }
		if err := json.Unmarshal([]byte(text), &found); err != nil {
			t.Fatal(err)
		}
		ids := []string{}
		for _, one := range found {
			ids = append(ids, one.Id)
		}
		if diff := cmp.Diff(want, ids); diff != "" {
			t.Errorf("query %s: %s", query, diff)
		}
	}
	if _, err := newSystems(t).List("{"); !errors.Is(err, InvalidJSON) {
		t.Errorf("invalid query: error %v, want %v", err, InvalidJSON)
	}
}

func TestGetFailsWithoutJob(t *testing.T) {
	all := newSystems(t)
	for id, want := range map[string]Result{"a": 0, "gone": NotFound, "never": NotFound} {
		if _, err := all.Get(id); ResultOf(err) != want {
			t.Errorf("%s: error %v, want %v", id, err, want)
		}
	}
	for range 2 {
		if err := all.Remove("a"); err != nil {
			t.Error(err)
		}
	}
	if _, err := all.Get("a"); !errors.Is(err, NotFound) {
		t.Errorf("removed system: error %v, want %v", err, NotFound)
	}
}

func TestPropertiesSumUpProcesses(t *testing.T) {
	created := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := System{ID: "c1", Owner: "shim", Created: created, Started: true}
	text, err := s.Properties(created.Add(2*time.Second), ProcessorTime{User: 2 * time.Second, Kernel: time.Millisecond}, []Usage{
		{PID: 8, Image: "a.exe", Memory: 1000}, {PID: 12, Image: "b.exe", Memory: 24},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Id, State  string
		Statistics struct {
			Uptime100ns int64
			Processor   struct{ TotalRuntime100ns, RuntimeUser100ns int64 }
			Memory      struct{ MemoryUsageCommitBytes uint64 }
		}
		ProcessList []struct {
			ProcessId uint32
			ImageName string
		}
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	st := got.Statistics
	if got.Id != "c1" || got.State != "Running" || st.Uptime100ns != 2e7 || st.Memory.MemoryUsageCommitBytes != 1024 ||
		st.Processor.TotalRuntime100ns != 20010000 || st.Processor.RuntimeUser100ns != 2e7 {
		t.Errorf("got properties %s", text)
	}
	if len(got.ProcessList) != 2 || got.ProcessList[1].ProcessId != 12 || got.ProcessList[1].ImageName != "b.exe" {
		t.Errorf("got processes %v", got.ProcessList)
	}
}

func TestProcessorTimeIsReadFromCgroup(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  ProcessorTime
		fails bool
	}{
		"both":           {map[string]string{"cpuacct.usage_user": "2000000000\n", "cpuacct.usage_sys": "1000000\n"}, ProcessorTime{2 * time.Second, time.Millisecond}, false},
		"missing folder": {nil, ProcessorTime{}, false},
		"invalid number": {map[string]string{"cpuacct.usage_sys": "much"}, ProcessorTime{}, true},
	} {
		folder := t.TempDir()
		for file, text := range test.files {
			if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if test.files == nil {
			folder = filepath.Join(folder, "gone")
		}
		if got, err := ReadProcessorTime(folder); got != test.want || (err != nil) != test.fails {
			t.Errorf("%s: %v (%v)", name, got, err)
		}
	}
}

func TestContainerPathsAreBelowItsRoot(t *testing.T) {
	found := map[string]bool{`R:\root`: true, `R:\root\web.exe`: true, `R:\root\app\tool.exe`: true, `R:\root\data`: true, `C:\windows\system32\cmd.exe`: true}
	exists := func(path string) bool { return found[path] }
	for path, want := range map[string]string{
		`C:\web.exe`: `R:\root\web.exe`, `c:\web`: `R:\root\web.exe`, `web`: `R:\root\web.exe`, `/web.exe`: `R:\root\web.exe`,
		`C:/app/tool`: `R:\root\app\tool.exe`, `C:\`: `R:\root`, `C:\data`: `R:\root\data`,
		`C:\windows\system32\cmd.exe`: `C:\windows\system32\cmd.exe`, `C:\windows\system32\cmd`: `C:\windows\system32\cmd.exe`, `cmd.exe`: `cmd.exe`, `D:\web.exe`: `D:\web.exe`,
	} {
		if got := Inside(`R:\root`, path, exists); got != want {
			t.Errorf("Inside(%s) = %s, want %s", path, got, want)
		}
	}
}

func TestProgramsAreSearchedLikeOnWindows(t *testing.T) {
	p := Parameters{WorkingDirectory: `C:\app`, Environment: map[string]string{"Path": `C:\bin;C:\tools\`}}
	for program, want := range map[string][]string{
		"web":          {`C:\app\web`, `C:\bin\web`, `C:\tools\web`, `C:\windows\system32\web`, `C:\windows\web`},
		`C:\other\web`: {`C:\other\web`}, "/web": {"/web"}, `bin\web`: {`bin\web`},
	} {
		if diff := cmp.Diff(want, p.Candidates(program)); diff != "" {
			t.Errorf("%s: %s", program, diff)
		}
	}
}

func TestProcessesHaveTheEnvironmentOfTheirContainer(t *testing.T) {
	p, err := ParseParameters(`{"CommandLine":"web","Environment":{"Path":"C:\\app","WHO":"me"}}`)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"COMPUTERNAME=WEB-7D4B9C6F5D-", `Path=C:\app`, "SystemDrive=C:", `SystemRoot=C:\windows`, `TEMP=C:\windows\temp`, `TMP=C:\windows\temp`, "WHO=me", "WINEDEBUG=lab:1",
	}
	if diff := cmp.Diff(want, p.Block("web-7d4b9c6f5d-x2x8k", "WINEDEBUG=lab:1")); diff != "" {
		t.Error(diff)
	}
	for _, document := range []string{"{", "{}"} {
		if _, err := ParseParameters(document); !errors.Is(err, InvalidJSON) {
			t.Errorf("%s: error %v", document, err)
		}
	}
}

func TestContainersHaveOnlyWindowsUsers(t *testing.T) {
	for user, name := range map[string]string{
		"": "", "ContainerUser": "ContainerUser", "containeradministrator": "containeradministrator", `User Manager\ContainerUser`: "ContainerUser",
		`NT AUTHORITY\SYSTEM`: "SYSTEM",
	} {
		p, err := ParseParameters(fmt.Sprintf(`{"CommandLine":"a.exe","User":%q}`, user))
		if environment := p.Block("pod-1"); err != nil || slices.Contains(environment, "USERNAME="+name) != (name != "") {
			t.Errorf("%s: %v, %v", user, environment, err)
		}
	}
	for _, user := range []string{"FooLish", `contoso\ContainerUser`} {
		if _, err := ParseParameters(fmt.Sprintf(`{"CommandLine":"a.exe","User":%q}`, user)); !errors.Is(err, LogonFailure) {
			t.Errorf("%s: error %v", user, err)
		}
	}
}

func TestSignalsAreControlEvents(t *testing.T) {
	for _, test := range []struct {
		options   string
		event     Event
		terminate bool
		result    Result
	}{
		{`{"Signal":"CtrlC"}`, 0, false, 0}, {`{"Signal":"CtrlBreak"}`, 1, false, 0}, {`{"Signal":"CtrlShutdown"}`, 6, false, 0},
		{`{"Signal":"Terminate"}`, 0, true, 0}, {"", 0, true, 0}, {"null", 0, true, 0},
		{`{"Signal":"SIGUSR1"}`, 0, false, NotImplemented}, {"{", 0, false, InvalidJSON},
	} {
		event, terminate, err := SignalOf(test.options)
		if event != test.event || terminate != test.terminate || ResultOf(err) != test.result {
			t.Errorf("SignalOf(%s) = event %d, terminate %v, error %v", test.options, event, terminate, err)
		}
	}
}
