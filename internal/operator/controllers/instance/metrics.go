package instance

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/remote"
)

type metrics struct {
	stepSeconds, bytes, actions *prometheus.HistogramVec
	joins, connections          *prometheus.CounterVec
	channels                    prometheus.Observer
}

func newMetrics(r prometheus.Registerer, reader client.Reader) *metrics {
	channels := kube.NewHistogram(api.MetricJoinChannels, []float64{0, 1, 2, 3, 4, 5, 6, 8, 16})
	m := &metrics{
		stepSeconds: kube.NewHistogram(api.MetricJoinStepSeconds, prometheus.ExponentialBuckets(0.1, 2, 17)), // up to 109 minutes
		bytes:       kube.NewHistogram(api.MetricJoinBytes, prometheus.ExponentialBuckets(1<<10, 4, 11)),     // up to 1 GiB
		actions:     kube.NewHistogram(api.MetricActionSeconds, prometheus.ExponentialBuckets(5, 2, 11)),     // up to 85 minutes
		joins:       kube.NewCounter(api.MetricJoins),
		connections: kube.NewCounter(api.MetricSSHConnections),
		channels:    channels.WithLabelValues(),
	}
	r.MustRegister(m.stepSeconds, m.joins, m.connections, channels, m.bytes, m.actions, newInstanceGauges(reader))
	return m
}

func (m *metrics) connection(u remote.Usage) {
	m.channels.Observe(float64(u.Channels))
	m.bytes.WithLabelValues("sent").Observe(float64(u.BytesOut))
	m.bytes.WithLabelValues("received").Observe(float64(u.BytesIn))
}

// action records the duration and the result of an action on a node.
func (m *metrics) action(a v1alpha1.PlanAction, failed bool, took time.Duration) {
	result := "done"
	if failed {
		result = "failed"
	}
	m.actions.WithLabelValues(string(a), result).Observe(took.Seconds())
}

func newInstanceGauges(reader client.Reader) kube.Gauges {
	type state struct{ condition, status, reason string }
	type wait struct{ action, reason string }
	return kube.NewGauges(func(ctx context.Context, sample kube.Sample) error {
		var list v1alpha1.WindowsInstanceList
		if err := reader.List(ctx, &list); err != nil {
			return err
		}
		states, waits := map[state]int{}, map[wait]int{}
		for _, i := range list.Items {
			for _, cond := range i.Status.Conditions {
				states[state{cond.Type, string(cond.Status), cond.Reason}]++
				if isProblem(cond) {
					sample(api.MetricInstanceProblem, 1, i.Name, nodeOf(i), cond.Type, cond.Reason)
				}
			}
			if p := i.Status.Plan; p != nil && p.WaitsFor != "" {
				waits[wait{string(p.Action), p.WaitsFor}]++
			}
			if f := i.Status.Failure; f != nil {
				sample(api.MetricActionFailed, 1, i.Name, nodeOf(i), string(f.Action))
			}
		}
		for s, n := range states {
			sample(api.MetricInstances, float64(n), s.condition, s.status, s.reason)
		}
		for w, n := range waits {
			sample(api.MetricRolloutWaiting, float64(n), w.action, w.reason)
		}
		return nil
	}, api.MetricInstances, api.MetricInstanceProblem, api.MetricActionFailed, api.MetricRolloutWaiting)
}

func nodeOf(i v1alpha1.WindowsInstance) string {
	if i.Status.NodeRef == nil {
		return ""
	}
	return i.Status.NodeRef.Name
}

// isProblem reports whether a condition indicates a problem. Conditions that Ready summarizes are left out, except Reachable: a node keeps working
// while its host cannot be reached.
func isProblem(c metav1.Condition) bool {
	switch c.Type {
	case api.ConditionReady, api.ConditionReachable, api.ConditionSandboxImage:
		return c.Status != metav1.ConditionTrue
	case api.ConditionStalled, api.ConditionDraining, api.ConditionRebootRequired, api.ConditionWindowsUnsupported:
		return c.Status == metav1.ConditionTrue
	}
	return false
}
