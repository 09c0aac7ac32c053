package join_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// fresh returns a new instance that nothing prevents from joining.
func fresh() join.Observed {
	return join.Observed{Instance: &v1alpha1.WindowsInstance{}, Version: "0.1.0-abc", SlotFree: true, Now: noon()}
}

// joined returns an instance whose host was configured some time ago.
func joined(ago time.Duration) join.Observed {
	s := fresh()
	s.Instance.Status.Conditions = []metav1.Condition{condition(api.ConditionConfigured, "True", "Configured", noon().Add(-ago))}
	return s
}

func condition(kind, status, reason string, since time.Time) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, LastTransitionTime: metav1.NewTime(since)}
}

func TestNext(t *testing.T) {
	with := func(s join.Observed, change func(*join.Observed)) join.Observed {
		change(&s)
		return s
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-1"}}
	noKey := &join.Stall{Reason: api.ReasonPrivateKeyMissing}
	tests := map[string]struct {
		seen   join.Observed
		action join.Action
		reason string
		after  time.Duration
	}{
		"new host joins":                        {seen: fresh(), action: join.Join},
		"paused host does not join":             {seen: with(fresh(), func(s *join.Observed) { s.Instance.Spec.Paused = true }), action: join.None, reason: api.ReasonPaused},
		"host with a replacement does not join": {seen: with(fresh(), func(s *join.Observed) { s.Instance.Spec.ReplaceWith = "win-2" }), action: join.None, reason: api.ReasonReplaced},
		"node with a replacement is repaired": {seen: with(with(joined(time.Hour), silentFor(time.Hour)), func(s *join.Observed) {
			s.Instance.Spec.ReplaceWith, s.Instance.Status.NodeRef = "win-2", &v1alpha1.NodeReference{Name: "win-1"}
		}), action: join.Join},
		"host of a Machine joins without regard to a replacement": {seen: with(fresh(), func(s *join.Observed) {
			s.Instance.Spec.ReplaceWith, s.Instance.Labels = "win-2", map[string]string{api.LabelSource: api.SourceMachine}
		}), action: join.Join},
		"paused fleet does not join":                                  {seen: with(fresh(), func(s *join.Observed) { s.AllPaused = true }), action: join.None, reason: api.ReasonPaused},
		"missing key blocks joining":                                  {seen: with(fresh(), func(s *join.Observed) { s.KeyFault = noKey }), action: join.None, reason: api.ReasonPrivateKeyMissing},
		"unsupported version skew blocks joining":                     {seen: with(fresh(), func(s *join.Observed) { s.VersionFault = "too new" }), action: join.Requeue, reason: api.ReasonVersionSkewUnsupported, after: 5 * time.Minute},
		"unsupported version skew does not block repair":              {seen: with(with(joined(time.Hour), silentFor(time.Hour)), func(s *join.Observed) { s.VersionFault = "too new" }), action: join.Join},
		"altered policies block joining":                              {seen: with(fresh(), func(s *join.Observed) { s.PoliciesFault = "x is missing" }), action: join.Requeue, reason: api.ReasonPoliciesAltered, after: 30 * time.Second},
		"altered policies block repair":                               {seen: with(with(joined(time.Hour), silentFor(time.Hour)), func(s *join.Observed) { s.PoliciesFault = "x is missing" }), action: join.Requeue, reason: api.ReasonPoliciesAltered, after: 30 * time.Second},
		"altered policies do not affect a Ready node":                 {seen: with(joined(time.Hour), func(s *join.Observed) { s.Node, s.PoliciesFault = node, "x is missing" }), action: join.None},
		"failed host waits for its retry":                             {seen: with(fresh(), func(s *join.Observed) { s.NotBefore = noon().Add(7 * time.Second) }), action: join.Requeue, after: 7 * time.Second},
		"failed host retries when due":                                {seen: with(fresh(), func(s *join.Observed) { s.NotBefore = noon() }), action: join.Join},
		"host waits for a slot":                                       {seen: with(fresh(), func(s *join.Observed) { s.SlotFree = false }), action: join.Requeue, reason: api.ReasonWaitingForSlot, after: 2 * time.Second},
		"Ready node does not join again":                              {seen: with(joined(time.Hour), func(s *join.Observed) { s.Node = node }), action: join.None},
		"Ready node needs no key":                                     {seen: with(joined(time.Hour), func(s *join.Observed) { s.Node, s.KeyFault = node, noKey }), action: join.None},
		"configured host has time to register":                        {seen: joined(time.Minute), action: join.Requeue, after: 4 * time.Minute},
		"host that never registers joins again":                       {seen: joined(5 * time.Minute), action: join.Join},
		"recently deleted Node may come back":                         {seen: with(joined(time.Hour), missingFor(20*time.Second)), action: join.Requeue, after: 40 * time.Second},
		"host joins again after its Node stays deleted":               {seen: with(joined(time.Hour), missingFor(time.Minute)), action: join.Join},
		"second join has the same time to register":                   {seen: with(joined(2*time.Minute), missingFor(time.Hour)), action: join.Requeue, after: 3 * time.Minute},
		"silent Node has time to come back":                           {seen: with(joined(time.Hour), silentFor(4*time.Minute)), action: join.Requeue, after: 6 * time.Minute},
		"Node that stays silent joins again":                          {seen: with(joined(time.Hour), silentFor(10*time.Minute)), action: join.Join},
		"silent Node has time after joining again":                    {seen: with(with(joined(time.Hour), silentFor(time.Hour)), configuredBefore(time.Minute)), action: join.Requeue, after: 9 * time.Minute},
		"NotReady Node joins again":                                   {seen: with(with(joined(time.Hour), silentFor(time.Hour)), notReady), action: join.Join},
		"NotReady Node without its sandbox image does not join again": {seen: with(with(with(joined(time.Hour), silentFor(time.Hour)), notReady), lacksImage), action: join.None},
		"silent Node without its sandbox image joins again":           {seen: with(with(joined(time.Hour), silentFor(time.Hour)), lacksImage), action: join.Join},
		"repeated repair backs off":                                   {seen: with(with(joined(time.Hour), silentFor(5*time.Hour)), repaired(1, 15*time.Minute)), action: join.Requeue, after: 5 * time.Minute},
		"repairs stop after the last attempt":                         {seen: with(with(joined(time.Hour), silentFor(99*time.Hour)), repaired(join.MaxRepairs, 50*time.Hour)), action: join.None, reason: api.ReasonRepairFailed},
		"Node with current settings needs nothing":                    {seen: with(joined(9*time.Hour), follows("s2", "s2", time.Hour)), action: join.None},
		"Node with old settings has time to follow":                   {seen: with(joined(9*time.Hour), follows("s1", "s2", 3*time.Minute)), action: join.Requeue, after: 7 * time.Minute},
		"Node that keeps old settings joins again":                    {seen: with(joined(9*time.Hour), follows("s1", "s2", time.Hour)), action: join.Join},
		"WICD has reported this boot":                                 {seen: with(joined(9*time.Hour), startedAs("8", "8", time.Hour)), action: join.None},
		"WICD has reported no boot":                                   {seen: with(joined(9*time.Hour), startedAs("", "8", time.Hour)), action: join.None},
		"kubelet has reported no boot":                                {seen: with(joined(9*time.Hour), startedAs("7", "", time.Hour)), action: join.None},
		"WICD has time to report a new boot":                          {seen: with(joined(9*time.Hour), startedAs("7", "8", 3*time.Minute)), action: join.Requeue, after: 7 * time.Minute},
		"WICD that does not report a new boot joins again":            {seen: with(joined(9*time.Hour), startedAs("7", "8", time.Hour)), action: join.Join},
		"leaving host does not join":                                  {seen: with(fresh(), func(s *join.Observed) { at := metav1.NewTime(noon()); s.Instance.DeletionTimestamp = &at }), action: join.None},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := join.Next(test.seen)
			if d.Action != test.action || d.After != test.after {
				t.Errorf("action %s after %s, want %s after %s", d.Action, d.After, test.action, test.after)
			}
			if got := join.Reason(d.Err); d.Err != nil && got != test.reason || d.Err == nil && test.reason != "" {
				t.Errorf("reason %q (%v), want %q", got, d.Err, test.reason)
			}
		})
	}
}

