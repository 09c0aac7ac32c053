package policysets

import (
	"fmt"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/observe/advice"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/networkpolicy"
)

// At most eventsPerRound events are emitted per eventsRound. The rest wait for the next round.
const (
	eventsPerRound = 50
	eventsRound    = time.Minute
)

// reports emits one event for each problem of each generation of a policy.
type reports struct {
	events kube.Events
	advice advice.Table
	known  map[problem]bool
	round  time.Time // when the round began
	count  int       // events in the round
}

type problem struct {
	policy     types.UID
	generation int64
	reason     networkpolicy.Reason
}

func newReports(events kube.Events, table advice.Table) *reports {
	return &reports{events: events, advice: table}
}

// eventOf returns the reason of the event for a kind of problem.
func eventOf(r networkpolicy.Reason) string {
	switch r {
	case networkpolicy.TooLarge:
		return api.EventNetworkPolicyTooLarge
	case networkpolicy.AddressFamily:
		return api.EventNetworkPolicyIPv6Ignored
	}
	return api.EventNetworkPolicyInvalid
}

// report emits the events of new problems, and returns when the rest is due; 0 if there is none. Policies of namespaces without pods on
// Windows nodes are not reported: they may be right for Linux.
func (r *reports) report(in inputs, problems []networkpolicy.Problem, now time.Time) (later time.Duration) {
	for _, p := range in.cut {
		cut := networkpolicy.Problem{Namespace: p.Namespace, Policy: p.Name, Message: fmt.Sprintf(
			"the policy, or all policies of the namespace or the cluster, are too large for the operator's memory (%d KiB for a policy, %d KiB for "+
				"a namespace), so all traffic of all pods of its namespace on Windows nodes is denied; split the policy, or use ranges instead of single addresses",
			maxPolicy>>10, policiesOfNamespace>>10)}
		cut.Reason = networkpolicy.TooLarge
		problems = append(problems, cut)
	}
	if now.Sub(r.round) >= eventsRound {
		r.round, r.count = now, 0
	}
	known := map[problem]bool{}
	for _, p := range problems {
		policy := in.policies[types.NamespacedName{Namespace: p.Namespace, Name: p.Policy}]
		if policy == nil || !in.concerned[p.Namespace] {
			continue
		}
		id := problem{policy.UID, policy.Generation, p.Reason}
		switch {
		case r.known[id]:
		case r.count >= eventsPerRound:
			later = r.round.Add(eventsRound).Sub(now)
			continue
		default:
			r.count++
			r.emit(policy, p)
		}
		known[id] = true
	}
	r.known = known
	return later
}

func (r *reports) emit(policy client.Object, p networkpolicy.Problem) {
	reason := eventOf(p.Reason)
	r.events.Emit(kube.Event{Object: policy, Type: corev1.EventTypeWarning, Reason: reason, Action: fmt.Sprintf("Compile-%d", policy.GetGeneration())},
		"%s. %s", p.Message, r.advice.For(reason).Remedy)
}

// troubled returns the namespaces with pods on Windows nodes whose policies have problems.
func (in inputs) troubled(problems []networkpolicy.Problem) map[string]bool {
	found := map[string]bool{}
	for _, p := range problems {
		found[p.Namespace] = true
	}
	for _, p := range in.cut {
		found[p.Namespace] = true
	}
	maps.DeleteFunc(found, func(namespace string, _ bool) bool { return !in.concerned[namespace] })
	return found
}

// metrics are those of the last compilation.
type metrics struct {
	policies, sets, problems, namespaces *prometheus.GaugeVec
	seconds                              *prometheus.HistogramVec
}

func newMetrics(r prometheus.Registerer) metrics {
	m := metrics{
		kube.NewGauge(api.MetricNetworkPolicies), kube.NewGauge(api.MetricPolicySets), kube.NewGauge(api.MetricPolicyProblems),
		kube.NewGauge(api.MetricPolicyProblemNamespaces),
		kube.NewHistogram(api.MetricPolicyCompileSeconds, []float64{0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30}),
	}
	r.MustRegister(m.policies, m.sets, m.problems, m.namespaces, m.seconds)
	m.compiled(inputs{}, 0, nil, 0) // also where policies are never on: a dashboard without values looks like a failure
	return m
}

// compiled sets the metrics. took is 0 if nothing was compiled, because policies are off.
func (m metrics) compiled(in inputs, sets int, problems []networkpolicy.Problem, took time.Duration) {
	m.policies.WithLabelValues().Set(float64(len(in.cluster.Policies)))
	m.namespaces.WithLabelValues().Set(float64(len(in.troubled(problems))))
	m.sets.WithLabelValues().Set(float64(sets))
	counts := map[networkpolicy.Reason]int{networkpolicy.Invalid: 0, networkpolicy.AddressFamily: 0, networkpolicy.TooLarge: 0}
	for _, p := range problems {
		counts[p.Reason]++
	}
	for reason, count := range counts {
		m.problems.WithLabelValues(string(reason)).Set(float64(count))
	}
	if took > 0 {
		m.seconds.WithLabelValues().Observe(took.Seconds())
	}
}
