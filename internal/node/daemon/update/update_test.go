package update_test

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon"
	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// updatable is a member whose services run their own programs, so that another version's can replace them.
type updatable struct {
	*daemontest.Member
	// next is the declaration of the next version.
	next desired.Node
}

// newUpdatable returns a node with one version and the contents of another in its store. programs may replace the services' own; damaged and within
// are options of sim.WindowsOptions and daemon.RunOptions.
func newUpdatable(t *testing.T, programs map[string]sim.Program, damaged string, within time.Duration) *updatable {
	t.Helper()
	next := daemontest.NewPayload("2")
	u := &updatable{next: daemontest.NewRequest(next).Desired}
	all := map[string]sim.Program{
		"kubelet":             sim.KubeletOptions{}.Program(),
		api.WICDUpdateService: sim.WICD,
		api.WICDService: func(ctx context.Context, p sim.Process) uint32 {
			log := slog.New(slog.NewJSONHandler(u, nil)).With("version", versionIn(p.Command))
			daemon.Run(ctx, p.Host, daemon.RunOptions{Log: log, UpdateTimeout: within, UpdateSteady: 200 * time.Millisecond})
			return 1
		},
	}
	for name, program := range programs {
		all[name] = whenNew(u.next, program, all[name])
	}
	daemontest.NewFollower(t, daemontest.Options{
		Windows: sim.WindowsOptions{Programs: all, Damaged: damaged},
		Prepare: func(m *daemontest.Member) { u.Member = m },
	})
	daemontest.MustSend(t, u.Windows, next)
	u.PublishFor(t, u.next.Version, u.next)
	return u
}

