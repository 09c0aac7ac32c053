package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/observe/fleetstatus"
)

func TestOnlyChangesAreSent(t *testing.T) {
	a := newAPIServer(t, host("win-1", api.ReasonReady, ""), host("win-2", api.ReasonReady, ""))
	a.objects["nodes"] = []any{node("win-1"), node("win-2")}
	o := open(t, a)
	events := o.stream("/api/events")
	until(t, events, "both hosts", func(s sent) bool { return s.Overview.Counts.Total == 2 && !s.Overview.Loading })
	changed := host("win-2", api.ReasonHostKeyChanged, "another key")
	began := time.Now()
	a.set("windowsinstances", &changed)
	got := until(t, events, "the change", func(s sent) bool { return len(s.Rows) > 0 })
	if time.Since(began) > 5*time.Second {
		t.Errorf("the change took %s", time.Since(began))
	}
	if got.Full || len(got.Rows) != 1 || got.Rows[0][0] != "win-2" || got.Rows[0][5] != api.ReasonHostKeyChanged || got.Overview.Attention != 1 {
		t.Errorf("the update is %+v", got)
	}
	i := slices.IndexFunc(got.Overview.Problems, func(p problem) bool { return p.Reason == api.ReasonHostKeyChanged })
	if i < 0 {
		t.Fatalf("the problems are %+v", got.Overview.Problems)
	}
	if p := got.Overview.Problems[i]; p.Remedy == "" || !strings.HasPrefix(p.Docs, "https://") {
		t.Errorf("the problem is %+v", p)
	}
}

func TestMissingPermissionIsReported(t *testing.T) {
	a := newAPIServer(t, host("win-1", api.ReasonReady, ""))
	a.objects["nodes"] = []any{node("win-1")}
	a.denied["pods"] = true
	events := open(t, a).stream("/api/events")
	isUnread := func(what, reason string) func(sent) bool {
		return func(s sent) bool {
			return slices.ContainsFunc(s.Overview.Unread, func(u fleetstatus.Unread) bool { return u.What == what && strings.Contains(u.Why, reason) })
		}
	}
	until(t, events, "the host, and pods that are denied", func(s sent) bool {
		return s.Overview.Counts.Total == 1 && s.Overview.Rollout.Nodes == 1 && isUnread("pods", "missing permission: list pods")(s)
	})
	a.deny("nodes", true)
	lost := until(t, events, "nodes that are denied", isUnread("nodes", "missing permission: list nodes"))
	if lost.Overview.Rollout.Nodes != 0 || lost.Overview.Counts.Total != 1 {
		t.Errorf("without the permission: %d nodes and %d hosts, want 0 and 1", lost.Overview.Rollout.Nodes, lost.Overview.Counts.Total)
	}
	a.deny("nodes", false)
	until(t, events, "nodes again", func(s sent) bool { return s.Overview.Rollout.Nodes == 1 })
}

func TestLostAPIServerIsReported(t *testing.T) {
	a := newAPIServer(t, host("win-1", api.ReasonReady, ""))
	events := open(t, a).stream("/api/events")
	until(t, events, "the host", func(s sent) bool { return s.Overview.Counts.Total == 1 })
	a.stop()
	got := until(t, events, "the loss", func(s sent) bool { return s.Overview.Lost != nil })
	if got.Overview.Counts.Total != 1 || got.Overview.Lost.Why == "" || got.Overview.Lost.Since.IsZero() {
		t.Errorf("after the loss the overview is %+v", got.Overview)
	}
}

func TestEqualProblemsKeepTheirOrder(t *testing.T) {
	s := newSource(nil, "wmco")
	var all []any
	for i := range 50 {
		h := host(fmt.Sprintf("win-%d", i), []string{api.ReasonHostKeyChanged, api.ReasonAuthenticationFailed, api.ReasonDiskTooSmall}[i%3], "")
		all = append(all, &h)
	}
	if err := s.kinds[0].Replace(all, ""); err != nil {
		t.Fatal(err)
	}
	order := func() (reasons []string) {
		for _, p := range fleetstatus.Of(s.input()).Problems {
			reasons = append(reasons, p.Reason)
		}
		return reasons
	}
	want := order()
	for range 20 {
		if got := order(); !slices.Equal(got, want) {
			t.Fatalf("the problems are %q, and were %q", got, want)
		}
	}
}

func TestHostPageShowsPods(t *testing.T) {
	a := newAPIServer(t, host("win-1", api.ReasonReady, ""))
	a.objects["nodes"] = []any{node("win-1")}
	o := open(t, a)
	type details struct {
		Host    fleetstatus.Host `json:"host"`
		Pods    podList          `json:"pods"`
		Missing bool             `json:"missing"`
	}
	until(t, o.stream("/api/events?host=win-1"), "the pods of the host", func(d details) bool { return d.Host.Node == "win-1" && d.Pods.Known })
	until(t, o.stream("/api/events?host=nowhere"), "no host", func(d details) bool { return d.Missing })
}

