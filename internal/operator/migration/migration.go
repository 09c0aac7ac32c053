// Package migration reports what happens to a cluster of the original operator when this operator replaces it. Read collects the cluster's state;
// Assess, without side effects, reports what blocks, changes or stays. Nothing is written.
package migration

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Level is the importance of a finding. The values are in the order of the report.
type Level string

// The levels.
const (
	// Blocks must be fixed before this operator is installed.
	Blocks Level = "Blocks"
	// Unknown could not be read.
	Unknown Level = "Unknown"
	// Changes is noticeable to users.
	Changes Level = "Changes"
	// Stays is taken over unchanged.
	Stays Level = "Stays"
	// Afterwards can be deleted after all nodes have been taken over.
	Afterwards Level = "Afterwards"
)

// Levels returns all levels in order.
func Levels() []Level { return []Level{Blocks, Unknown, Changes, Stays, Afterwards} }

// Finding is one fact about the cluster.
type Finding struct {
	Level Level
	// About names the object, for example Node win-1.
	About string
	// Message describes the effect or the action to take.
	Message string
}

// Cluster is the cluster's state.
type Cluster struct {
	// Namespace is the namespace of both operators.
	Namespace string
	// Operator is the original operator; nil if it does not run.
	Operator *Operator
	// Installed means that this operator is installed.
	Installed bool
	// Entries are the addresses in ConfigMap windows-instances. EntryFaults has the errors of invalid entries, by address.
	Entries     []string
	EntryFaults map[string]string
	// Key is the hash of the public key of Secret cloud-private-key, in the format of annotation pub-key-hash; KeyFault explains why there is none.
	Key, KeyFault string
	// Nodes are the Windows nodes.
	Nodes []Node
	// Machines are the Windows Machines that are not ignored, by namespace/name.
	Machines []string
	// KubernetesFault and NetworkFault explain why nodes cannot work with the cluster's version or pod network; empty if they can.
	KubernetesFault, NetworkFault string
	// Leftovers are objects that only the original operator uses.
	Leftovers []string
	// Unread has what could not be read, with the error.
	Unread map[string]string
}

// Operator is the Deployment of the original operator.
type Operator struct {
	// Name is namespace/name of the Deployment.
	Name string
	// Manager is the ClusterServiceVersion of OLM that created it; empty if there is none.
	Manager string
	// Environment has the variables that the user set.
	Environment map[string]string
}

// Node is a Windows node.
type Node struct {
	Name string
	// Addresses are the addresses that entries in windows-instances may contain.
	Addresses []string
	// Version and DesiredVersion are from annotations.
	Version, DesiredVersion string
	// Named is true for nodes of entries in windows-instances, false for those of Machines.
	Named bool
	// KeyHash is annotation pub-key-hash.
	KeyHash string
	// HostKey is the SSH host key that the original operator recorded, in known_hosts format without the name; empty if there is none.
	HostKey string
	Ready   bool
	// Cordoned means unschedulable. Upgrading and RebootDue are actions that the original operator is about to take.
	Cordoned, Upgrading, RebootDue bool
}

// isFromOriginal reports whether the original operator configured the node: its versions look like 10.20.1-0a1b2c3 and, if built from a modified tree,
// end with -dirty.
func (n Node) isFromOriginal() bool {
	ok, _ := regexp.MatchString(`^[0-9]+\.[0-9]+\.[0-9]+-[0-9a-f]{7}(-dirty)?$`, n.Version) // only an invalid pattern fails
	return ok
}

// Assess returns the findings on a cluster.
func Assess(c Cluster) []Finding {
	var all []Finding
	add := func(level Level, about, format string, args ...any) {
		all = append(all, Finding{Level: level, About: about, Message: fmt.Sprintf(format, args...)})
	}
	assessCluster(c, add)
	assessOperator(c, add)
	assessHosts(c, add)
	for object, reason := range c.Unread {
		add(Unknown, object, "could not be read: %s", reason)
	}
	for _, l := range c.Leftovers {
		add(Afterwards, l, "used only by the original operator: delete it when every node has a version of this operator")
	}
	slices.SortStableFunc(all, func(a, b Finding) int {
		if order := slices.Index(Levels(), a.Level) - slices.Index(Levels(), b.Level); order != 0 {
			return order
		}
		return strings.Compare(a.About, b.About)
	})
	return all
}

type addFunc func(level Level, about, format string, args ...any)