func missingFor(d time.Duration) func(*join.Observed) {
	return func(s *join.Observed) {
		s.Instance.Status.Conditions = append(s.Instance.Status.Conditions,
			condition(api.ConditionNodeReady, "False", api.ReasonNodeMissing, noon().Add(-d)))
	}
}

func silentFor(d time.Duration) func(*join.Observed) {
	return func(s *join.Observed) {
		s.Node = &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.NewTime(noon().Add(-d))},
		}}}
	}
}

// repaired records how many repairs have failed, and how long ago the last one was.
func repaired(times int32, ago time.Duration) func(*join.Observed) {
	return func(s *join.Observed) {
		s.Instance.Status.Failure = &v1alpha1.Failure{Action: v1alpha1.ActionRepair, Attempts: times, At: metav1.NewTime(noon().Add(-ago)), Message: "x"}
	}
}

// follows adds a Ready node with some settings, and the settings published for a given time.
func follows(got, published string, since time.Duration) func(*join.Observed) {
	return func(s *join.Observed) {
		s.Settings, s.SettingsSince = published, noon().Add(-since)
		s.Node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{api.AnnotationVersion: s.Version, api.AnnotationSettings: got}}}
		s.Node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon().Add(-9 * time.Hour))}}
	}
}

// startedAs adds a node, Ready for a given time, with the boot IDs that WICD and kubelet report.
func startedAs(wicd, kubelet string, ago time.Duration) func(*join.Observed) {
	return func(s *join.Observed) {
		follows("s2", "s2", 9*time.Hour)(s)
		s.Node.Annotations[api.AnnotationBootID], s.Node.Status.NodeInfo.BootID = wicd, kubelet
		s.Node.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon().Add(-ago))
	}
}

