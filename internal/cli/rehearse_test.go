package cli_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/internal/cli/clitest"
	"github.com/windows-machine-config/wmco/internal/cli/session"
)

func rehearsalCluster(t *testing.T) *clitest.Cluster {
	t.Helper()
	c := clitest.New(t)
	labels, class := map[string]string{"app": "web"}, "windows2022"
	c.Add("apps/v1/deployments", &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: labels},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{"example.com/config": "1"}},
			Spec:       corev1.PodSpec{RuntimeClassName: &class, Containers: []corev1.Container{{Name: "web", Image: "example.com/web:1"}}},
		}},
	})
	for name, build := range map[string]string{"windows2022": "10.0.20348", "windows2025": "10.0.26100"} {
		c.Add("node.k8s.io/v1/runtimeclasses", &nodev1.RuntimeClass{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Handler: "runhcs-wcow-process",
			Scheduling: &nodev1.Scheduling{NodeSelector: map[string]string{corev1.LabelWindowsBuild: build}},
		})
	}
	for name, os := range map[string]string{"win-9": "windows", "linux-1": "linux"} {
		c.Add("v1/nodes", &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
				corev1.LabelOSStable: os, corev1.LabelHostname: name, corev1.LabelWindowsBuild: "10.0.26100",
			}},
			Spec:   corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{{Key: "new", Value: "2025", Effect: corev1.TaintEffectNoSchedule}}},
			Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{OperatingSystem: os, KernelVersion: "10.0.26100.7171"}},
		})
	}
	return c
}

func TestRehearsalIsPrinted(t *testing.T) {
	r := rehearsalCluster(t).Run(t, "", "rehearse", "shop/web", "--on", "win-9")
	if r.Code != session.CodeOK || r.Err != "" {
		t.Fatalf("exit code %d: %s", r.Code, r.Err)
	}
	golden(t, "rehearse.golden", r.Out)
}

func TestInvalidRehearsalsAreRejected(t *testing.T) {
	c := rehearsalCluster(t)
	for name, test := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no Deployment":      {[]string{"--on", "win-9"}, session.CodeUsage, "NAMESPACE/DEPLOYMENT"},
		"no namespace":       {[]string{"web", "--on", "win-9"}, session.CodeUsage, "NAMESPACE/DEPLOYMENT"},
		"no node":            {[]string{"shop/web"}, session.CodeUsage, "--on is required"},
		"another Deployment": {[]string{"shop/api", "--on", "win-9"}, session.CodeFailed, "shop/api"},
		"another node":       {[]string{"shop/web", "--on", "win-8"}, session.CodeFailed, "win-8"},
		"a Linux node":       {[]string{"shop/web", "--on", "linux-1"}, session.CodeFailed, "not a Windows node"},
	} {
		r := c.Run(t, "", append([]string{"rehearse"}, test.args...)...)
		if r.Code != test.code || !strings.Contains(r.Err, test.want) || r.Out != "" {
			t.Errorf("%s: exit code %d, %q and output %q, want %d and %q", name, r.Code, r.Err, r.Out, test.code, test.want)
		}
	}
}
