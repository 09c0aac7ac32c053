// Package lifecycle records when support ends for the components and platforms of Windows nodes.
package lifecycle

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
)

// Products of the table.
const (
	Kubernetes    = "Kubernetes"
	OpenShift     = "OpenShift"
	Containerd    = "containerd"
	WindowsServer = "Windows Server"
)

// Line is a release line of a product, which is supported as a whole.
type Line struct {
	Product string
	Name    string    // "1.36", or "2022"
	Ends    time.Time // last day with security fixes, at midnight UTC
	Source  string    // page that documents it
}

// Ended reports whether the last day has passed.
func (l Line) Ended(now time.Time) bool { return !now.Before(l.EndOfSupport()) }

// Lines returns the known release lines, by product and then oldest first. Those of OpenShift end with maintenance support: Extended Update
// Support, a subscription of its own for even versions, lasts for longer, and does not fix the kubelets of this operator.
func Lines() []Line {
	const (
		openShift = "https://access.redhat.com/support/policy/updates/openshift"
		runtime   = "https://github.com/containerd/containerd/blob/v2.4.2/RELEASES.md"
	)
	return []Line{
		{Kubernetes, "1.33", day(2026, time.June, 28), "https://kubernetes.io/releases/1.33/"},
		{Kubernetes, "1.34", day(2026, time.October, 27), "https://kubernetes.io/releases/1.34/"},
		{Kubernetes, "1.35", day(2027, time.February, 28), "https://kubernetes.io/releases/1.35/"},
		{Kubernetes, "1.36", day(2027, time.June, 28), "https://kubernetes.io/releases/1.36/"},
		{Kubernetes, "1.37", day(2027, time.October, 28), "https://kubernetes.io/releases/1.37/"},
		{OpenShift, "4.20", day(2027, time.April, 21), openShift},
		{OpenShift, "4.21", day(2027, time.August, 3), openShift},
		{Containerd, "2.3", day(2028, time.April, 30), runtime},
		{Containerd, "2.4", day(2027, time.May, 16), runtime},
		{WindowsServer, "2019", day(2029, time.January, 9), "https://learn.microsoft.com/lifecycle/products/windows-server-2019"},
		{WindowsServer, "2022", day(2031, time.October, 14), "https://learn.microsoft.com/lifecycle/products/windows-server-2022"},
		{WindowsServer, "2025", day(2034, time.November, 14), "https://learn.microsoft.com/lifecycle/products/windows-server-2025"},
	}
}

func day(year int, month time.Month, d int) time.Time {
	return time.Date(year, month, d, 0, 0, 0, 0, time.UTC)
}

// EndOfSupport returns the end of the last day of support.
func (l Line) EndOfSupport() time.Time { return l.Ends.AddDate(0, 0, 1) }

// Of returns a release line by its name.
func Of(product, name string) (Line, bool) {
	for _, l := range Lines() {
		if l.Product == product && l.Name == name {
			return l, true
		}
	}
	return Line{}, false
}

// OfVersion returns the release line of a version, as in "v2.3.7". A text that is no version is an error.
func OfVersion(product, text string) (line Line, known bool, err error) {
	v, err := version.ParseGeneric(text)
	if err != nil {
		return Line{}, false, err
	}
	line, known = Of(product, fmt.Sprintf("%d.%d", v.Major(), v.Minor()))
	return line, known, nil
}

// OpenShiftOf returns the version of OpenShift and OKD that is based on a minor version of Kubernetes, according to their release notes, and for 5.1
// to their plans (github.com/openshift/enhancements); empty if none is known.
func OpenShiftOf(minor string) string {
	return map[string]string{"1.33": "4.20", "1.34": "4.21", "1.35": "4.22", "1.36": "5.0", "1.37": "5.1"}[minor]
}

// OpenShiftLine returns the OpenShift line that is based on a Kubernetes line and may be supported for longer.
func OpenShiftLine(l Line) (Line, bool) {
	if l.Product != Kubernetes {
		return Line{}, false
	}
	return Of(OpenShift, OpenShiftOf(l.Name))
}