func TestLogsAreReadThroughKubelet(t *testing.T) {
	a := newAPIServer(t, host("win-1", api.ReasonReady, ""))
	a.objects["nodes"] = []any{node("win-1")}
	a.logs["/api/v1/nodes/win-1/proxy/logs/wicd/wicd.log"] = "line 1\nline 2 \x1b[31m\n" + strings.Repeat("x", logBytes)
	o := open(t, a)
	until(t, o.stream("/api/events"), "the node", func(s sent) bool { return s.Overview.Rollout.Nodes == 1 })
	read := func(service string) logAnswer {
		var answer logAnswer
		if err := json.NewDecoder(o.do(http.MethodGet, "/api/logs?host=win-1&service="+service, nil).body).Decode(&answer); err != nil {
			t.Fatal(err)
		}
		return answer
	}
	if got := read("wicd"); got.Error != "" || len(got.Text) > 2*logBytes || strings.Contains(got.Text, "\x1b") || a.ranges[0] != fmt.Sprintf("bytes=-%d", logBytes) {
		t.Errorf("the log has %d bytes, error %q; the ranges are %q", len(got.Text), got.Error, a.ranges)
	}
	if got := read("kubelet"); !strings.Contains(got.Error, "missing permission") && !strings.Contains(got.Error, "forbidden") {
		t.Errorf("without the permission, got %+v", got)
	}
	if got := read("../../../secrets"); got.Error != "log not found" || got.Service != "" {
		t.Errorf("for a foreign path, got %+v", got)
	}
}

func TestStreamsAreLimited(t *testing.T) {
	o := open(t, newAPIServer(t))
	for range maxStreams {
		o.stream("/api/events")
	}
	if got := o.do(http.MethodGet, "/api/events", nil).status; got != http.StatusServiceUnavailable {
		t.Errorf("one more stream returns status %d", got)
	}
}

// large returns a fleet of many hosts, each with texts of the maximum length.
func large(hosts int) fleetstatus.Input {
	in := fleetstatus.Input{Now: time.Unix(2e9, 0), Namespace: "wmco"}
	for i := range hosts {
		in.Instances = append(in.Instances, host(fmt.Sprintf("win-%05d", i), []string{api.ReasonReady, api.ReasonJoinFailed}[i%2], strings.Repeat("long ", 100)))
		in.Nodes = append(in.Nodes, *node(in.Instances[i].Name))
	}
	return in
}

func TestTenThousandHosts(t *testing.T) {
	began := time.Now()
	s, err := snapshotOf(fleetstatus.Of(large(10000)), 1, func(*overview) {})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(s.updateFrom(nil))
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("sending all hosts took %s", took)
	}
	if len(text) > 2<<20 {
		t.Errorf("the page is sent %d bytes", len(text))
	}
	if text, err = json.Marshal(s.updateFrom(s)); err != nil || len(text) > 32<<10 {
		t.Errorf("an update without changes has %d bytes (%v)", len(text), err)
	}
}

func TestReportEscapesHostileText(t *testing.T) {
	evil := `</style><script>alert(1)</script><img src=https://evil.example.com/x onerror=alert(1)>`
	a := newAPIServer(t, host("win-1", api.ReasonJoinFailed, evil), host("win-2", "Evil"+evil, evil))
	n := node("win-1")
	n.Status.NodeInfo.OSImage = evil
	n.Annotations = map[string]string{api.AnnotationVersion: evil}
	a.objects["nodes"] = []any{n}
	var out bytes.Buffer
	o := Options{Config: a.config(), Namespace: "wmco", Cluster: evil}
	if err := Export(t.Context(), o, &out); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if !strings.Contains(text, "win-1") || !strings.Contains(text, "&lt;script&gt;") {
		t.Errorf("the report lacks the host or its message:\n%.2000s", text)
	}
	if found := regexp.MustCompile(`<(script|img|link|iframe)|<[a-z]+[^>]* (src|href|on[a-z]+)=|@import|url\(`).FindString(text); found != "" {
		t.Errorf("the report has %s", found)
	}
}

func TestReportListsMissingPermissions(t *testing.T) {
	a := newAPIServer(t, host("win-1", api.ReasonReady, ""))
	a.denied["nodes"] = true
	var out bytes.Buffer
	if err := Export(t.Context(), Options{Config: a.config(), Namespace: "wmco"}, &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "missing permission: list nodes") {
		t.Error("the report does not name the missing permission")
	}
	a.stop()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	if err := Export(ctx, Options{Config: a.config(), Namespace: "wmco"}, &out); err == nil {
		t.Error("a report is written without an API server")
	}
}

// TestAssetsAreSmallAndPlain expects that no file is loaded from elsewhere and that text never becomes HTML.
func TestAssetsAreSmallAndPlain(t *testing.T) {
	entries, err := assets.ReadDir("assets")
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	dangerous := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|setInterval\(["']|style=|\son[a-z]+=|https?://[a-z]`)
	for _, e := range entries {
		text, err := assets.ReadFile("assets/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		size += len(text)
		if contentTypes()[path.Ext(e.Name())] == "" {
			t.Errorf("assets/%s is not served", e.Name())
		}
		if found := dangerous.FindString(strings.ReplaceAll(string(text), "http://www.w3.org/2000/svg", "")); found != "" {
			t.Errorf("assets/%s has %q", e.Name(), found)
		}
	}
	if size > 150<<10 {
		t.Errorf("the files have %d bytes in total", size)
	}
}

func TestPageStopsWhenIdle(t *testing.T) {
	at := time.Unix(2e9, 0)
	s := &server{now: func() time.Time { return at }}
	s.touch()
	at = at.Add(9 * time.Hour)
	if s.idle() <= idleStop {
		t.Error("not idle after nine hours without a page")
	}
	if s.open(); s.idle() != 0 {
		t.Error("idle with an open page")
	}
	if s.close(); s.idle() != 0 {
		t.Error("idle immediately after a page was closed")
	}
}
