//go:build linux

package e2e

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/cluster/openshift"
	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
	"github.com/windows-machine-config/wmco/lab/windows/hns"
)

// lastHost returns the host that is removed and added again.
func (p harness) lastHost() *lab.Host {
	hosts := p.Lab.Hosts()
	return hosts[len(hosts)-1]
}

// removeLastHost removes the last host from the cluster, and checks that the host is restored.
func (p harness) removeLastHost(fresh snapshot) {
	host := p.lastHost()
	const keys = "file " + guestapi.AuthorizedKeysFile
	fresh[keys] = takeSnapshot(p.t, host)[keys] // the key was replaced meanwhile, and a removed host keeps it
	p.leave(host, fresh)
	if containers, err := host.Containers(p.t.Context()); err != nil || len(containers) > 0 {
		p.t.Errorf("containers of the removed host: got %v (%v), want none", containers, err)
	}
	for kind, own := range map[hns.Kind]int{hns.Endpoint: 0, hns.Namespace: 1} { // one namespace is the host's own
		if objects, err := host.HNS().List(kind); err != nil || len(objects) > own {
			p.t.Errorf("objects of kind %s on the removed host: got %v (%v), want %d", kind, objects, err, own)
		}
	}
	p.expectServing(appWeb, 3)
}

// leave removes a host from the cluster, and waits until it has its former state.
func (p harness) leave(host *lab.Host, fresh snapshot) {
	p.t.Helper()
	var entries corev1.ConfigMap
	p.get(operatorObject(api.InstancesConfigMap), &entries)
	before := entries.DeepCopy()
	delete(entries.Data, host.Address())
	must(p.t, p.Client.Patch(p.t.Context(), &entries, client.MergeFrom(before)))
	began := time.Now()
	p.expectGone(operatorObject(host.Address()), &v1alpha1.WindowsInstance{})
	p.expectGone(types.NamespacedName{Name: host.Name()}, &corev1.Node{})
	p.t.Logf("%s had left after %s", host.Name(), time.Since(began).Round(100*time.Millisecond))
	remains := p.expectEvent(host.Address(), api.EventHostLeft)
	p.t.Logf("event %s: %s", api.EventHostLeft, remains)
	for _, difference := range fresh.compare(takeSnapshot(p.t, host), remains) {
		p.t.Error(difference)
	}
}

// rejoinAsMachine adds the last host again, through a Machine with its address.
func (p harness) rejoinAsMachine() {
	host := p.lastHost()
	p.makeOpenShift("None")
	machine := p.machineAt(openshift.MachineAPI, machineAPINamespace, host.Name(), host.Address())
	if i := p.expectInstance(machine); i.Labels[api.LabelSource] != api.SourceMachine || i.Status.Hostname != host.Name() {
		p.t.Errorf("instance %s: got labels %v and host name %s", i.Name, i.Labels, i.Status.Hostname)
	}
	p.expectServing(appAgent, len(p.Hosts()))
}