func assessCluster(c Cluster, add addFunc) {
	if c.KubernetesFault != "" {
		add(Blocks, "Kubernetes", "%s", c.KubernetesFault)
	}
	if c.NetworkFault != "" {
		add(Blocks, "Pod network", "%s", c.NetworkFault)
	}
	if c.KeyFault != "" {
		add(Blocks, "Secret "+c.Namespace+"/cloud-private-key", "%s", c.KeyFault)
	} else if c.Key != "" {
		add(Stays, "Secret "+c.Namespace+"/cloud-private-key", "this operator logs in with the same key")
	}
}

func assessOperator(c Cluster, add addFunc) {
	if c.Operator == nil {
		return
	}
	about := "Deployment " + c.Operator.Name
	remove := "delete it"
	if c.Operator.Manager != "" {
		remove = "delete the Subscription and " + c.Operator.Manager
	}
	if c.Installed {
		add(Blocks, about, "the original operator and this one must not run together: %s now", remove)
	} else {
		add(Blocks, about, "the original operator is running: %s first; nodes and pods keep running without it. Then install this operator", remove)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Operator.Environment)) {
		value := c.Operator.Environment[name]
		switch name {
		case logVariables + "FILE_SIZE":
			add(Changes, about, "%s=%s becomes spec.logs.size: %q of WindowsConfig", name, value, value)
		case logVariables + "FILE_AGE":
			add(Changes, about, "%s=%s becomes spec.logs.age: %q of WindowsConfig", name, value, value)
		case logVariables + "FLUSH_INTERVAL":
			add(Changes, about, "%s=%s has no equivalent: logs are written immediately", name, value)
		case argumentsVariable:
			add(Changes, about, "ARGS=%s: set these arguments on the operator's container; it supports --debugLogging", value)
		}
	}
}

// assessHosts adds findings on nodes, and on the entries and Machines behind them.
func assessHosts(c Cluster, add addFunc) {
	about := "ConfigMap " + c.Namespace + "/windows-instances"
	for _, address := range slices.Sorted(maps.Keys(c.EntryFaults)) {
		add(Blocks, about, "entry %s: %s", address, c.EntryFaults[address])
	}
	if len(c.Entries) > 0 {
		add(Stays, about, "its %d entries become WindowsInstances", len(c.Entries))
	}
	if len(c.Machines) > 0 {
		add(Stays, fmt.Sprintf("%d Machines", len(c.Machines)), "those with label machine.openshift.io/os-id: Windows become WindowsInstances; no Machine is replaced")
		add(Changes, "Secret windows-user-data", "gets the script of this operator, for Machines that are created later")
	}
	moved := 0
	for _, n := range c.Nodes {
		assessNode(c, n, add)
		if n.isFromOriginal() {
			moved++
		}
	}
	if moved > 0 {
		add(Changes, fmt.Sprintf("%d nodes", moved), "each is drained and joined again, within spec.rollout.maxUnavailable of WindowsConfig (1 at a time unless you set it); "+
			"what stays on hosts is listed in docs/limitations.md")
	}
}

func assessNode(c Cluster, n Node, add addFunc) {
	about := "Node " + n.Name
	switch {
	case !n.isFromOriginal() && n.Version == "":
		add(Changes, about, "the original operator has not finished configuring it: this operator joins it without a drain if it is not Ready")
		return
	case !n.isFromOriginal():
		add(Stays, about, "has version %s, which is not a version of the original operator", n.Version)
		return
	case n.Upgrading || n.DesiredVersion != "" && n.DesiredVersion != n.Version:
		add(Blocks, about, "the original operator is upgrading it: wait until annotation version is %s and label upgrading is gone", n.DesiredVersion)
	case n.RebootDue:
		add(Blocks, about, "the original operator is about to restart it: wait until annotation reboot-required is gone")
	}
	if n.Named && !slices.ContainsFunc(n.Addresses, func(a string) bool { return slices.Contains(c.Entries, a) }) {
		add(Blocks, about, "no entry of windows-instances names it (%s): add an entry, or this operator ignores the node, and nothing updates its services", strings.Join(n.Addresses, ", "))
	}
	if c.Key != "" && n.KeyHash != "" && n.KeyHash != c.Key {
		add(Blocks, about, "its SSH key differs from that of Secret cloud-private-key: install the Secret's key on the host first")
	}
	if !n.Ready {
		add(Changes, about, "not Ready: it joins again without a drain")
	}
	if n.Cordoned {
		add(Changes, about, "cordoned, and stays cordoned after the migration: this operator uncordons only nodes that it cordoned")
	}
	if n.HostKey != "" && len(n.Addresses) > 0 {
		add(Changes, about, "its recorded SSH host key is not read: for a verified first contact, add this line to key known_hosts of ConfigMap windows-known-hosts: %s %s",
			n.Addresses[0], n.HostKey)
	}
}
