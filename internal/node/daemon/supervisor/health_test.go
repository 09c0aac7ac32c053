package supervisor

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/nodestatus"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// broken is why something failed.
func broken() error { return errors.New("broken") }

// at returns the time d after the start of the tests.
func at(d time.Duration) time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).Add(d) }

// historyOf returns the history of a service that ended with an exit code at these times, and ran again at once.
func historyOf(code uint32, ends ...time.Duration) *restartHistory {
	c := &restartHistory{}
	running := hostapi.Service{Service: desired.Service{Name: "kubelet"}, State: hostapi.Running}
	stopped := running
	stopped.State, stopped.ExitCode = hostapi.Stopped, code
	c.observe(at(0), running)
	for _, d := range ends {
		c.observe(at(d), stopped)
		c.observe(at(d), running)
	}
	return c
}

func TestCrashLoopDetection(t *testing.T) {
	const minute = time.Minute
	for name, test := range map[string]struct {
		code uint32
		ends []time.Duration
		at   time.Duration
		want bool
	}{
		"never":                         {1, nil, minute, false},
		"twice":                         {1, []time.Duration{minute, 2 * minute}, 2 * minute, false},
		"three times":                   {1, []time.Duration{minute, 2 * minute, 3 * minute}, 3 * minute, true},
		"three times, seldom":           {1, []time.Duration{minute, 4 * minute, 7 * minute}, 7 * minute, false},
		"stopped by hand, often":        {0, []time.Duration{1, 2, 3, 4, 5}, minute, false},
		"quiet, but not for long":       {1, []time.Duration{minute, 2 * minute, 3 * minute}, 8*minute - 1, true},
		"quiet for long":                {1, []time.Duration{minute, 2 * minute, 3 * minute}, 8 * minute, false},
		"dies again before it is quiet": {1, []time.Duration{1, 2, 3, 4 * minute, 8 * minute}, 12 * minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := historyOf(test.code, test.ends...)
			c.observe(at(test.at), hostapi.Service{State: hostapi.Running})
			if c.isLooping != test.want {
				t.Errorf("it loops: %v, want %v", c.isLooping, test.want)
			}
		})
	}
}

func TestRepeatedStartFailureIsCrashLoop(t *testing.T) {
	c := &restartHistory{}
	for n := range loopCrashes {
		c.failed(at(time.Duration(n)*time.Second), broken())
	}
	c.evaluate(at(time.Minute), hostapi.Disk{Root: t.TempDir()}, desired.Service{Name: "kubelet"}, startBlocker{})
	if c.problem == nil || c.problem.Reason != api.ReasonServiceCrashLoop || !strings.Contains(c.problem.Message, "broken") {
		t.Errorf("problem %+v", c.problem)
	}
}

func TestBackoffGrowsAndEnds(t *testing.T) {
	var ends []time.Duration
	last := time.Duration(-1)
	for n := range 20 {
		ends = append(ends, time.Duration(n)*time.Second)
		c := historyOf(1, ends...)
		pause := c.backoffUntil().Sub(at(ends[n]))
		if pause < last || pause > time.Minute {
			t.Errorf("after %d ends the pause is %v, after the one before %v", n+1, pause, last)
		}
		last = pause
	}
	if last != time.Minute {
		t.Errorf("the longest pause is %v", last)
	}
	if c := historyOf(0); !c.backoffUntil().IsZero() {
		t.Errorf("a service that never ended is in back-off until %v", c.backoffUntil())
	}
}

func TestServiceNotReadyIsReportedAfterTimeout(t *testing.T) {
	d := hostapi.Disk{Root: t.TempDir()}
	s := desired.Service{Name: "kubelet"}
	waits := startBlocker{service: "kubelet", dependency: desired.Service{Name: "containerd"}, notReady: true, err: broken()}
	c := &restartHistory{}
	for _, step := range []struct {
		at   time.Duration
		o    startBlocker
		want string
	}{
		{0, waits, ""},
		{readyTimeout - 1, waits, ""},
		{readyTimeout, waits, "containerd"},
		{2 * readyTimeout, startBlocker{}, ""},
		{3 * readyTimeout, waits, ""},
		{9 * readyTimeout, startBlocker{service: "kubelet", dependency: waits.dependency, err: broken()}, ""}, // it does not run
	} {
		c.evaluate(at(step.at), d, s, step.o)
		got := ""
		if c.problem != nil {
			got = c.problem.Service
		}
		if got != step.want {
			t.Errorf("at %v the problem is in %q, want %q", step.at, got, step.want)
		}
	}
}

