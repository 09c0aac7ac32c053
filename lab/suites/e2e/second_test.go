//go:build linux

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// TestSecondOperator installs a second operator in another namespace, which must stand by until the first is uninstalled.
func TestSecondOperator(t *testing.T) {
	const namespace, tenant = "second", "tenant"
	p := newHarness(t, testenv.Options{SimulatedHosts: 2})
	p.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}})
	future := metav1.NewMicroTime(metav1.Now().AddDate(1, 0, 0))
	p.create(&coordinationv1.Lease{ // of a user who wants to stop the operator
		ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: operatorName}, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("x"), RenewTime: &future},
	})
	first, second := p.Hosts()[0], p.Hosts()[1]
	p.expectReady(p.announce(first, nil))

	another, err := p.SecondOperator(t.Context(), namespace)
	must(t, err)
	p.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: api.PrivateKeySecret}, Data: map[string][]byte{api.PrivateKeyKey: p.Key}})
	must(t, another.Start())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the log of the second operator:\n%s", another.Log())
		}
		another.Kill()
	})
	p.eventually("WindowsConfig reports that the second operator stands by", func(ctx context.Context) string {
		message, err := anotherOperator(ctx, p.Client)
		if err != nil || !containsAll(message, []string{"namespace " + namespace + " stands by", "namespace " + api.DefaultNamespace + " manages"}) {
			return fmt.Sprintf("got message %q (%v)", message, err)
		}
		return ""
	})
	i := second.Instance()
	i.Namespace = namespace
	p.create(i)
	p.restartWith(p.Payload) // the first operator must become active again
	p.announce(testenv.Host{Name: "bystander", Address: p.UnusedAddress(), Port: 22}, nil)
	p.expect(operatorObject("bystander"), api.ConditionReady, api.ReasonConnectionRefused)
	now := &v1alpha1.WindowsInstance{}
	p.get(client.ObjectKeyFromObject(i), now)
	if len(now.Status.Conditions) > 0 || len(now.Finalizers) > 0 {
		t.Errorf("the standby operator changed its instance: %+v", now)
	}

	must(t, p.Uninstall(t.Context()))
	p.expectReady(client.ObjectKeyFromObject(i))
	p.eventually("WindowsConfig no longer reports a second operator", func(ctx context.Context) string {
		message, err := anotherOperator(ctx, p.Client)
		if err != nil || message != "" {
			return fmt.Sprintf("got message %q (%v)", message, err)
		}
		return ""
	})
	if !strings.Contains(another.Log(), "Standing by") {
		t.Error("the log of the second operator lacks \"Standing by\"")
	}
	if err := p.Operator.Start(); err != nil { // without its permissions
		t.Fatal(err)
	}
	select {
	case <-p.Operator.Ended():
	case <-time.After(time.Minute):
		t.Error("an operator without permissions did not exit")
	}
	if log := p.Operator.Log(); !strings.Contains(log, "missing permissions: list windowsconfigs.windowsmachineconfig.openshift.io, list nodes, ") {
		t.Errorf("the operator's log does not name the missing permissions:\n%s", log[max(0, len(log)-2000):])
	}
}

func anotherOperator(ctx context.Context, c client.Reader) (message string, err error) {
	var config v1alpha1.WindowsConfig
	if err := c.Get(ctx, types.NamespacedName{Name: api.WindowsConfigName}, &config); err != nil {
		return "", err
	}
	if got := meta.FindStatusCondition(config.Status.Conditions, api.ConditionAnotherOperator); got != nil {
		return got.Message, nil
	}
	return "", nil
}