func TestFindingsNameASilentWICD(t *testing.T) {
	s := joined(time.Hour)
	startedAs("7", "8", time.Hour)(&s)
	if got := join.Findings(s, nil); !strings.Contains(got, "windows-instance-config-daemon has not reported since Windows started") || !strings.HasSuffix(got, desired.WICDLog) {
		t.Error(got)
	}
	follows("s1", "s2", time.Hour)(&s)
	if got := join.Findings(s, nil); !strings.Contains(got, "has not applied the published settings") || !strings.HasSuffix(got, desired.WICDLog) {
		t.Error(got)
	}
}

func lacksImage(s *join.Observed) {
	s.Node.Status.Conditions = append(s.Node.Status.Conditions, corev1.NodeCondition{Type: api.ConditionSandboxImage, Status: corev1.ConditionFalse})
}

func notReady(s *join.Observed) { s.Node.Status.Conditions[0].Status = corev1.ConditionFalse }

func configuredBefore(d time.Duration) func(*join.Observed) {
	return func(s *join.Observed) {
		at := metav1.NewMicroTime(noon().Add(-d))
		s.Instance.Status.Steps = []v1alpha1.StepStatus{{Name: join.StepConfigure, State: v1alpha1.StepDone, FinishedAt: &at}}
	}
}

