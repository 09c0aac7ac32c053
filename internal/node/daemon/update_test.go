package daemon_test

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
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sim/servers"
)

// updatable is a member whose services run their own programs, so that another version's can replace them.
type updatable struct {
	*member
	// next is the declaration of the next version.
	next desired.Node
}

// newUpdatable returns a node with one version and the contents of another in its store. programs may replace the services' own; damaged and within
// are options of sim.WindowsOptions and daemon.RunOptions.
func newUpdatable(t *testing.T, programs map[string]sim.Program, damaged string, within time.Duration) *updatable {
	t.Helper()
	cluster, err := servers.NewCluster()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	one, two := newCargo("1"), newCargo("2")
	u := &updatable{member: &member{cluster: cluster, request: newMemberRequest(cluster, one)}, next: newMemberRequest(cluster, two).Desired}
	all := map[string]sim.Program{
		"kubelet":             sim.KubeletOptions{}.Program(),
		api.WICDUpdateService: sim.WICD,
		api.WICDService: func(ctx context.Context, p sim.Process) uint32 {
			log := slog.New(slog.NewJSONHandler(u, nil)).With("version", versionIn(p.Command))
			daemon.Run(ctx, p.Host, daemon.RunOptions{Log: log, UpdateWithin: within, UpdateSteady: 200 * time.Millisecond})
			return 1
		},
	}
	for name, program := range programs {
		all[name] = whenNew(u.next, program, all[name])
	}
	u.windows = newWindows(t, sim.WindowsOptions{RestartDelay: 100 * time.Millisecond, Programs: all, Damaged: damaged})
	mustSend(t, u.windows, one)
	mustJoin(t, u.windows, u.request)
	u.giveRange(t)
	u.awaitVersion(t)
	mustSend(t, u.windows, two)
	u.publishFor(t, u.next.Version, u.next)
	return u
}

