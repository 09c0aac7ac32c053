package storytest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/source"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
)

// addNode registers another machine, without the operator.
func (s *story) addNode(name, system, address string) {
	s.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("of-" + address), Labels: map[string]string{corev1.LabelOSStable: system}}}
	s.must(s.client.Create(s.ctx, node))
	node.Status.NodeInfo.OperatingSystem = system
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
	controllertest.SetNodeCondition(node, corev1.NodeReady, corev1.ConditionTrue, "")
	s.must(s.client.Status().Update(s.ctx, node))
}

// A host got a token for a name without a Node. If another machine registers this name later, its Node does not become the host's.
func TestLaterNodeIsNotAssignedToHost(t *testing.T) {
	for _, system := range []string{"windows", "linux"} {
		t.Run(system, func(t *testing.T) {
			hostile(t, 1, func(s *story, liar *storyHost) {
				liar.claims("pool-7", liar.address)
				s.announce(liar)
				s.pass(time.Minute)
				if gained := liar.identities("pool-7"); !slices.Equal(gained, []string{"pool-7"}) {
					t.Fatalf("the host can become %q before the other machine joins, want pool-7", gained)
				}
				s.addNode("pool-7", system, "10.99.99.99")
				before := s.node("pool-7").DeepCopy()
				s.pass(5 * time.Minute)
				if gained := liar.identities("pool-7"); gained != nil {
					t.Errorf("the host can become %q", gained)
				}
				i := s.instance("win-1")
				if ready := kube.Condition(i, api.ConditionReady); ready.Reason != api.ReasonHostnameConflict || !strings.Contains(ready.Message, "10.99.99.99") || i.Status.NodeRef != nil {
					t.Errorf("Ready has reason %s and message %q, the instance's Node is %+v; want HostnameConflict, and none", ready.Reason, ready.Message, i.Status.NodeRef)
				}
				if c := i.Status.NodeConflict; c == nil || c.Name != "pool-7" || c.UID != before.UID {
					t.Errorf("status.nodeConflict is %+v, want Node pool-7", c)
				}
				s.impersonate(liar, "pool-7")
				s.startOperator()
				s.pass(5 * time.Minute)
				s.mustBeUntouched(before)
				s.addPod("pool-7", "of-somebody-else")
				s.must(s.client.Delete(s.ctx, s.instance("win-1")))
				s.until("the malicious host has left", 3*time.Hour, func() bool { return len(s.allInstances()) == 0 })
				s.mustBeUntouched(before)
				if n := len(s.podsOn("pool-7")); n != 1 {
					t.Errorf("%d pods on the other machine, want 1", n)
				}
			})
		})
	}
}

// impersonate makes a host use the identity of a name to write its own address into the Node.
func (s *story) impersonate(liar *storyHost, name string) {
	s.t.Helper()
	node := s.node(name).DeepCopy()
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: liar.address}}
	s.must(s.client.Status().Update(s.ctx, node))
	s.pass(2 * time.Minute)
	if gained := liar.identities(name); gained != nil {
		s.t.Errorf("the host can become %q after it has written its address into the Node", gained)
	}
	node = s.node(name).DeepCopy()
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.99.99.99"}}
	s.must(s.client.Status().Update(s.ctx, node))
}

func (s *story) mustBeUntouched(before *corev1.Node) {
	s.t.Helper()
	got := s.node(before.Name)
	if got.UID != before.UID || got.Spec.Unschedulable || len(got.Annotations) != len(before.Annotations) || len(got.Labels) != len(before.Labels) {
		s.t.Errorf("the Node of another machine has labels %v and annotations %v, cordoned %v; it had %v and %v", got.Labels, got.Annotations, got.Spec.Unschedulable, before.Labels, before.Annotations)
	}
}

// When the other machine's Node is gone, the Node that the host registers is its own.
func TestConflictEndsWithOtherNode(t *testing.T) {
	hostile(t, 1, func(s *story, host *storyHost) {
		s.joined()
		s.must(s.client.Delete(s.ctx, s.node(host.name)))
		s.addNode(host.name, "windows", "10.99.99.99")
		host.kubeletSilent = true
		s.until("the conflict is reported", time.Hour, func() bool {
			return kube.Condition(s.instance("win-1"), api.ConditionReady).Reason == api.ReasonHostnameConflict
		})
		s.must(s.client.Delete(s.ctx, s.node(host.name)))
		host.kubeletSilent = false
		s.until("the host is a node again", time.Hour, func() bool { return s.ready() == 1 })
		i := s.instance("win-1")
		if ref := i.Status.NodeRef; ref == nil || ref.UID != s.node(host.name).UID || i.Status.NodeConflict != nil {
			t.Errorf("the instance's Node is %+v, in conflict with %+v", ref, i.Status.NodeConflict)
		}
	})
}