// TestReport has a case for each outcome of an attempt.
func TestReport(t *testing.T) {
	step := func(name string, err error) error { return &join.StepError{Step: name, Err: err} }
	tests := map[string]struct {
		err                              error
		reachable, supported, configured string // reasons; "" if the condition stays unknown
		stalled, rebooting               bool
	}{
		"success": {nil, "Connected", "Supported", "Configured", false, false},
		"refused": {step("Connect", &join.Unreachable{Reason: "ConnectionRefused", Err: errors.New("x")}), "ConnectionRefused", "", "ConnectionRefused", false, false},
		"changed host key": {step("Connect", &join.Unreachable{Reason: "HostKeyChanged", Err: errors.New("x")}),
			"HostKeyChanged", "", "HostKeyChanged", true, false},
		"unknown host key": {step("Connect", &join.Unreachable{Reason: "HostKeyUnknown", Err: errors.New("x")}),
			"HostKeyUnknown", "", "HostKeyUnknown", true, false},
		"weak host key": {step("Connect", &join.Unreachable{Reason: "HostKeyUnsuitable", Err: errors.New("x")}),
			"HostKeyUnsuitable", "", "HostKeyUnsuitable", true, false},
		"invalid address": {step("Connect", &join.Unreachable{Reason: "AddressInvalid", Err: errors.New("x")}),
			"AddressInvalid", "", "AddressInvalid", true, false},
		"unknown cluster": {step("Connect", &join.Unready{Err: fmt.Errorf("%w: x", join.ErrCluster)}), "", "", "ClusterUnknown", false, false},
		"lost while sending": {step("Transfer", fmt.Errorf("a: %w", &join.Unreachable{Reason: "ConnectionLost", Err: errors.New("x")})),
			"ConnectionLost", "Supported", "ConnectionLost", false, false},
		"unsupported":          {&join.Unsupported{Reason: "BuildUnsupported", Message: "x"}, "Connected", "BuildUnsupported", "BuildUnsupported", false, false},
		"no WICD":              {step("Inspect", &wicdapi.NoAnswerError{Command: "wicd"}), "Connected", "", "JoinFailed", false, false},
		"no slot":              {join.ErrNoSlot, "Connected", "Supported", "WaitingForSlot", false, false},
		"reboot":               {&join.Rebooting{Reason: "feature Containers"}, "Connected", "Supported", "Rebooting", false, true},
		"too slow":             {step("Transfer", fmt.Errorf("running: %w", wicdapi.ErrTooSlow)), "Connected", "Supported", "TransferTooSlow", false, false},
		"altered":              {step("Transfer", &wicdapi.Error{Code: wicdapi.CodeContentAltered}), "Connected", "Supported", "ContentAltered", false, false},
		"no network":           {step("Configure", fmt.Errorf("%w: x", desired.ErrNetwork)), "Connected", "Supported", "NetworkNotConfigured", false, false},
		"overlapping networks": {&join.Unready{Err: fmt.Errorf("a: %w", &desired.NetworkError{Reason: api.ReasonNetworksOverlap})}, "", "", "NetworksOverlap", false, false},
		"overlapping networks after inspection": {step("Configure", &desired.NetworkError{Reason: api.ReasonNetworksOverlap}), "Connected", "Supported", "NetworksOverlap",
			false, false},
		"no cluster":     {step("Configure", fmt.Errorf("%w: x", join.ErrCluster)), "Connected", "Supported", "ClusterUnknown", false, false},
		"service failed": {step("Configure", &wicdapi.Error{Code: wicdapi.CodeServiceFailed}), "Connected", "Supported", "JoinFailed", false, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var st v1alpha1.WindowsInstanceStatus
			join.Report(&st, 3, true, test.err)
			join.Observe(&st, 3, nil, "v", time.Now())
			for kind, want := range map[string]string{
				api.ConditionReachable: test.reachable, api.ConditionSupported: test.supported, api.ConditionConfigured: test.configured,
			} {
				if got := reasonOf(st, kind); got != want {
					t.Errorf("%s has reason %q, want %q", kind, got, want)
				}
			}
			if got := meta.IsStatusConditionTrue(st.Conditions, api.ConditionStalled); got != test.stalled {
				t.Errorf("Stalled is %v", got)
			}
			if got := meta.IsStatusConditionTrue(st.Conditions, api.ConditionRebootRequired); got != test.rebooting {
				t.Errorf("RebootRequired is %v", got)
			}
			if meta.IsStatusConditionTrue(st.Conditions, api.ConditionReady) {
				t.Error("a host without Node is Ready")
			}
		})
	}
}

func TestFixedCauseClearsStalled(t *testing.T) {
	var st v1alpha1.WindowsInstanceStatus
	join.Report(&st, 1, false, &join.Stall{Reason: api.ReasonPrivateKeyInvalid, Message: "not PEM"})
	join.Observe(&st, 1, nil, "v", time.Now())
	if got := reasonOf(st, api.ConditionReady); got != api.ReasonPrivateKeyInvalid {
		t.Errorf("Ready has reason %q, want the cause", got)
	}
	join.Report(&st, 1, true, nil)
	join.Observe(&st, 1, nil, "v", time.Now())
	if meta.FindStatusCondition(st.Conditions, api.ConditionStalled) != nil {
		t.Error("Stalled is still there")
	}
}