// The reported problem stays the same while a service continues to crash, so it is written once.
func TestCrashLoopMessageIsStable(t *testing.T) {
	d := hostapi.Disk{Root: t.TempDir()}
	s := desired.Service{Name: "kubelet", Log: desired.Log{Path: `C:\var\log\kubelet\kubelet.log`}}
	log := func(text string) {
		if _, err := d.WriteFile(s.Log.Path, text); err != nil {
			t.Fatal(err)
		}
	}
	log(strings.Repeat("an old line\n", 1000) + "it cannot reach the API server\n")
	c := historyOf(255, time.Second, 2*time.Second, 3*time.Second)
	c.evaluate(at(3*time.Second), d, s, startBlocker{})
	first := *c.problem
	for _, part := range []string{"kubelet", "3 times", "exited with code 255", s.Log.Path, "it cannot reach the API server"} {
		if !strings.Contains(first.Message, part) {
			t.Errorf("%q does not contain %q", first.Message, part)
		}
	}
	log("something else\n")
	c.recordCrash(at(4*time.Second), "it exited with code 3")
	c.evaluate(at(4*time.Second), d, s, startBlocker{})
	if *c.problem != first {
		t.Errorf("the problem became %+v", c.problem)
	}
}

func TestMessagesAreShortAndReadable(t *testing.T) {
	d := hostapi.Disk{Root: t.TempDir()}
	const log = `C:\var\log\x.log`
	for name, test := range map[string]struct{ cause, log string }{
		"long lines":     {"cause", strings.Repeat("x", 5000)},
		"many lines":     {"cause", strings.Repeat("line\n", 5000)},
		"cut characters": {"cause", strings.Repeat("ä€𝄞", 5000)},
		"no text":        {"cause", strings.Repeat("\xff\xfe", 5000)},
		"long cause":     {strings.Repeat("€", 5000), strings.Repeat("line\n", 5000)},
		"empty":          {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.MkdirAll(d.Local(hostapi.Parent(log)), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(d.Local(log), []byte(test.log), 0o600); err != nil {
				t.Fatal(err)
			}
			got := message(d, test.cause, log)
			if len(got) > truncate.Note || !utf8.ValidString(got) {
				t.Errorf("%d bytes, valid: %v", len(got), utf8.ValidString(got))
			}
			if name == "many lines" && (strings.HasSuffix(got, "\nine") || !strings.HasSuffix(got, "line\nline")) {
				t.Errorf("it ends with %q", got[len(got)-20:])
			}
		})
	}
	if got := message(d, "cause", `C:\absent.log`); !strings.Contains(got, `C:\absent.log does not exist`) {
		t.Error(got)
	}
}

func TestHealthConditionUpdates(t *testing.T) {
	unhealthy := health{running: true, problems: []nodestatus.Problem{{Reason: "One", Message: "first"}, {Reason: "Two", Message: "second"}}}
	well := health{running: true}
	isTrue, isFalse := &corev1.NodeCondition{Status: corev1.ConditionTrue}, &corev1.NodeCondition{Status: corev1.ConditionFalse}
	const hour = time.Hour
	for name, test := range map[string]struct {
		now, began time.Duration
		h          health
		is         *corev1.NodeCondition
		want       corev1.ConditionStatus // "" when it stays as it is
	}{
		"first, all run":         {hour, hour, well, nil, corev1.ConditionTrue},
		"first, not all run":     {hour, 0, health{}, nil, ""},
		"first, trouble":         {hour, 0, unhealthy, nil, corev1.ConditionFalse},
		"well, one stopped":      {hour, 0, health{}, isTrue, ""},
		"trouble":                {hour, 0, unhealthy, isTrue, corev1.ConditionFalse},
		"well again":             {hour, 0, well, isFalse, corev1.ConditionTrue},
		"well again, not long":   {hour, 0, health{running: true, stable: at(hour + 1)}, isFalse, ""},
		"well again, long":       {hour, 0, health{running: true, stable: at(hour)}, isFalse, corev1.ConditionTrue},
		"a new life":             {hour, hour - loopWithin + 1, well, isFalse, ""},
		"a new life, later":      {hour, hour - loopWithin, well, isFalse, corev1.ConditionTrue},
		"well again, one is not": {hour, 0, health{}, isFalse, ""},
		"Unknown set by others":  {hour, 0, well, &corev1.NodeCondition{Status: corev1.ConditionUnknown}, corev1.ConditionTrue},
	} {
		t.Run(name, func(t *testing.T) {
			got, isKnown := conditionOf(at(test.now), at(test.began), test.h, test.is)
			if isKnown != (test.want != "") || isKnown && got.Status != test.want {
				t.Errorf("conditionOf() = %+v, %v, want status %q", got, isKnown, test.want)
			}
			if got.Status == corev1.ConditionFalse && (got.Reason != "One" || got.Message != "first\n\nsecond") {
				t.Errorf("got %s: %q", got.Reason, got.Message)
			}
		})
	}
}
