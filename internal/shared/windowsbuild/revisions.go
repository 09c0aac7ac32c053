package windowsbuild

import (
	"fmt"
	"slices"
)

// Update is a cumulative Windows update that a build needs, or any later one.
type Update struct {
	Build Build
	// Revision is the revision that it installs, the fourth number of the version, which Windows calls UBR: 681 in 10.0.20348.681.
	Revision int
	// KB is its number in Microsoft's Knowledge Base.
	KB string
	// For is the feature that does not work without it.
	For string
	// Source documents this.
	Source string
	// Optional is set if only some pods need it: a host can become a node without it.
	Optional bool
}

// Updates returns the known updates, oldest build first.
func Updates() []Update {
	return []Update{
		{Build: Server2019, Revision: 348, KB: "KB4482887", For: "pod networks that persist across restarts",
			Source: "https://github.com/ovn-kubernetes/ovn-kubernetes/pull/429"},
		{Build: Server2019, Revision: 379, KB: "KB4489899", For: "overlay networks between nodes",
			Source: "https://github.com/microsoft/SDN/issues/273"},
		{Build: Server2019, Revision: 1817, KB: "KB5000822", For: "pods with a group Managed Service Account", Optional: true,
			Source: "https://github.com/kubernetes/website/pull/29788"},
		{Build: Server2022, Revision: 681, KB: "KB5012637", For: "networks of pods",
			Source: "https://github.com/openshift/windows-machine-config-operator/blob/master/docs/wmco-prerequisites.md"},
	}
}

// Fault is a defect of Windows in the revisions from From up to, but not including, Before.
type Fault struct {
	Build        Build
	From, Before int
	// Updates are the updates that introduce it, and those after them that do not fix it. They are not installed.
	Updates []string
	// Since is the update that introduced it; empty if the first release of the build has it. Fixed is the update that fixes it.
	Since, Fixed string
	// What describes the defect.
	What string
	// Source documents this.
	Source string
}

// Faults returns the known defects, oldest build first. None affects every host: a host with one still becomes a node, with a warning.
func Faults() []Fault {
	return []Fault{
		// The source names neither articles nor revisions but the releases, the third of August and the second of September 2020. The revisions are
		// those of Microsoft's list of releases, and the fix that of the week that the source announces.
		{Build: Server2019, From: 1432, Before: 1554, Since: "KB4571748", Fixed: "KB4580390",
			Updates: []string{"KB4571748", "KB4570333", "KB4577069", "KB4577668"},
			What:    "pods may not reach Services after the Host Network Service or the host was restarted",
			Source:  "https://github.com/microsoft/Windows-Containers/issues/61"},
		{Build: Server2019, From: 2452, Before: 2458, Since: "KB5009557", Fixed: "KB5010791", Updates: []string{"KB5009557"},
			What:   "virtual machines of Hyper-V, and with them pods with Hyper-V isolation, may not start",
			Source: "https://getskout.com/cybersecurity-threat-advisory-0005-22-microsoft-releases-emergency-updates-to-address-issues-with-january-2022-windows-server-patches/"},
		{Build: Server2022, From: 2582, Before: 2762, Since: "KB5040437", Fixed: "KB5044281",
			Updates: []string{"KB5040437", "KB5041160", "KB5042880", "KB5042881"}, // by Microsoft's list of releases
			What:    "pods can reach neither other nodes nor addresses outside the cluster",
			Source:  "https://github.com/microsoft/Windows-Containers/issues/516"},
		// The source announces a fix of overlay networks in the updates of October 2025 but names neither the update nor its revision. These are
		// those of the cumulative update of that month.
		{Build: Server2025, From: 0, Before: 6899, Fixed: "KB5066835",
			What:   "overlay networks between nodes do not work",
			Source: "https://github.com/rancher/rancher/issues/50915"},
	}
}

// DefectiveUpdates returns the updates that install a known defect, sorted.
func DefectiveUpdates() (kbs []string) {
	for _, f := range Faults() {
		kbs = append(kbs, f.Updates...)
	}
	slices.Sort(kbs)
	return slices.Compact(kbs)
}

// DefectOf returns the known defect that an update installs.
func DefectOf(kb string) (Fault, bool) {
	for _, f := range Faults() {
		if slices.Contains(f.Updates, kb) {
			return f, true
		}
	}
	return Fault{}, false
}

// Missing returns the update that a host needs to become a node, if any: the one with the highest revision. A revision of 0 means that it could not
// be read, so nothing is missing.
func Missing(b Build, revision int) (missing Update, isMissing bool) {
	for _, u := range Updates() {
		if u.Build == b && !u.Optional && 0 < revision && revision < u.Revision && u.Revision > missing.Revision {
			missing, isMissing = u, true
		}
	}
	return missing, isMissing
}

// FaultOf returns the defect of a build at a revision.
func FaultOf(b Build, revision int) (Fault, bool) {
	for _, f := range Faults() {
		if f.Build == b && 0 < revision && f.From <= revision && revision < f.Before {
			return f, true
		}
	}
	return Fault{}, false
}

// install returns how to install an update. All updates here are cumulative.
func install(kb string, revision int) string {
	return fmt.Sprintf("install %s or any later cumulative update, with which the revision is at least %d, and restart the host", kb, revision)
}

// Without describes what does not work on a host at a revision without the update, and how to install it.
func (u Update) Without(revision int) string {
	return fmt.Sprintf("the host runs %s with revision %d; %s need revision %d (%s): %s",
		u.Build, revision, u.For, u.Revision, u.KB, install(u.KB, u.Revision))
}

// At describes the defect on a host at a revision, and how to fix it.
func (f Fault) At(revision int) string {
	return fmt.Sprintf("the host runs %s with revision %d, with which %s (%s): %s", f.Build, revision, f.What, f.Source, install(f.Fixed, f.Before))
}