func TestReadyNeedsKubeletAndVersion(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-1", Annotations: map[string]string{}}}
	var st v1alpha1.WindowsInstanceStatus
	join.Report(&st, 1, true, nil)
	expect := func(status, reason string) {
		t.Helper()
		join.Observe(&st, 1, node, "0.1.0-abc", time.Now())
		c := meta.FindStatusCondition(st.Conditions, api.ConditionReady)
		if string(c.Status) != status || c.Reason != reason {
			t.Errorf("Ready is %s, %s; want %s, %s", c.Status, c.Reason, status, reason)
		}
	}
	expect("False", api.ReasonNodeNotReady)
	node.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Message: "cni plugin not initialized"},
		{Type: api.ConditionWindowsNetworkUnavailable, Status: corev1.ConditionTrue, Message: `C:\etc\cni\net.d has no CNI configuration`},
	}
	expect("False", api.ReasonNodeNotReady)
	if c := meta.FindStatusCondition(st.Conditions, api.ConditionReady); !strings.Contains(c.Message, `cni plugin not initialized; C:\etc\cni\net.d has no CNI configuration`) {
		t.Errorf("Ready has message %q, which lacks the network's problem", c.Message)
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	expect("False", api.ReasonVersionPending)
	node.Annotations[api.AnnotationVersion] = "0.1.0-abc"
	expect("True", api.ReasonReady)
	node.Status.Conditions[0].Status = corev1.ConditionUnknown
	expect("False", api.ReasonNodeNotReady)
	lacks := corev1.NodeCondition{Type: api.ConditionSandboxImage, Status: corev1.ConditionFalse, Reason: "no reason\n", Message: strings.Repeat("403 ", 5000)}
	node.Status.Conditions = append(node.Status.Conditions, lacks)
	expect("False", api.ReasonNodeNotReady) // a silent kubelet has another fault
	node.Status.Conditions[0].Status = corev1.ConditionFalse
	expect("False", api.ReasonSandboxImagePullFailed)
	node.Status.Conditions[1].Reason = api.ReasonSandboxImageDenied
	expect("False", api.ReasonSandboxImageDenied)
	node.Status.Conditions[0].Status = corev1.ConditionTrue
	expect("True", api.ReasonReady) // it has another image
	if c := meta.FindStatusCondition(st.Conditions, api.ConditionSandboxImage); c == nil || c.Status != "False" || len(c.Message) > 5000 {
		t.Errorf("condition SandboxImage is %.200v", c)
	}
	node.Status.Conditions[1].Status = corev1.ConditionTrue
	expect("True", api.ReasonReady)
	if meta.FindStatusCondition(st.Conditions, api.ConditionSandboxImage) != nil {
		t.Error("condition SandboxImage outlived its cause")
	}
	node = nil
	expect("False", api.ReasonNodeMissing)
	missing := meta.FindStatusCondition(st.Conditions, api.ConditionNodeReady).Message
	if !strings.Contains(missing, "kubectl get csr") || !strings.Contains(missing, `C:\var\log\kubelet`) {
		t.Errorf("the message names only %q", missing)
	}
	if st.NodeRef != nil {
		t.Error("nodeRef names a deleted Node")
	}
}

func reasonOf(st v1alpha1.WindowsInstanceStatus, kind string) string {
	if c := meta.FindStatusCondition(st.Conditions, kind); c != nil {
		return c.Reason
	}
	return ""
}

