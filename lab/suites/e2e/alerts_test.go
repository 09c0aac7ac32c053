//go:build linux

package e2e

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"golang.org/x/crypto/ssh"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/deploy/monitoring"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sshserver"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// fastRules returns all rules, changed so that alerts fire after a second and evaluate the last minute instead of the last 15 minutes.
func fastRules(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := monitoring.RuleFiles()
	must(t, err)
	text := regexp.MustCompile(`for: \w+`).ReplaceAllString(string(files[monitoring.AlertsFile]), "for: 1s")
	files[monitoring.AlertsFile] = []byte(strings.ReplaceAll(text, "[15m]", "[1m]"))
	return files
}

// alertsTest is a harness whose alerts Prometheus evaluates.
type alertsTest struct {
	harness
	prometheus *lab.Prometheus
}

// TestAlerts induces failures of simulated hosts and of the operator. Each failure fires its alert, which resolves after the repair.
func TestAlerts(t *testing.T) {
	needs(t, lab.CanRunLinuxNodes(), lab.CanRunPrometheus())
	p := newHarness(t, testenv.Options{Pod: true, Before: testenv.ServeMetrics})
	prometheus, err := p.StartPrometheus(t.Context(), testenv.PrometheusOptions{Interval: time.Second, Rules: fastRules(t)})
	must(t, err)
	w := alertsTest{p, prometheus}
	w.expectTargets(prometheus, monitoring.JobOperator)
	for _, test := range []struct {
		name string
		run  func(alertsTest)
	}{
		{"WrongKey", alertsTest.wrongKey},
		{"LoginRejected", alertsTest.loginRejected},
		{"HostKeyChanged", alertsTest.hostKeyChanged},
		{"DrainBlocked", alertsTest.blockedDrain},
		{"OperatorDown", alertsTest.operatorDown},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(alertsTest{p.withT(t), prometheus}) })
	}
}

// expectAlert waits until an alert with the label fires, and checks that its links and texts are filled in.
func (w alertsTest) expectAlert(name, label, value string) {
	w.t.Helper()
	w.eventually("alert "+name+" fires", func(ctx context.Context) string {
		all, err := w.prometheus.Alerts(ctx)
		if err != nil {
			return err.Error()
		}
		for _, a := range all.Alerts {
			if isOf(a, name, label, value) && a.State == promv1.AlertStateFiring {
				if text := string(a.Annotations["description"]); strings.Contains(text, "<no value>") || value != "" && !strings.Contains(text, value) {
					w.t.Errorf("the description of %s does not name %s: %s", name, value, text)
				}
				return ""
			}
		}
		return fmt.Sprintf("got alerts %v", all.Alerts)
	})
}

func isOf(a promv1.Alert, name, label, value string) bool {
	return string(a.Labels[model.AlertNameLabel]) == name && string(a.Labels[model.LabelName(label)]) == value
}

// expectResolved waits until the alert no longer fires.
func (w alertsTest) expectResolved(name, label, value string) {
	w.t.Helper()
	w.eventually("alert "+name+" is resolved", func(ctx context.Context) string {
		all, err := w.prometheus.Alerts(ctx)
		if err != nil {
			return err.Error()
		}
		for _, a := range all.Alerts {
			if isOf(a, name, label, value) {
				return fmt.Sprintf("its state is %s", a.State)
			}
		}
		return ""
	})
}

// expectUntil waits until alerts about an instance fire, repairs the failure, and waits until the alerts are resolved.
func (w alertsTest) expectUntil(name types.NamespacedName, repair func(), alerts ...string) {
	w.t.Helper()
	for _, alert := range alerts {
		w.expectAlert(alert, "windowsinstance", name.Name)
	}
	repair()
	for _, alert := range alerts {
		w.expectResolved(alert, "windowsinstance", name.Name)
	}
}

func (w alertsTest) wrongKey() {
	_, h := w.host(sim.Options{Windows: sim.WindowsOptions{Hostname: "wrong-key"}})
	w.key([]byte("not a key"))
	name := w.announce(h, nil)
	w.expectUntil(name, func() { w.key(w.Key) }, "WindowsInstanceStalled", "WindowsInstanceNotReady")
}

func (w alertsTest) loginRejected() {
	host, h := w.host(sim.Options{Windows: sim.WindowsOptions{Hostname: "rejecting"}})
	host.SSH().SetFaults(func(int) sshserver.Fault { return sshserver.Fault{RefuseLogin: true} })
	name := w.announce(h, nil)
	w.expectUntil(name, func() { host.SSH().SetFaults(nil) }, "WindowsInstanceUnreachable")
}

func (w alertsTest) hostKeyChanged() {
	_, h := w.host(sim.Options{Windows: sim.WindowsOptions{Hostname: "other-key"}})
	other, _, err := sshserver.NewKey()
	must(w.t, err)
	name := w.announce(h, func(i *v1alpha1.WindowsInstance) {
		i.Spec.HostKey = strings.TrimSpace(string(ssh.MarshalAuthorizedKey(other.PublicKey())))
	})
	w.expectUntil(name, func() { w.change(name, func(i *v1alpha1.WindowsInstance) { i.Spec.HostKey = "" }) }, "WindowsHostKeyChanged")
}

// blockedDrain requests a reboot of a node with a pod that a PodDisruptionBudget protects, until the drain is aborted.
func (w alertsTest) blockedDrain() {
	_, h := w.host(sim.Options{Windows: sim.WindowsOptions{Hostname: "draining"}})
	name := w.announce(h, nil)
	w.expectReady(name)
	meta := metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "stays", Labels: map[string]string{"app": "stays"}}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: meta, Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(1)), Selector: labelsOf("stays")}}
	pod := &corev1.Pod{ObjectMeta: meta, Spec: testenv.WebserverPod()}
	pod.Spec.NodeName = h.Name
	w.create(budget)
	w.create(pod)
	before := pod.DeepCopy()
	pod.Status.Phase = corev1.PodRunning // a simulated host has no kubelet that reports it
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	must(w.t, w.Client.Status().Patch(w.t.Context(), pod, client.MergeFrom(before)))
	w.annotateNode(h.Name, api.AnnotationReboot, "")
	w.expectUntil(name, func() {
		w.configure(func(s *v1alpha1.WindowsConfigSpec) {
			s.Rollout.Drain = v1alpha1.DrainSpec{Timeout: "1s", OnTimeout: v1alpha1.DrainAbort}
		})
	}, "WindowsDrainBlocked")
	w.expectUntil(name, func() {
		w.remove(budget)
		must(w.t, w.Client.Delete(w.t.Context(), pod, client.GracePeriodSeconds(0)))
		w.annotate(name, api.AnnotationRetry)
	}, "WindowsUpdateFailed")
}

// annotate works like kubectl annotate.
func (w alertsTest) annotate(name types.NamespacedName, key string) {
	w.change(name, func(i *v1alpha1.WindowsInstance) {
		metav1.SetMetaDataAnnotation(&i.ObjectMeta, key, time.Now().Format(time.RFC3339))
	})
}

func (w alertsTest) operatorDown() {
	scale := func(replicas int32) {
		var d appsv1.Deployment
		w.get(operatorObject(operatorName), &d)
		before := d.DeepCopy()
		d.Spec.Replicas = &replicas
		must(w.t, w.Client.Patch(w.t.Context(), &d, client.MergeFrom(before)))
	}
	scale(0)
	w.expectAlert("WindowsMachineConfigOperatorDown", "windowsinstance", "")
	scale(1)
	w.expectResolved("WindowsMachineConfigOperatorDown", "windowsinstance", "")
}
