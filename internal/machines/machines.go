// Package machines says what a Machine, of OpenShift's Machine API or of Cluster API, means for the WindowsInstance of its host:
// that there is to be one, that it stays, that it leaves the cluster, or that its host is gone. Pure: the Machine and the cluster are
// values.
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
	"github.com/windows-machine-config/wmco/internal/addresses"
	"github.com/windows-machine-config/wmco/internal/platform"
	"github.com/windows-machine-config/wmco/internal/shorten"
)

// Machine is what is read of a Machine of either API.
type Machine struct {
	// Source is the API it is of: a value of label source of WindowsInstances.
	Source          string
	Namespace, Name string
	// Windows says that it is to become a Windows node, Ignored that the user keeps the operator away from it.
	Windows, Ignored bool
	// Deleting says that somebody has deleted it.
	Deleting bool
	Phase    string
	// OfOtherAPI says that the same Machine of the other API is the one that counts.
	OfOtherAPI bool
	// Platform is where it runs, as OpenShift names platforms; "" where it does not say.
	Platform string
	// Addresses are those inside of the cluster, as they are written, Names the DNS names there, in lower case.
	Addresses, Names []string
	// External are the addresses and DNS names outside of it.
	External []string
	// ClusterName is the Cluster that it is of; "" in the Machine API.
	ClusterName string
	// ProviderID is the cloud's name of the machine; "" where it is not known yet.
	ProviderID string
}

// IsNode says whether a provider ID of a Node can be that of this Machine. Clouds write the same one in different cases, and a Node or
// Machine that has none yet can be any.
func (m Machine) IsNode(providerID string) bool {
	return m.ProviderID == "" || providerID == "" || strings.EqualFold(m.ProviderID, providerID)
}

// IsOf says whether a Machine is of the cluster.
func (m Machine) IsOf(c Cluster) bool { return c.Name == "" || m.ClusterName == c.Name }

// ID names a Machine in annotation machine of its WindowsInstance.
func ID(namespace, name string) string { return namespace + "/" + name }

// Verdict is what a Machine means for its WindowsInstance.
type Verdict string

// The verdicts.
const (
	// Keep changes nothing: there is no instance yet, or the one there is stays.
	Keep Verdict = "Keep"
	// Want asks for an instance with one of the addresses.
	Want Verdict = "Want"
	// Leave means that the host lives and is not to be a node any more.
	Leave Verdict = "Leave"
	// Gone means that there is no host any more, or not for long.
	Gone Verdict = "Gone"
)

// Decision is a verdict and what belongs to it.
type Decision struct {
	Verdict Verdict
	// Instance is what is wanted, with the first of Addresses.
	Instance *v1alpha1.WindowsInstance
	// Addresses are all at which the host may be reached. An instance that has one of them is the right one.
	Addresses []netip.Addr
	// Fault is a kind of fault for which the Machine gets no instance; "" where there is none. Message is for the user.
	Fault, Message string
}

// The kinds of faults.
const (
	FaultAddress = "AddressInvalid"
	FaultName    = "NameInvalid"
	FaultCluster = "ClusterOther"
)

// Cluster is what a decision must know of the cluster.
type Cluster struct {
	// Namespace of the operator, where instances are.
	Namespace string
	// Name of the Cluster whose Machines count; "" for all.
	Name string
	// Platform of the cluster, for Machines that do not say theirs.
	Platform string
}

// The phases in which a Machine has a host. Both APIs name them alike.
const (
	phaseProvisioned = "Provisioned"
	phaseRunning     = "Running"
	phaseDeleting    = "Deleting"
	phaseDeleted     = "Deleted"
)

// Decide says what a Machine means. A Machine whose phase or addresses say nothing keeps the instance it has: an API that hiccups must
// not take a node away.
func Decide(m Machine, c Cluster) Decision {
	switch {
	case m.Deleting || m.Phase == phaseDeleting || m.Phase == phaseDeleted:
		return Decision{Verdict: Gone}
	case !m.Windows || m.Ignored:
		return Decision{Verdict: Leave}
	case !m.IsOf(c):
		return Decision{Verdict: Keep, Fault: FaultCluster, Message: fmt.Sprintf("spec.clusterName is %q, and the hosts of Cluster %q become nodes here "+
			"(spec.clusterAPI of WindowsConfig); remove label %s from Machines of other clusters", shorten.Text(m.ClusterName, shorten.Quoted), c.Name, api.LabelMachineOS)}
	case m.OfOtherAPI || m.Phase != phaseProvisioned && m.Phase != phaseRunning || len(m.Addresses) == 0:
		return Decision{Verdict: Keep}
	}
	on := platform.Of(cmp.Or(m.Platform, c.Platform))
	addresses := usable(m.Addresses)
	if len(addresses) == 0 {
		return Decision{Verdict: Keep, Fault: FaultAddress, Message: fmt.Sprintf(
			"status.addresses has no IPv4 address of type InternalIP that a host can be reached at (it has %s); Windows nodes need one", listed(m.Addresses))}
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

// maxComputerName is what Windows allows a computer to be called: a longer name is cut, so that two hosts may end up with the same.
const maxComputerName = 15

// hostname is the name that the host shall have: the Machine's where nobody else names the host after it, else "" for the one it has.
func hostname(machine string, on platform.Platform) (name, fault string) {
	if !on.NamesHosts {
		return "", ""
	}
	switch {
	case len(machine) > maxComputerName:
		return "", fmt.Sprintf("the name has %d characters, and on %s the host is named after its Machine: Windows allows %d; "+
			"give the MachineSet a name of at most 9, to which 6 are added", len(machine), on.Name, maxComputerName)
	case len(validation.IsDNS1123Label(machine)) > 0:
		return "", fmt.Sprintf("the name has a dot, and on %s the host is named after its Machine: allowed are lower-case letters, digits and hyphens", on.Name)
	case strings.Trim(machine, "0123456789") == "":
		return "", fmt.Sprintf("the name has digits only, and on %s the host is named after its Machine: Windows wants a letter or a hyphen in it", on.Name)
	}
	return machine, ""
}

// usable are the IPv4 addresses, each once. Hosts have others by themselves before the network has given them one (169.254.0.0/16).
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

// listed quotes some texts, the first few of them.
func listed(texts []string) string {
	const few = 5
	var quoted []string
	for _, text := range texts {
		quoted = append(quoted, fmt.Sprintf("%q", shorten.Text(text, shorten.Quoted)))
	}
	return shorten.List(quoted, few, ", ")
}
