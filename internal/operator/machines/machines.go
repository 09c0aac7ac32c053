// Package machines decides what a Machine, of OpenShift's Machine API or of Cluster API, means for its host's WindowsInstance: create it, keep it,
// remove the host from the cluster, or treat the host as gone. The package has no side effects: the Machine and the cluster are values.
package machines

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/addresses"
	"github.com/windows-machine-config/wmco/internal/shared/platform"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// Machine has the relevant fields of a Machine of either API.
type Machine struct {
	// Source is its API: a value of label source of WindowsInstances.
	Source          string
	Namespace, Name string
	// Windows means that it should become a Windows node; Ignored, that the user excludes it from management.
	Windows, Ignored bool
	// Deleting means that it has been deleted.
	Deleting bool
	Phase    string
	// OfOtherAPI means that the same Machine in the other API is authoritative.
	OfOtherAPI bool
	// Platform is where it runs, in OpenShift's terms; "" if unknown.
	Platform string
	// Addresses are the internal addresses as written, Names the internal DNS names in lower case.
	Addresses, Names []string
	// External are the external addresses and DNS names.
	External []string
	// ClusterName is the Cluster that it belongs to; "" in the Machine API.
	ClusterName string
	// ProviderID is the cloud's ID of the machine; "" if it is not known yet.
	ProviderID string
}

// IsNode reports whether a Node's provider ID can be that of this Machine. The comparison ignores case, because clouds are inconsistent; an empty
// provider ID on either side matches.
func (m Machine) IsNode(providerID string) bool {
	return m.ProviderID == "" || providerID == "" || strings.EqualFold(m.ProviderID, providerID)
}

// IsOf reports whether the Machine belongs to the cluster.
func (m Machine) IsOf(c Cluster) bool { return c.Name == "" || m.ClusterName == c.Name }

// ID returns a Machine's name in annotation machine of its WindowsInstance.
func ID(namespace, name string) string { return namespace + "/" + name }

// Verdict is what a Machine means for its WindowsInstance.
type Verdict string

// The verdicts.
const (
	// Keep changes nothing: an existing instance stays, and none is created.
	Keep Verdict = "Keep"
	// Want requires an instance with one of the addresses.
	Want Verdict = "Want"
	// Leave means that the host exists but must no longer be a node.
	Leave Verdict = "Leave"
	// Gone means that the host no longer exists, or soon will not.
	Gone Verdict = "Gone"
)

// Decision is a verdict with its details.
type Decision struct {
	Verdict Verdict
	// Instance is the required instance, with the first of Addresses.
	Instance *v1alpha1.WindowsInstance
	// Addresses are all addresses at which the host may be reached. An existing instance with one of them is the Machine's.
	Addresses []netip.Addr
	// Fault is the kind of fault that prevents an instance; "" if there is none. Message explains it to the user.
	Fault, Message string
}

// The kinds of faults.
const (
	FaultAddress = "AddressInvalid"
	FaultName    = "NameInvalid"
	FaultCluster = "ClusterOther"
)

// Cluster is what a decision needs to know about the cluster.
type Cluster struct {
	// Namespace is the operator's namespace, which contains the instances.
	Namespace string
	// Name is the Cluster whose Machines count; "" for all.
	Name string
	// Platform is the cluster's platform, for Machines without one.
	Platform string
}

// The relevant phases of a Machine. Both APIs use the same names.
const (
	phaseProvisioned = "Provisioned"
	phaseRunning     = "Running"
	phaseDeleting    = "Deleting"
	phaseDeleted     = "Deleted"
)

// Decide returns what a Machine means. A Machine whose phase or addresses are inconclusive keeps its instance, so that a temporary API problem does
// not remove a node.
func Decide(m Machine, c Cluster) Decision {
	switch {
	case m.Deleting || m.Phase == phaseDeleting || m.Phase == phaseDeleted:
		return Decision{Verdict: Gone}
	case !m.Windows || m.Ignored:
		return Decision{Verdict: Leave}
	case !m.IsOf(c):
		return Decision{Verdict: Keep, Fault: FaultCluster, Message: fmt.Sprintf("spec.clusterName is %q, and only hosts of Cluster %q become nodes here "+
			"(spec.clusterAPI of WindowsConfig); remove label %s from Machines of other clusters", truncate.Text(m.ClusterName, truncate.Quoted), c.Name, api.LabelMachineOS)}
	case m.OfOtherAPI || m.Phase != phaseProvisioned && m.Phase != phaseRunning || len(m.Addresses) == 0:
		return Decision{Verdict: Keep}
	}
	on := platform.Of(cmp.Or(m.Platform, c.Platform))
	addresses := usable(m.Addresses)
	if len(addresses) == 0 {
		return Decision{Verdict: Keep, Fault: FaultAddress, Message: fmt.Sprintf(
			"status.addresses has no usable IPv4 address of type InternalIP (it has %s); Windows nodes need one", listed(m.Addresses))}
	}
	hostname, fault := hostname(m.Name, on)
	if fault != "" {
		return Decision{Verdict: Keep, Fault: FaultName, Message: fault}
	}
	return Decision{Verdict: Want, Addresses: addresses, Instance: &v1alpha1.WindowsInstance{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   c.Namespace,
			Name:        m.Name,
			Labels:      map[string]string{api.LabelSource: m.Source},
			Annotations: map[string]string{api.AnnotationMachine: ID(m.Namespace, m.Name)},
		},
		Spec: v1alpha1.WindowsInstanceSpec{Address: addresses[0].String(), Username: on.Username, Hostname: hostname},
	}}
}

// maxComputerName is the maximum length of a Windows computer name: longer names are truncated, so that two hosts could get the same one.
const maxComputerName = 15

// hostname returns the name to set on the host: the Machine's if the platform does not set it, else "" to keep the current one.
func hostname(machine string, on platform.Platform) (name, fault string) {
	if !on.NamesHosts {
		return "", ""
	}
	switch {
	case len(machine) > maxComputerName:
		return "", fmt.Sprintf("the name has %d characters, and on %s the host is named after its Machine: Windows allows at most %d; "+
			"use a MachineSet name of at most 9 characters, to which 6 are added", len(machine), on.Name, maxComputerName)
	case len(validation.IsDNS1123Label(machine)) > 0:
		return "", fmt.Sprintf("the name has a dot, and on %s the host is named after its Machine; allowed: lower-case letters, digits and hyphens", on.Name)
	case strings.Trim(machine, "0123456789") == "":
		return "", fmt.Sprintf("the name has only digits, and on %s the host is named after its Machine: Windows requires a letter or a hyphen", on.Name)
	}
	return machine, ""
}

// usable returns the distinct IPv4 addresses. It skips link-local ones (169.254.0.0/16), which hosts have before the network assigns an address.
func usable(texts []string) []netip.Addr {
	var all []netip.Addr
	for _, text := range texts {
		ip, err := netip.ParseAddr(text)
		ip = ip.Unmap()
		if err != nil || (addresses.Cluster{}).Refuse(ip) != "" {
			continue
		}
		if !slices.Contains(all, ip) {
			all = append(all, ip)
		}
	}
	return all
}

func listed(texts []string) string {
	const few = 5
	var quoted []string
	for _, text := range texts {
		quoted = append(quoted, fmt.Sprintf("%q", truncate.Text(text, truncate.Quoted)))
	}
	return truncate.List(quoted, few, ", ")
}
