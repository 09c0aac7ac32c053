package source

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/addresses"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
)

// clusterWith returns the state of a cluster with entries and instances, a Machine at 10.0.0.7 and a Linux node at 10.0.0.8.
func clusterWith(users *corev1.ConfigMap, instances []*v1alpha1.WindowsInstance) entryState {
	now := time.Now()
	s := entryState{
		configMap: users, instances: map[string]*v1alpha1.WindowsInstance{}, hostKeys: readKnownHosts(&corev1.ConfigMap{}), now: now,
		resolved: resolved{
			"host.example":    {ips: []netip.Addr{netip.MustParseAddr("10.0.0.1")}},
			"wrong.example":   {err: errors.New("no such host")},
			"pending.example": {seen: now},
			"slow.example":    {seen: now.Add(-lookupTimeout)},
		},
		reserved:  addresses.Cluster{Nodes: map[netip.Addr]string{netip.MustParseAddr("10.0.0.8"): "linux-1"}},
		announced: map[netip.Addr]Announcement{netip.MustParseAddr("10.0.0.7"): {Object: "Machine ns/m"}},
	}
	for _, i := range instances {
		s.instances[i.Name] = i
	}
	s.entries, s.faults = parseEntries(users.Data, users.BinaryData)
	for _, key := range append(slices.Collect(maps.Keys(users.Data)), addressesOf(s.instances)...) {
		if ip, err := netip.ParseAddr(key); err == nil {
			s.resolved[key] = resolution{ips: []netip.Addr{ip}}
		}
	}
	return s
}

// lines returns what a plan contains.
func (p entryPlan) lines() (all []string) {
	for _, e := range p.create {
		all = append(all, "create "+e.instanceName())
	}
	for _, i := range p.update {
		all = append(all, "update "+i.Name+" "+i.Spec.Username)
	}
	for _, i := range p.remove {
		all = append(all, "remove "+i.Name)
	}
	for _, f := range p.faults {
		all = append(all, f.kind+" "+f.key)
	}
	for _, node := range slices.Sorted(maps.Keys(p.nodes)) {
		all = append(all, "Node "+node)
	}
	if p.recheck > 0 {
		all = append(all, "recheck "+p.recheck.String())
	}
	return all
}

func TestPlanEntries(t *testing.T) {
	ofEntry := func(name string) *v1alpha1.WindowsInstance {
		return controllertest.Instance(name, "ConfigMap", "", name)
	}
	leaving, reported := ofEntry("10.0.0.1"), ofEntry("10.0.0.9")
	leaving.DeletionTimestamp, reported.Status.NodeIP = &metav1.Time{Time: time.Now()}, "10.0.0.1"
	byOther := ofEntry("10.0.0.1")
	byOther.Spec.Username = "other"
	users := controllertest.Instance("10.0.0.1", "User", "", "10.0.0.2")
	invalid := userMap("10.0.0.2")
	invalid.Data["10.0.0.1"] = "Administrator"
	tests := map[string]struct {
		configMap *corev1.ConfigMap
		instances []*v1alpha1.WindowsInstance
		want      string
	}{
		"new":                                          {userMap("10.0.0.1"), nil, "create 10.0.0.1"},
		"existing instance":                            {userMap("10.0.0.1"), []*v1alpha1.WindowsInstance{ofEntry("10.0.0.1")}, ""},
		"existing instance with another user":          {userMap("10.0.0.1"), []*v1alpha1.WindowsInstance{byOther}, "update 10.0.0.1 Administrator"},
		"host is leaving":                              {userMap("10.0.0.1"), []*v1alpha1.WindowsInstance{leaving}, ""},
		"removed":                                      {userMap(), []*v1alpha1.WindowsInstance{ofEntry("10.0.0.1")}, "remove 10.0.0.1"},
		"removed, host is leaving":                     {userMap(), []*v1alpha1.WindowsInstance{leaving}, ""},
		"became invalid":                               {invalid, []*v1alpha1.WindowsInstance{ofEntry("10.0.0.1")}, "create 10.0.0.2, UsernameInvalid 10.0.0.1, recheck 1m0s"},
		"instance of a user":                           {userMap(), []*v1alpha1.WindowsInstance{users}, ""},
		"name of a user's instance":                    {userMap("10.0.0.1"), []*v1alpha1.WindowsInstance{users}, "NameTaken 10.0.0.1, recheck 1m0s"},
		"host of a user's instance":                    {userMap("10.0.0.2"), []*v1alpha1.WindowsInstance{users}, "AddressTaken 10.0.0.2, recheck 1m0s"},
		"two entries for one host":                     {userMap("10.0.0.1", "host.example"), nil, "create 10.0.0.1, AddressTaken host.example, recheck 1m0s"},
		"host of another instance":                     {userMap("10.0.0.1", "host.example"), []*v1alpha1.WindowsInstance{ofEntry("host.example")}, "AddressTaken 10.0.0.1, recheck 1m0s"},
		"reported address of another instance":         {userMap("10.0.0.1", "10.0.0.9"), []*v1alpha1.WindowsInstance{reported}, "AddressTaken 10.0.0.1, recheck 1m0s"},
		"host of a Machine":                            {userMap("10.0.0.7"), nil, "AddressTaken 10.0.0.7, recheck 1m0s"},
		"existing instance with the host of a Machine": {userMap("10.0.0.7"), []*v1alpha1.WindowsInstance{ofEntry("10.0.0.7")}, ""},
		"address of a Node":                            {userMap("10.0.0.8"), nil, "AddressInvalid 10.0.0.8, Node linux-1, recheck 1m0s"},
		"existing instance with the address of a Node": {userMap("10.0.0.8"), []*v1alpha1.WindowsInstance{ofEntry("10.0.0.8")}, ""},
		"name does not resolve":                        {userMap("wrong.example"), nil, "AddressUnresolvable wrong.example, recheck 1m0s"},
		"name no longer resolves":                      {userMap("wrong.example"), []*v1alpha1.WindowsInstance{ofEntry("wrong.example")}, ""},
		"no answer from DNS":                           {userMap("slow.example", "10.0.0.1"), nil, "create 10.0.0.1, recheck 1m0s"},
		"pending lookup for an existing instance":      {userMap("pending.example", "10.0.0.1"), []*v1alpha1.WindowsInstance{ofEntry("pending.example")}, "recheck 200ms"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(planEntries(clusterWith(test.configMap, test.instances)).lines(), ", "); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
