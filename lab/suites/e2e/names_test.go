//go:build linux

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

const clusterDNS = "10.96.0.10"

// names resolves names of Services in pods, with CoreDNS as the cluster's DNS.
func (s servicesTest) names() {
	needs(s.t, lab.CanRunLinuxNodes())
	must(s.t, s.StartDNS(s.t.Context()))
	o, pods := s.service("named", nil), s.webPods()
	s.expect(pods, "http://named", namesOf(pods)...)
	s.expect(pods, "http://named.default.svc.cluster.local", namesOf(pods)...)
	s.service("other-name", func(spec *corev1.ServiceSpec) {
		*spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "named.default.svc.cluster.local"}
	})
	s.expectAddresses(&pods[0], "other-name", o.Spec.ClusterIP)
	s.service("headless", func(spec *corev1.ServiceSpec) { spec.ClusterIP = corev1.ClusterIPNone })
	s.expectAddresses(&pods[0], "headless", pods[0].Status.PodIP, pods[1].Status.PodIP)
	s.expectAddresses(&pods[0], "kube-dns")
	s.expectAddresses(&pods[0], "kube-dns.kube-system.svc.cluster.local.", clusterDNS)
	s.expectAddresses(&pods[0], "kube-dns.kube-system") // Windows uses only the first suffix,
	endpoint := strings.ReplaceAll(pods[0].Status.PodIP, ".", "-") + ".headless"
	s.expectAddresses(&pods[0], endpoint+".default.svc.cluster.local", pods[0].Status.PodIP)
	s.expectAddresses(&pods[0], endpoint) // and none for names with a dot
	s.expectAddresses(s.podWithDNS("kube-system.svc.cluster.local"), "kube-dns", clusterDNS)
}

// podWithDNS creates a pod with its own DNS suffix, next to the others.
func (s servicesTest) podWithDNS(suffix string) *corev1.Pod {
	s.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "own-dns", Labels: map[string]string{"app": "own-dns"}},
		Spec:       testenv.WebserverPod(),
	}
	pod.Spec.DNSPolicy = corev1.DNSNone
	pod.Spec.DNSConfig = &corev1.PodDNSConfig{Nameservers: []string{clusterDNS}, Searches: []string{suffix}}
	s.create(pod)
	s.t.Cleanup(func() { _ = s.Client.Delete(context.Background(), pod) })
	return &s.ExpectServing(s.t, waitTimeout, pod.Name, 1)[0]
}

// expectAddresses waits until a name resolves to exactly these addresses in a pod, or does not exist if there are none.
func (s servicesTest) expectAddresses(pod *corev1.Pod, name string, addresses ...string) {
	s.t.Helper()
	slices.Sort(addresses)
	s.eventually(fmt.Sprintf("%s has addresses %v in %s", name, addresses, pod.Name), func(ctx context.Context) string {
		output, code, err := s.Exec(ctx, pod, "", "webserver", "lookup", name)
		if err != nil {
			return err.Error()
		}
		if len(addresses) == 0 {
			if code == 0 || !strings.Contains(output, "no such host") {
				return fmt.Sprintf("exit code %d: %s", code, output)
			}
			return ""
		}
		found := strings.Fields(output)
		if slices.Sort(found); !slices.Equal(found, addresses) {
			return fmt.Sprintf("exit code %d: %s", code, output)
		}
		return ""
	})
}
