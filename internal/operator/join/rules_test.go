package join_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/join"
)

// choice is one value of a part of the input.
type choice struct {
	name string
	set  func(*join.Observed)
}

// inputs returns the parts of Next's input, each with all values that make a difference.
func inputs() [][]choice {
	configured := func(status, reason string) func(*join.Observed) {
		return func(s *join.Observed) {
			s.Instance.Status.Conditions = append(s.Instance.Status.Conditions, condition(api.ConditionConfigured, status, reason, noon().Add(-time.Hour)))
		}
	}
	node := func(version string, status corev1.ConditionStatus, since time.Duration) func(*join.Observed) {
		return func(s *join.Observed) {
			s.Node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-1", Annotations: map[string]string{api.AnnotationVersion: version}}}
			s.Node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(noon().Add(-since))}}
		}
	}
	nothing := func(*join.Observed) {}
	ours, other := fresh().Version, "0.0.9-old"
	return [][]choice{
		{{"never configured", nothing}, {"configured", configured("True", "Configured")}, {"failed", configured("False", api.ReasonConnectionTimeout)},
			{"of another operator", configured("False", api.ReasonAdoptionPending)}},
		{{"no Node", nothing}, {"serves", node(ours, "True", time.Hour)}, {"silent for a minute", node(ours, "Unknown", time.Minute)}, {"silent for an hour", node(ours, "Unknown", time.Hour)},
			{"no version yet", node("", "True", time.Hour)}, {"another version", node(other, "True", time.Hour)}, {"another version, silent", node(other, "Unknown", time.Hour)}},
		{{"", nothing}, {"paused", func(s *join.Observed) { s.Instance.Spec.Paused = true }}, {"all paused", func(s *join.Observed) { s.AllPaused = true }}},
		{{"", nothing}, {"deleted", func(s *join.Observed) { s.Instance.DeletionTimestamp = &metav1.Time{Time: noon()} }}},
		{{"", nothing}, {"policies altered", func(s *join.Observed) { s.PoliciesFault = "x" }}, {"version fault", func(s *join.Observed) { s.VersionFault = "x" }},
			{"no key", func(s *join.Observed) { s.KeyFault = &join.Stall{Reason: api.ReasonPrivateKeyMissing} }}},
		{{"", nothing}, {"fleet silent", func(s *join.Observed) { s.FleetSilent = true }}},
		{{"", nothing}, {"backs off", func(s *join.Observed) { s.NotBefore = noon().Add(time.Second) }}, {"no slot", func(s *join.Observed) { s.SlotFree = false }}},
		{{"", nothing}, {"repaired once", repaired(1, 24*time.Hour)}, {"repaired in vain", repaired(join.MaxRepairs, 24*time.Hour)}},
		{{"", nothing}, {"lags behind the settings", func(s *join.Observed) { s.Settings, s.SettingsSince = "new", noon().Add(-time.Hour) }}},
	}
}

// TestRulesHoldForAllInputs checks rules, rather than exact decisions, for all combinations of inputs.
func TestRulesHoldForAllInputs(t *testing.T) {
	parts := inputs()
	total := 1
	for _, p := range parts {
		total *= len(p)
	}
	for n := range total {
		s, named := fresh(), map[string]bool{}
		for rest, i := n, 0; i < len(parts); i++ {
			c := parts[i][rest%len(parts[i])]
			rest /= len(parts[i])
			c.set(&s)
			named[c.name] = true
		}
		d := join.Next(s)
		for _, broken := range joinRulesBroken(named, d) {
			t.Errorf("%s: %v, decision %+v", broken, named, d)
		}
		if t.Failed() {
			return
		}
	}
}

// joinRulesBroken returns the rules that a decision breaks for inputs with these names.
func joinRulesBroken(in map[string]bool, d join.Decision) (broken []string) {
	joins := d.Action == join.Join
	for _, hold := range []string{"paused", "all paused", "deleted", "policies altered", "no key", "backs off", "no slot"} {
		if joins && in[hold] {
			broken = append(broken, "joined although "+hold)
		}
	}
	if joins && (in["another version"] || in["another version, silent"]) {
		broken = append(broken, "joined although its node has another version, which has its turn")
	}
	if joins && in["serves"] && in["configured"] && !in["lags behind the settings"] {
		broken = append(broken, "joined although it works")
	}
	if joins && in["silent for a minute"] && in["configured"] {
		broken = append(broken, "joined although it is silent for a minute only")
	}
	if joins && in["configured"] && in["silent for an hour"] && (in["fleet silent"] || in["repaired in vain"]) {
		broken = append(broken, "repaired although it would not help")
	}
	if joins && in["version fault"] && in["no Node"] {
		broken = append(broken, "a node of a version that does not go with the API server")
	}
	if d.Action == join.Requeue && d.After <= 0 {
		broken = append(broken, fmt.Sprintf("looks again in %s", d.After))
	}
	nothingHolds := !in["paused"] && !in["all paused"] && !in["deleted"] && !in["policies altered"] && !in["version fault"] && !in["no key"] && !in["backs off"] && !in["no slot"]
	if nothingHolds && !joins && in["never configured"] && in["no Node"] {
		broken = append(broken, "a host that was announced does not join")
	}
	if nothingHolds && !joins && in["configured"] && in["silent for an hour"] && in["repaired once"] && !in["fleet silent"] {
		broken = append(broken, "a broken node is not repaired")
	}
	return broken
}
