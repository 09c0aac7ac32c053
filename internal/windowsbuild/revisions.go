package windowsbuild

import "fmt"

// Update is a cumulative update of Windows that a build needs, or an equally good later one.
type Update struct {
	Build Build
	// Revision is the fourth number of the version that it installs, which Windows calls UBR: 681 in 10.0.20348.681.
	Revision int
	// KB is its number in Microsoft's knowledge base.
	KB string
	// For is what does not work without it.
	For string
	// Source says who tells so.
	Source string
	// Optional says that only pods of some kind need it: a host becomes a node without it.
	Optional bool
}

// Updates are those that are known, the oldest build first.
func Updates() []Update {
	return []Update{
		{Build: Server2019, Revision: 348, KB: "KB4482887", For: "networks of pods that are there again after a restart",
			Source: "https://github.com/ovn-kubernetes/ovn-kubernetes/pull/429"},
		{Build: Server2019, Revision: 379, KB: "KB4489899", For: "overlay networks between nodes",
			Source: "https://github.com/microsoft/SDN/issues/273"},
		{Build: Server2019, Revision: 1817, KB: "KB5000822", For: "pods with a group Managed Service Account", Optional: true,
			Source: "https://github.com/kubernetes/website/pull/29788"},
		{Build: Server2022, Revision: 681, KB: "KB5012637", For: "networks of pods",
			Source: "https://github.com/openshift/windows-machine-config-operator/blob/master/docs/wmco-prerequisites.md"},
	}
}

// Fault is a defect of Windows in a range of revisions: From and later ones, but not Before and those after it.
type Fault struct {
	Build        Build
	From, Before int
	// Since is the update that brought it; empty where the first release of the build has it. Fixed is the one that fixes it.
	Since, Fixed string
	// What does not work.
	What string
	// Source says who tells so.
	Source string
}

// Faults are those that are known, the oldest build first. None is certain to strike: a host with one becomes a node, and is told of it.
func Faults() []Fault {
	return []Fault{
		{Build: Server2022, From: 2582, Before: 2762, Since: "KB5040437", Fixed: "KB5044281",
			What:   "pods can reach neither other nodes nor what is outside of the cluster",
			Source: "https://github.com/microsoft/Windows-Containers/issues/516"},
		// The source announces a fix of overlay networks with the updates of October 2025, and names neither the update nor its revision: these
		// are those of the cumulative update of that month.
		{Build: Server2025, From: 0, Before: 6899, Fixed: "KB5066835",
			What:   "overlay networks between nodes do not work",
			Source: "https://github.com/rancher/rancher/issues/50915"},
	}
}

// Missing is the update that a host of a build and a revision must have to become a node: the one with the greatest revision. A revision of 0
// is none that Windows has: it could not be read, and says nothing.
func Missing(b Build, revision int) (missing Update, isMissing bool) {
	for _, u := range Updates() {
		if u.Build == b && !u.Optional && 0 < revision && revision < u.Revision && u.Revision > missing.Revision {
			missing, isMissing = u, true
		}
	}
	return missing, isMissing
}

// FaultOf is the defect that a build has at a revision.
func FaultOf(b Build, revision int) (Fault, bool) {
	for _, f := range Faults() {
		if f.Build == b && 0 < revision && f.From <= revision && revision < f.Before {
			return f, true
		}
	}
	return Fault{}, false
}

// install says how a host gets an update. All that count here are cumulative.
func install(kb string, revision int) string {
	return fmt.Sprintf("install %s or any later cumulative update, with which the revision is at least %d, and restart the host", kb, revision)
}

// Without says what a host of a revision does not have without the update, and how it gets it.
func (u Update) Without(revision int) string {
	return fmt.Sprintf("the host runs %s with revision %d; %s need revision %d (%s): %s",
		u.Build, revision, u.For, u.Revision, u.KB, install(u.KB, u.Revision))
}

// At says what a host of a revision suffers from, and what fixes it.
func (f Fault) At(revision int) string {
	return fmt.Sprintf("the host runs %s with revision %d, with which %s (%s): %s", f.Build, revision, f.What, f.Source, install(f.Fixed, f.Before))
}
