package acceptance

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/shared/httpclient"
)

func TestInvalidJournalsAreRejected(t *testing.T) {
	for text, wantErr := range map[string]string{
		`[]`: "",
		`[{"kind":"folder","name":"tests"},{"kind":"scheduled restart"}]`:                     "",
		`[{"kind":"SSH keys"},{"kind":"node","name":"5f6c0e5e-3a0b-4a38-8f5c-0c6d1f6f2f10"}]`: "",
		`[{"kind":"node","name":"x"}]`:                                                        "not the name of a node",
		`[{"kind":"folder","name":"..\\..\\Windows"}]`:                                        "not the name of a folder",
		`[{"kind":"folder","name":""}]`:                                                       "not the name of a folder",
		`[{"kind":"folder","name":"tests\n"}]`:                                                "not the name of a folder",
		`[{"kind":"service","name":"x"}]`:                                                     "not a kind",
		`[{"kind":"route","name":"0.0.0.0"}]`:                                                 "change 1",
		`[{"kind":"Windows feature","name":"Containers"}]`:                                    "change 1",
		`[{"kind":"Defender exclusion","name":"C:\\"}]`:                                       "change 1",
		`[{"kind":"host name","name":"a b"}]`:                                                 "change 1",
		`[{"kind":"tests","name":"win /x"}]`:                                                  "change 1",
		`[{"kind":"folder","name":"a","more":1}]`:                                             "unknown field",
		``:                                "EOF",
		strings.Repeat(" ", maxJournal+1): "more than",
	} {
		_, err := parseJournal([]byte(text))
		if wantErr == "" && err != nil || wantErr != "" && (err == nil || !strings.Contains(err.Error(), wantErr)) {
			t.Errorf("parseJournal(%.60q) = %v, want %q", text, err, wantErr)
		}
	}
}