// versionIn returns the version folder in a command line.
func versionIn(command string) string {
	_, rest, _ := strings.Cut(command, desired.Versions+`\`)
	version, _, _ := strings.Cut(rest, `\`)
	return version
}

// whenNew runs program for services of a version, and otherwise for all others.
func whenNew(version desired.Node, program, otherwise sim.Program) sim.Program {
	return func(ctx context.Context, p sim.Process) uint32 {
		if strings.Contains(p.Command, desired.VersionFolder(version.Digest)+`\`) {
			return program(ctx, p)
		}
		return otherwise(ctx, p)
	}
}

// requestVersion requests another version for the Node, as the operator does.
func (u *updatable) requestVersion(version string) {
	u.Serial++
	u.annotate(version, u.order(version).Sign(u.Serial, daemontest.SigningKey(1)))
}

// order returns the order to update to a version.
func (u *updatable) order(version string) desired.VersionOrder {
	node := u.Node()
	return desired.VersionOrder{Cluster: u.Request.Cluster, Node: node.Name, UID: string(node.UID), Version: version}
}

// annotate writes the Node's annotations, as every user with that permission may.
func (u *updatable) annotate(version string, order any) {
	u.Annotate(map[string]any{api.AnnotationDesiredVersion: version, api.AnnotationVersionOrder: order})
}

// awaitQuiet waits until the update has ended.
func (u *updatable) awaitQuiet(t *testing.T) {
	t.Helper()
	daemontest.Await(t, "the update is over", func() bool { return u.Windows.Service(api.WICDUpdateService).Name == "" })
	for _, name := range []string{"update.json", "update-confirmed"} {
		if u.Windows.Disk().Exists(desired.State + `\` + name) {
			t.Errorf("%s still exists", name)
		}
	}
}

func (u *updatable) awaitNext(t *testing.T) {
	t.Helper()
	u.AwaitAnnotation(t, api.AnnotationVersion, u.next.Version)
	u.awaitQuiet(t)
	daemontest.Await(t, "the services run", func() bool { // after a power cut, WICD starts those that missed the boot
		return !slices.ContainsFunc(u.next.Services, func(s desired.Service) bool { return u.Windows.Service(s.Name).State != hostapi.Running })
	})
	r := u.Request
	r.Desired = u.next
	daemontest.ExpectJoined(t, u.Windows, r)
}

func TestNodeUpdatesItself(t *testing.T) {
	t.Parallel()
	u := newUpdatable(t, nil, "", time.Minute)
	u.requestVersion(u.next.Version)
	u.awaitNext(t)
	for _, name := range []string{"kubelet", api.WICDService} {
		if got := versionIn(u.Windows.Service(name).Command); got != desired.ShortDigest(u.next.Digest) {
			t.Errorf("service %s is of version %s", name, got)
		}
	}
	if !u.Windows.Disk().Exists(desired.VersionFolder(u.Request.Desired.Digest) + `\kubelet.exe`) {
		t.Error("the former version was removed")
	}
	if c := u.Condition(api.ConditionUpdated); c.Type != "" {
		t.Errorf("a condition reports a successful update: %+v", c)
	}
	u.requestVersion(u.Request.Desired.Version)
	u.Publish(t, u.Request.Desired)
	u.AwaitVersion(t)
	u.awaitQuiet(t)
	daemontest.ExpectJoined(t, u.Windows, u.Request)
}

func endsAtOnce(context.Context, sim.Process) uint32 { return 3 }

func doesNothing(ctx context.Context, _ sim.Process) uint32 {
	<-ctx.Done()
	return 1
}

func TestFailedUpdateIsRolledBack(t *testing.T) {
	t.Parallel()
	folder := desired.VersionFolder(daemontest.NewPayload("2").Digest())
	for name, test := range map[string]struct {
		programs map[string]sim.Program
		damaged  string
		// silent is a service that does not answer probes.
		silent string
		// message is a part of the condition's message.
		message string
		// untouched means that no service was even stopped.
		untouched bool
	}{
		"the kubelet crashes":          {programs: map[string]sim.Program{"kubelet": endsAtOnce}, message: "service kubelet"},
		"the kubelet does not respond": {silent: "kubelet", message: "probing http://127.0.0.1:10248/healthz"},
		"the daemon crashes":           {programs: map[string]sim.Program{api.WICDService: endsAtOnce}, message: api.WICDService},
		"the daemon does nothing":      {programs: map[string]sim.Program{api.WICDService: doesNothing}, message: "has not reported the version"},
		"the daemon cannot start":      {damaged: folder + `\windows-instance`, message: "no program that Windows can run", untouched: true},
		"containerd is damaged":        {damaged: folder + `\containerd`, message: "service containerd"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUpdatable(t, test.programs, test.damaged, 4*time.Second)
			u.Windows.Silence(test.silent, true)
			before := u.PIDs()
			u.requestVersion(u.next.Version)
			daemontest.Await(t, "the node reports that the update failed", func() bool { return u.Condition(api.ConditionUpdated).Status == corev1.ConditionFalse })
			u.awaitQuiet(t)
			daemontest.ExpectJoined(t, u.Windows, u.Request)
			if after := u.PIDs(); test.untouched && !maps.Equal(after, before) {
				t.Errorf("services were %v and are %v", before, after)
			}
			c := u.Condition(api.ConditionUpdated)
			if c.Reason != api.ReasonUpdateFailed || !strings.Contains(c.Message, test.message) || !strings.Contains(c.Message, u.next.Version) {
				t.Errorf("condition %+v, want a message with %q", c, test.message)
			}
			u.AwaitNote(t, api.EventUpdateFailed, "")
			u.AwaitVersion(t) // the next version may have been reported between two crashes
			u.requestVersion(u.Request.Desired.Version)
			daemontest.Await(t, "the node reports that it is up to date", func() bool { return u.Condition(api.ConditionUpdated).Status == corev1.ConditionTrue })
		})
	}
}

func TestFailedVersionIsClearedByJoin(t *testing.T) {
	t.Parallel()
	u := newUpdatable(t, nil, "", time.Minute)
	refused := desired.State + `\update-refused.json`
	daemontest.MustWrite(t, u.Windows.Disk(), refused, `{"version": "`+u.Request.Desired.Version+`", "reason": "it was too early"}`)
	u.requestVersion(u.Request.Desired.Version)
	daemontest.Await(t, "the refusal was removed", func() bool { return !u.Windows.Disk().Exists(refused) })
	u.AwaitVersion(t)
}

func TestUpdateWaitsForContent(t *testing.T) {
	t.Parallel()
	u := newUpdatable(t, nil, "", time.Minute)
	mustRemove(t, u, desired.Store+`\`+u.next.Payload[0].SHA256)
	u.requestVersion(u.next.Version)
	u.AwaitLog(t, "1 of 5 files are missing")
	daemontest.ExpectJoined(t, u.Windows, u.Request)
	daemontest.MustSend(t, u.Windows, daemontest.NewPayload("2"))
	u.requestVersion("")
	u.requestVersion(u.next.Version)
	u.awaitNext(t)
}

// TestUpdateSurvivesPowerFailures cuts the power at changes from the first to the last, and once more soon after.
func TestUpdateSurvivesPowerFailures(t *testing.T) {
	t.Parallel()
	for cut := 0; ; cut += 13 {
		u := newUpdatable(t, nil, "", time.Minute)
		before := u.Windows.BootID()
		u.Windows.CutPowerAfter(cut)
		u.requestVersion(u.next.Version)
		off := func() bool { _, err := u.Windows.Host().Services.List(t.Context(), nil); return err != nil }
		daemontest.Await(t, "the power fails, or the update has ended", func() bool {
			return off() || u.Windows.Service(api.WICDUpdateService).Name == "" && u.Node().Annotations[api.AnnotationVersion] == u.next.Version
		})
		if off() {
			u.Windows.PowerOn()
		}
		u.Windows.CutPowerAfter(-1)
		u.awaitNext(t)
		if u.Windows.BootID() == before {
			t.Logf("the update makes about %d changes", cut)
			return
		}
	}
}

func TestJoinReplacesUpdate(t *testing.T) {
	t.Parallel()
	u := newUpdatable(t, map[string]sim.Program{api.WICDService: doesNothing}, "", time.Minute)
	u.requestVersion(u.next.Version)
	daemontest.Await(t, "the new version's services run", func() bool {
		got := u.Windows.Service(api.WICDService)
		return versionIn(got.Command) == desired.ShortDigest(u.next.Digest) && got.State == hostapi.Running
	})
	third := u.Request
	third.Desired.Version += ".1"
	daemontest.Await(t, "the join takes place", func() bool { _, err := daemontest.NewWire(u.Windows).Join(third); return err == nil })
	u.awaitQuiet(t)
	daemontest.ExpectJoined(t, u.Windows, third)
	if u.Windows.Disk().Exists(desired.State + `\update-refused.json`) {
		t.Error("the superseded version counts as refused")
	}
}

// TestUnsignedVersionIsNotInstalled: another version includes another WICD.
func TestUnsignedVersionIsNotInstalled(t *testing.T) {
	t.Parallel()
	u := newUpdatable(t, nil, "", time.Minute)
	for name, data := range map[string]map[string]string{
		"unsigned":            desired.Unsigned(u.Sign(t, u.next.Version, u.next, 1, 99)),
		"another key":         u.Sign(t, u.next.Version, u.next, 2, 99),
		"for another version": u.Sign(t, "0.9.0", u.next, 1, 99),
	} {
		u.PublishAs(t, u.next.Version, data)
		u.requestVersion(u.next.Version)
		u.AwaitLog(t, "Starting an update failed")
		u.requestVersion(u.Request.Desired.Version)
		t.Log(name)
		u.expectNoUpdate(t)
	}
	u.PublishFor(t, u.next.Version, u.next)
	u.requestVersion(u.next.Version)
	u.awaitNext(t)
}