// TestRestartingHostMayBeUnreachable expects the status to name the restart although the host refuses connections.
func TestRestartingHostMayBeUnreachable(t *testing.T) {
	var st v1alpha1.WindowsInstanceStatus
	refused := func(reason string) error {
		return &join.StepError{Step: join.StepConnect, Err: &join.Unreachable{Reason: reason, Err: errors.New("x")}}
	}
	join.Report(&st, 1, true, &join.Rebooting{Reason: "feature Containers takes effect after a restart", BootID: "7"})
	for _, test := range []struct {
		when      string
		err       error
		reachable string
	}{
		{"before the restart", &join.Rebooting{Reason: "Windows has not shut down yet", BootID: "7", Awaited: true}, api.ReasonConnected},
		{"during the restart", join.Restarting(refused(api.ReasonConnectionRefused), "7"), api.ReasonRebooting},
	} {
		join.Report(&st, 1, true, test.err)
		join.Observe(&st, 1, nil, "v", time.Now())
		required := meta.FindStatusCondition(st.Conditions, api.ConditionRebootRequired)
		if required == nil || !strings.Contains(required.Message, "Containers") {
			t.Errorf("%s: RebootRequired is %+v", test.when, required)
		}
		if got := reasonOf(st, api.ConditionReady); got != api.ReasonRebooting {
			t.Errorf("%s: Ready has reason %s", test.when, got)
		}
		if got := reasonOf(st, api.ConditionReachable); got != test.reachable {
			t.Errorf("%s: Reachable has reason %s", test.when, got)
		}
		if _, waits := join.Retry(test.err); !waits {
			t.Errorf("%s: it counts as a failure", test.when)
		}
	}
	for _, reason := range []string{
		api.ReasonAuthenticationFailed, api.ReasonHostKeyChanged, api.ReasonHostKeyUnknown, api.ReasonHostKeyUnsuitable, api.ReasonAddressInvalid,
	} {
		if err := join.Restarting(refused(reason), "7"); join.Reason(err) != reason {
			t.Errorf("%s is taken for a restart", reason)
		}
	}
}

func TestRebootEndsWithNewBootID(t *testing.T) {
	i := &v1alpha1.WindowsInstance{}
	i.Status.BootID = "7"
	i.Status.Conditions = []metav1.Condition{condition(api.ConditionRebootRequired, "True", "Rebooting", noon())}
	if got := join.RebootedFrom(i, noon().Add(time.Minute)); got != "7" {
		t.Errorf("a minute after the request, boot %q is waited out, want 7", got)
	}
	if got := join.RebootedFrom(i, noon().Add(11*time.Minute)); got != "" {
		t.Errorf("eleven minutes after a request that was not followed, boot %q is still waited out", got)
	}
}

func TestJoinStepsAreTimed(t *testing.T) {
	var st v1alpha1.WindowsInstanceStatus
	join.Begin(&st, 1)
	track := func(step string, state v1alpha1.StepState, at time.Duration) (time.Duration, bool) {
		return join.Track(&st, join.Progress{Step: step, State: state}, noon().Add(at))
	}
	track(join.StepConnect, v1alpha1.StepRunning, 0)
	if took, done := track(join.StepConnect, v1alpha1.StepDone, 2*time.Second); !done || took != 2*time.Second {
		t.Errorf("Connect took %s, done %v", took, done)
	}
	if _, done := track(join.StepConnect, v1alpha1.StepDone, time.Hour); done {
		t.Error("a step was done twice")
	}
	if moved := join.TrackNode(&st, nil, false); len(moved) != 0 {
		t.Errorf("%v moved before the host was configured", moved)
	}
	track(join.StepConfigure, v1alpha1.StepDone, 3*time.Second)
	if moved := join.TrackNode(&st, &corev1.Node{}, true); len(moved) != 3 || moved[2].Step != join.StepReady || moved[2].State != v1alpha1.StepDone {
		t.Errorf("a Ready node moved %v", moved)
	}
}

// TestUnsupportedHostIsNotReportedAsRebooting covers a host that turned out unable to join during its restart.
func TestUnsupportedHostIsNotReportedAsRebooting(t *testing.T) {
	restarting := &join.Rebooting{Reason: "feature Containers is enabled by a restart", BootID: "1"}
	for name, test := range map[string]struct {
		then error
		want string
	}{
		"hostname conflict": {&join.Unsupported{Reason: api.ReasonHostnameConflict, Message: "Node win-1 is another machine's"}, api.ReasonHostnameConflict},
		"no free slot":      {join.ErrNoSlot, api.ReasonRebooting},
	} {
		var st v1alpha1.WindowsInstanceStatus
		join.Report(&st, 1, true, restarting)
		join.Report(&st, 1, true, join.Restarting(&join.Unreachable{Reason: api.ReasonConnectionTimeout, Err: errors.New("i/o timeout")}, "1"))
		join.Report(&st, 1, false, test.then)
		join.Observe(&st, 1, nil, "", time.Now())
		if got := meta.FindStatusCondition(st.Conditions, api.ConditionReady); got == nil || got.Reason != test.want {
			t.Errorf("%s: Ready is %+v, want reason %s", name, got, test.want)
		}
	}
}