// The host is renamed and the user accepts the new name: it becomes a node of that name, and the other machine's Node stays.
func TestConflictEndsWithNewName(t *testing.T) {
	hostile(t, 1, func(s *story, host *storyHost) {
		host.kubeletSilent = true // its kubelet has not registered yet
		s.announce(host)
		s.pass(time.Minute)
		s.addNode(host.name, "windows", "10.99.99.99")
		before := s.node(host.name).DeepCopy()
		s.until("the conflict is reported", time.Hour, func() bool {
			return kube.Condition(s.instance("win-1"), api.ConditionReady).Reason == api.ReasonHostnameConflict
		})
		host.name, host.version, host.kubeletSilent = "web-1", "", false
		s.annotate("win-1", api.AnnotationAcceptHostname, "web-1")
		s.until("the node has its new name", time.Hour, func() bool { return s.hasNode("web-1") && s.instance("win-1").Status.NodeRef != nil })
		if ref := s.instance("win-1").Status.NodeRef; ref.Name != "web-1" || s.instance("win-1").Status.NodeConflict != nil {
			t.Errorf("the instance's Node is %+v, in conflict with %+v", ref, s.instance("win-1").Status.NodeConflict)
		}
		s.mustBeUntouched(before)
	})
}

// A previous operator recorded no UIDs. Each Node is recognized by its annotated key, even if its address has changed.
func TestNodesWithoutRecordedUIDAreRecognized(t *testing.T) {
	hostile(t, 2, func(s *story, host *storyHost) {
		for _, h := range s.hosts {
			s.announce(h)
		}
		s.until("the hosts are nodes", time.Hour, func() bool { return s.ready() == 2 })
		for _, h := range s.hosts {
			i := s.instance(h.name)
			i.Status.NodeRef.UID, i.Status.IdentitySince = "", nil
			s.must(s.client.Status().Update(s.ctx, i))
		}
		node := s.node(host.name).DeepCopy()
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.7.7.7"}} // its lease has ended
		s.must(s.client.Status().Update(s.ctx, node))
		before := host.joins
		s.startOperator()
		s.pass(30 * time.Minute)
		for _, h := range s.hosts {
			if ref := s.instance(h.name).Status.NodeRef; ref == nil || ref.UID != s.node(h.name).UID {
				t.Errorf("the Node of %s is %+v, want UID %s", h.name, ref, s.node(h.name).UID)
			}
		}
		if s.ready() != 2 || host.joins != before {
			t.Errorf("%d nodes are Ready, and win-1 has joined %d times more", s.ready(), host.joins-before)
		}
	})
}

// otherMachines are Machines of Linux nodes.
type otherMachines struct{ announcedMachines }

func (otherMachines) Named(_ context.Context, name, _ string) string {
	if name == "cp-3" {
		return "Machine ns/cp-3"
	}
	return ""
}

func TestLinuxMachineNameIsReserved(t *testing.T) {
	hostile(t, 1, func(s *story, liar *storyHost) {
		s.announcers = []source.Announcer{otherMachines{}}
		s.startOperator()
		liar.claims("cp-3", liar.address)
		s.announce(liar)
		s.pass(5 * time.Minute)
		if r := s.supported("win-1"); r != api.ReasonHostnameConflict || liar.token != "" {
			t.Errorf("Supported has reason %q, want HostnameConflict; it was handed %q", r, liar.token)
		}
	})
}

// Users restrict host names with spec.hosts.namePattern. Hosts that have joined keep their names.
func TestHostWithDisallowedNameDoesNotJoin(t *testing.T) {
	hostile(t, 2, func(s *story, liar *storyHost) {
		honest := s.hosts[1]
		s.announce(honest)
		s.until("a host is a node", time.Hour, func() bool { return s.ready() == 1 })
		s.configure(func(c *v1alpha1.WindowsConfigSpec) { c.Hosts = v1alpha1.HostsSpec{NamePattern: "windows-[0-9]+"} })
		liar.claims("cp-3", liar.address)
		s.announce(liar)
		s.must(s.client.Delete(s.ctx, s.node(honest.name)))
		s.until("the joined host is a node again", time.Hour, func() bool { return s.ready() == 1 })
		if r := s.supported("win-1"); r != api.ReasonHostnameInvalid || liar.token != "" {
			t.Errorf("Supported has reason %q, want HostnameInvalid; it was handed %q", r, liar.token)
		}
	})
}

// The Node of an adopted host is Ready before its WICD has a certificate. The operator knows the host's token until then, and no longer.
func TestTokenIsKeptUntilAdoptedHostReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, 1, v1alpha1.RolloutSpec{})
		h := s.hosts[0]
		h.others, h.version, h.approvalTakes = true, "10.18.0-other", 2*time.Minute
		h.joinedAt = time.Now().Add(-time.Hour)
		h.advance()
		s.announce(h)
		s.until("it is adopted", time.Hour, func() bool { return s.at(s.version) == 1 })
		s.pass(time.Minute)
		if id := s.instance("win-1").Status.BootstrapCredentialID; id != "" || h.joins != 1 {
			t.Errorf("%d joins, and the operator knows token %q, want one join and no token", h.joins, id)
		}
	})
}
