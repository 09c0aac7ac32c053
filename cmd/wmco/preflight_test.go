package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiversion "k8s.io/apimachinery/pkg/version"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// apiServer returns an API server with a version and kinds. denied reports whether the operator lacks a permission, in the format of describe.
func apiServer(gitVersion string, kinds []string, denied func(permission string) bool) *fake.Clientset {
	c := fake.NewClientset()
	discovery := c.Discovery().(*fakediscovery.FakeDiscovery)
	discovery.FakedServerVersion = &apiversion.Info{GitVersion: gitVersion}
	list := &metav1.APIResourceList{GroupVersion: "windowsmachineconfig.openshift.io/v1alpha1"}
	for _, kind := range kinds {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: kind})
	}
	discovery.Resources = []*metav1.APIResourceList{list}
	c.PrependReactor("create", "selfsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
		review.Status.Allowed = !denied(describe(*review.Spec.ResourceAttributes))
		return true, review, nil
	})
	return c
}

func TestPreflightReportsMissingRequirements(t *testing.T) {
	both := []string{"windowsinstances", "windowsconfigs"}
	for name, test := range map[string]struct {
		version string
		kinds   []string
		denied  map[string]bool
		wantErr string // "" where it can work
	}{
		"requirements met":   {"v1.33.0", both, nil, ""},
		"later version":      {"v1.36.3+f1a2b3c", both, nil, ""},
		"unparsable version": {"devel", both, nil, ""},
		"old API server":     {"v1.32.9", both, nil, "the API server is Kubernetes v1.32.9; this operator needs 1.33 or later: upgrade the cluster"},
		"no kinds":           {"v1.36.3", nil, nil, "does not serve windowsinstances of windowsmachineconfig.openshift.io/v1alpha1; apply deploy/crds"},
		"missing kind":       {"v1.36.3", both[:1], nil, "does not serve windowsconfigs"},
		"missing permission": {"v1.36.3", both, map[string]bool{"list nodes": true, "list leases.coordination.k8s.io windows-machine-config-operator": true}, "missing permissions: list nodes, list leases.coordination.k8s.io windows-machine-config-operator; apply deploy/rbac-operator.yaml of this version, for the operator in namespace ns"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				denied := func(permission string) bool { return test.denied[permission] }
				err := checkRepeatedly(t.Context(), apiServer(test.version, test.kinds, denied), "ns")
				if (err == nil) != (test.wantErr == "") || err != nil && !strings.Contains(err.Error(), test.wantErr) {
					t.Errorf("got error %v, want %q", err, test.wantErr)
				}
			})
		})
	}
}

func TestPreflightWaitsForPermissions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		denied := func(permission string) bool {
			return permission == "list nodes" && time.Since(began) < preflightTimeout/2
		}
		if err := checkRepeatedly(t.Context(), apiServer("v1.36.3", []string{"windowsinstances", "windowsconfigs"}, denied), "ns"); err != nil {
			t.Error(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Second/2, stop)
		if err := checkRepeatedly(ctx, apiServer("v1.36.3", nil, denied), "ns"); err == nil || ctx.Err() == nil {
			t.Errorf("the check continues after the operator was stopped: %v", err)
		}
	})
}

// TestUnansweredPreflightIsIgnored fails requests, as while the API server restarts, and expects the operator to start.
func TestUnansweredPreflightIsIgnored(t *testing.T) {
	away := func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("connection refused")
	}
	for _, resource := range []string{"version", "resource", "selfsubjectaccessreviews", "*"} {
		c := apiServer("v1.36.3", []string{"windowsinstances", "windowsconfigs"}, func(string) bool { return false })
		c.PrependReactor("*", resource, away)
		if err := checkRepeatedly(t.Context(), c, "ns"); err != nil {
			t.Errorf("without an answer to %s: %v", resource, err)
		}
	}
}

func TestTerminationMessageIsOneLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "termination-log")
	writeTerminationMessage(path, errors.New("outside a pod"))
	if _, err := os.Stat(path); err == nil {
		t.Error("the file was created outside a pod")
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("former ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	writeTerminationMessage(path, errors.Join(errors.New("first"), errors.New("second\n\tthird")))
	if text, err := os.ReadFile(path); err != nil || string(text) != "first second third" {
		t.Errorf("the message is %q (%v)", text, err)
	}
	writeTerminationMessage(path, errors.New(strings.Repeat("ä", maxTermination)))
	if text, err := os.ReadFile(path); err != nil || len(text) > maxTermination || !strings.HasSuffix(string(text), "ä...") {
		t.Errorf("a long message has %d bytes, ends with %q (%v)", len(text), text[max(0, len(text)-8):], err)
	}
}