// FuzzJournal checks that a parsed journal contains only changes that probes make, and can be written again.
func FuzzJournal(f *testing.F) {
	f.Add([]byte(`[{"kind":"folder","name":"tests"},{"kind":"host name","name":"WIN-1"}]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		changes, err := parseJournal(text)
		if err != nil {
			return
		}
		for _, c := range changes {
			if c.check() != nil {
				t.Errorf("%q has %+v", text, c)
			}
		}
		written, err := json.Marshal(changes)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := parseJournal(written); err != nil || !cmp.Equal(changes, again) {
			t.Errorf("%s is %+v, %v", written, again, err)
		}
	})
}

// output is the output of a test program on Windows.
const output = "=== RUN   TestA\r\n" +
	"=== RUN   TestA/One\r\n" +
	"    a_test.go:7: not here\r\n" +
	"=== RUN   TestA/Two\r\n" +
	"=== RUN   TestA/Three\r\n" +
	"    a_test.go:9: it is 3,\r\n" +
	"        want 4\r\n" +
	"--- FAIL: TestA (1.20s)\r\n" +
	"    --- SKIP: TestA/One (0.00s)\r\n" +
	"    --- PASS: TestA/Two (0.10s)\r\n" +
	"    --- FAIL: TestA/Three (0.00s)\r\n" +
	"=== RUN   TestB\r\n" +
	"--- PASS: TestB (0.00s)\r\n" +
	"FAIL\r\n"

func TestOutputIsReadDespiteRunningChild(t *testing.T) {
	for script, succeeds := range map[string]bool{"echo PASS; sleep 5 &": true, "echo FAIL; sleep 5 & exit 1": false} {
		command := exec.CommandContext(t.Context(), "sh", "-c", script)
		command.WaitDelay = 50 * time.Millisecond
		if output, err := outputOf(command); (err == nil) != succeeds || len(output) == 0 {
			t.Errorf("%s: %q, %v", script, output, err)
		}
	}
}

func TestTestOutputIsParsed(t *testing.T) {
	want := []TestResult{
		{Name: "win/TestA", Result: failedTest},
		{Name: "win/TestA/One", Result: skippedTest, Output: "    a_test.go:7: not here\n"},
		{Name: "win/TestA/Two", Result: passedTest},
		{Name: "win/TestA/Three", Result: failedTest, Output: "    a_test.go:9: it is 3,\n        want 4\n"},
		{Name: "win/TestB", Result: passedTest},
	}
	got := parseTests("win", []byte(output))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, test := range []struct {
		names   []string
		verdict Verdict
		seen    string
	}{
		{[]string{"TestB", "TestA/Two"}, Confirmed, "2 tests passed"},
		{[]string{"TestB", "TestA/Three"}, Refuted, "test TestA/Three: a_test.go:9: it is 3,\n        want 4"},
		{[]string{"TestB", "TestA/One"}, Untried, "test TestA/One: a_test.go:7: not here"},
		{[]string{"TestC"}, Untried, "test TestC did not run"},
	} {
		var a Answer
		a.setVerdict(testsResult(got, test.names))
		if a.Verdict != test.verdict || a.Seen != test.seen {
			t.Errorf("%v: %s, %q", test.names, a.Verdict, a.Seen)
		}
	}
}

func TestSandboxImageIsFoundForBuild(t *testing.T) {
	const whole, elsewhere = "sha256:aa", "sha256:bb"
	mux := http.NewServeMux()
	serve := func(path, text string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) })
	}
	serve("/v2/pause/manifests/3.9", `{"manifests":[{"digest":"sha256:00","platform":{"os":"linux","architecture":"amd64"}},
		{"digest":"`+whole+`","platform":{"os":"windows","os.version":"10.0.20348.2402","architecture":"amd64"}},
		{"digest":"`+elsewhere+`","platform":{"os":"windows","os.version":"10.0.17763.1","architecture":"amd64"}},
		{"digest":"sha256:cc","platform":{"os":"windows","os.version":"10.0.26100.1","architecture":"amd64"}}]}`)
	serve("/v2/pause/manifests/"+whole, `{"layers":[{"mediaType":"application/vnd.docker.image.rootfs.diff.tar.gzip","digest":"sha256:11"}]}`)
	serve("/v2/pause/manifests/"+elsewhere, `{"layers":[{"mediaType":"application/vnd.docker.image.rootfs.foreign.diff.tar.gzip","digest":"sha256:22","urls":["https://x"]}]}`)
	serve("/v2/pause/manifests/sha256:cc", `{"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":"sha256:33"}]}`)
	mux.Handle("/v2/pause/blobs/sha256:11", http.RedirectHandler("https://content.example.com/11", http.StatusTemporaryRedirect))
	server := httptest.NewServer(mux)
	defer server.Close()
	r := repository{client: httpclient.New(server.Client().Transport, 0), url: server.URL + "/v2/pause"}
	for build, want := range map[int]Answer{
		20348: {Verdict: Confirmed, Seen: "1 layers for 10.0.20348.2402"},
		17763: {Verdict: Refuted, Seen: "layer sha256:22 is of type application/vnd.docker.image.rootfs.foreign.diff.tar.gzip, which registries may not contain"},
		26100: {Verdict: Refuted, Seen: "HEAD " + r.url + "/blobs/sha256:33: 404 Not Found"},
		2034:  {Verdict: Refuted, Seen: "it has no entry for build 2034"},
	} {
		var got Answer
		got.setVerdict(r.try(t.Context(), "3.9", build))
		if got != want {
			t.Errorf("build %d: %+v, want %+v", build, got, want)
		}
	}
	server.Close()
	var got Answer
	if got.setVerdict(r.try(t.Context(), "3.9", 20348)); got.Verdict != Untried {
		t.Errorf("without a registry: %+v", got)
	}
}

func TestSummaryListsRefutedClaimsFirst(t *testing.T) {
	r := Report{
		Version: "v0.1.0", Started: time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC), Finished: time.Date(2026, 1, 2, 3, 9, 0, 0, time.UTC),
		Machine: Windows{Product: "Windows Server 2022 Datacenter", Build: 20348, UBR: 2402, Installation: "Server Core", Architecture: "amd64"},
		Lines: []Answer{
			{ID: "one", Title: "One", Claim: "it is one", Verdict: Confirmed},
			{ID: "two", Title: "Two", Claim: "it is two", Verdict: Refuted, Seen: "it is three\nand four"},
			{ID: "six", Title: "Six", Verdict: Untried, Seen: "it takes six machines"},
		},
		Tests: []TestResult{{Name: "win/TestA", Result: passedTest}, {Name: "win/TestB", Result: failedTest, Output: "b_test.go:1: no\n"}},
		Left:  []string{"reverting route 203.0.113.10: no"},
	}
	const want = "# Acceptance of v0.1.0\n\nWindows Server 2022 Datacenter, build 20348.2402, Server Core, amd64, 2026-01-02 03:04 UTC\n\n" +
		"Not reverted: reverting route 203.0.113.10: no\n\n1 confirmed, 1 refuted, 1 could not be tried\n" +
		"\n## Refuted\n\n- Two (`two`): it is two\n  it is three\n  and four\n" +
		"\n## Confirmed\n\n- One (`one`): it is one\n" +
		"\n## Could not be tried\n\n- Six (`six`)\n  it takes six machines\n" +
		"\n## Tests of the code that calls Windows\n\n1 passed, 1 failed, 0 skipped\n\nwin/TestB:\n\n```\nb_test.go:1: no\n```\n"
	if diff := cmp.Diff(want, r.Summary()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestProbeCommands(t *testing.T) {
	var out bytes.Buffer
	if known, err := Command([]string{EchoCommand, "a b", "c"}, nil, &out); !known || err != nil || out.String() != "echo|a b|c\n" {
		t.Errorf("Command() = %v, %v, %q", known, err, out.String())
	}
	if known, err := Command([]string{"--plan"}, nil, &out); known || err != nil {
		t.Errorf("Command() = %v, %v", known, err)
	}
}

func TestAnswerLengthIsBounded(t *testing.T) {
	var a Answer
	if a.setVerdict("", errors.New(strings.Repeat("x", 10*maxSeen))); len(a.Seen) > maxSeen {
		t.Errorf("Seen has %d bytes", len(a.Seen))
	}
}

func TestHashCommandReturnsHashAndExitCode(t *testing.T) {
	var out bytes.Buffer
	_, err := Command([]string{HashCommand, "3", "7"}, strings.NewReader("abc"), &out)
	const want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n\x00\x01\x02"
	if exit := Exit(0); !errors.As(err, &exit) || exit != 7 || out.String() != want {
		t.Errorf("Command() = %v, %q", err, out.String())
	}
	if _, err := Command([]string{HashCommand, "x", "0"}, strings.NewReader(""), &out); err == nil || errors.As(err, new(Exit)) {
		t.Errorf("Command() = %v", err)
	}
}