// newMemberRequest returns a request to join the cluster.
func newMemberRequest(cluster *servers.Cluster, c *cargo) wicdapi.JoinRequest {
	r := newRequest(c)
	r.Bootstrap = wicdapi.Bootstrap{Server: cluster.URL, CA: cluster.CA, Token: cluster.Token}
	r.Desired.Services[1].Command += ` --cert-dir=` + desired.KubeletCertificates
	return r
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

// wish requests another version for the Node, as the operator does.
func (u *updatable) wish(version string) {
	u.serial++
	u.annotate(version, u.order(version).Sign(u.serial, signingKey(1)))
}

// order returns the order to go to a version.
func (u *updatable) order(version string) desired.VersionOrder {
	node := u.node()
	return desired.VersionOrder{Cluster: u.request.Cluster, Node: node.Name, UID: string(node.UID), Version: version}
}

// annotate writes the Node's annotations, as every user with that permission may.
func (u *updatable) annotate(version string, order any) {
	u.cluster.Patch(nodePath, map[string]any{"metadata": map[string]any{"annotations": map[string]any{
		api.AnnotationDesiredVersion: version, api.AnnotationVersionOrder: order,
	}}})
}

// awaitQuiet waits until the update is over.
func (u *updatable) awaitQuiet(t *testing.T) {
	t.Helper()
	u.await(t, "the update is over", func() bool { return u.windows.Service(api.WICDUpdateService).Name == "" })
	for _, name := range []string{"update.json", "update-confirmed"} {
		if u.windows.Disk().Exists(desired.State + `\` + name) {
			t.Errorf("%s is still there", name)
		}
	}
}

func (u *updatable) awaitNext(t *testing.T) {
	t.Helper()
	u.await(t, "the other version is reported", func() bool { return u.node().Annotations[api.AnnotationVersion] == u.next.Version })
	u.awaitQuiet(t)
	u.await(t, "the services run", func() bool { // after a power cut, WICD starts those that missed the boot
		return !slices.ContainsFunc(u.next.Services, func(s desired.Service) bool { return u.windows.Service(s.Name).State != hostapi.Running })
	})
	r := u.request
	r.Desired = u.next
	expectJoined(t, u.windows, r)
}

func TestNodeUpdatesItself(t *testing.T) {
	t.Parallel()
	u := newUpdatable(t, nil, "", time.Minute)
	u.wish(u.next.Version)
	u.awaitNext(t)
	for _, name := range []string{"kubelet", api.WICDService} {
		if got := versionIn(u.windows.Service(name).Command); got != desired.ShortDigest(u.next.Digest) {
			t.Errorf("service %s is of version %s", name, got)
		}
	}
	if !u.windows.Disk().Exists(desired.VersionFolder(u.request.Desired.Digest) + `\kubelet.exe`) {
		t.Error("the former version is gone")
	}
	if c := u.conditionOf(api.ConditionUpdated); c.Type != "" {
		t.Errorf("a condition tells of an update that went well: %+v", c)
	}
	u.wish(u.request.Desired.Version)
	u.publish(t, u.request.Desired)
	u.await(t, "the former version is reported again", func() bool {
		return u.node().Annotations[api.AnnotationVersion] == u.request.Desired.Version
	})
	u.awaitQuiet(t)
	expectJoined(t, u.windows, u.request)
}

func endsAtOnce(context.Context, sim.Process) uint32 { return 3 }

func doesNothing(ctx context.Context, _ sim.Process) uint32 {
	<-ctx.Done()
	return 1
}

func TestFailedUpdateIsRolledBack(t *testing.T) {
	t.Parallel()
	folder := desired.VersionFolder(newCargo("2").digest())
	for name, test := range map[string]struct {
		programs map[string]sim.Program
		damaged  string
		// silent is a service that does not answer probes.
		silent string
		// says is part of the reason.
		says string
		// untouched means that no service was even stopped.
		untouched bool
	}{
		"its kubelet dies":               {programs: map[string]sim.Program{"kubelet": endsAtOnce}, says: "service kubelet"},
		"its kubelet says nothing":       {silent: "kubelet", says: "probing http://127.0.0.1:10248/healthz"},
		"its daemon dies":                {programs: map[string]sim.Program{api.WICDService: endsAtOnce}, says: api.WICDService},
		"its daemon does nothing":        {programs: map[string]sim.Program{api.WICDService: doesNothing}, says: "has not reported the version"},
		"its daemon cannot even start":   {damaged: folder + `\windows-instance`, says: "no program that Windows can run", untouched: true},
		"its containerd cannot be found": {damaged: folder + `\containerd`, says: "service containerd"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUpdatable(t, test.programs, test.damaged, 4*time.Second)
			u.windows.Silence(test.silent, true)
			before := u.pids()
			u.wish(u.next.Version)
			u.await(t, "the node says that the update failed", func() bool { return u.conditionOf(api.ConditionUpdated).Status == corev1.ConditionFalse })
			u.awaitQuiet(t)
			expectJoined(t, u.windows, u.request)
			if after := u.pids(); test.untouched && !maps.Equal(after, before) {
				t.Errorf("services were %v and are %v", before, after)
			}
			c := u.conditionOf(api.ConditionUpdated)
			if c.Reason != api.ReasonUpdateFailed || !strings.Contains(c.Message, test.says) || !strings.Contains(c.Message, u.next.Version) {
				t.Errorf("the condition is %+v, want it to say %q", c, test.says)
			}
			u.await(t, "there is an event", func() bool {
				for _, e := range u.events() {
					if e.Reason == api.EventUpdateFailed {
						return true
					}
				}
				return false
			})
			u.awaitVersion(t) // the next version may have been reported between two crashes
			u.wish(u.request.Desired.Version)
			u.await(t, "the node says that it is up to date", func() bool { return u.conditionOf(api.ConditionUpdated).Status == corev1.ConditionTrue })
		})
	}
}

func TestAVersionThatWasRefusedAndJoinedAfterAllIsForgiven(t *testing.T) {
	t.Parallel()
	u := newUpdatable(t, nil, "", time.Minute)
	refused := desired.State + `\update-refused.json`
	mustWrite(t, u.windows.Disk(), refused, `{"version": "`+u.request.Desired.Version+`", "reason": "it was too early"}`)
	u.wish(u.request.Desired.Version)
	u.await(t, "the refusal is gone", func() bool { return !u.windows.Disk().Exists(refused) })
	u.awaitVersion(t)
}

func TestAnUpdateWaitsForItsContent(t *testing.T) {
	t.Parallel()
	u := newUpdatable(t, nil, "", time.Minute)
	lost := desired.Store + `\` + u.next.Payload[0].SHA256
	if err := u.windows.Disk().Remove(lost); err != nil {
		t.Fatal(err)
	}
	u.wish(u.next.Version)
	u.await(t, "it waits", func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		return strings.Contains(u.log.String(), "1 of 5 files are missing")
	})
	expectJoined(t, u.windows, u.request)
	mustSend(t, u.windows, newCargo("2"))
	u.wish("")
	u.wish(u.next.Version)
	u.awaitNext(t)
}

// TestAnUpdateSurvivesPowerCuts cuts the power at changes from the first to the last, and once more soon after.
func TestAnUpdateSurvivesPowerCuts(t *testing.T) {
	t.Parallel()
	for cut := 0; ; cut += 13 {
		u := newUpdatable(t, nil, "", time.Minute)
		before := u.windows.BootID()
		u.windows.CutPowerAfter(cut)
		u.wish(u.next.Version)
		off := func() bool { _, err := u.windows.Host().Services.List(t.Context(), nil); return err != nil }
		u.await(t, "the power goes, or the update is over", func() bool {
			return off() || u.windows.Service(api.WICDUpdateService).Name == "" && u.node().Annotations[api.AnnotationVersion] == u.next.Version
		})
		if off() {
			u.windows.PowerOn()
		}
		u.windows.CutPowerAfter(-1)
		u.awaitNext(t)
		if u.windows.BootID() == before {
			t.Logf("the update makes about %d changes", cut)
			return
		}
	}
}

func TestAJoinOvertakesAnUpdate(t *testing.T) {
	t.Parallel()
	u := newUpdatable(t, map[string]sim.Program{api.WICDService: doesNothing}, "", time.Minute)
	u.wish(u.next.Version)
	u.await(t, "the new version's services run", func() bool {
		got := u.windows.Service(api.WICDService)
		return versionIn(got.Command) == desired.ShortDigest(u.next.Digest) && got.State == hostapi.Running
	})
	third := u.request
	third.Desired.Version += ".1"
	u.await(t, "the join takes place", func() bool { _, err := newWire(u.windows).join(third); return err == nil })
	u.awaitQuiet(t)
	expectJoined(t, u.windows, third)
	if u.windows.Disk().Exists(desired.State + `\update-refused.json`) {
		t.Error("the version that was overtaken counts as refused")
	}
}
