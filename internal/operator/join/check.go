package join

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

// Limits for hosts.
const (
	// MinFreeBytes is the space needed on drive C: two payloads, the pause image and logs.
	MinFreeBytes = 5 << 30
	// MaxClockSkew is the limit beyond which certificates issued by the cluster look expired or not yet valid on the host.
	MaxClockSkew = 2 * time.Minute
)

// CheckInput is the input of Check in addition to the host's facts.
type CheckInput struct {
	// Now is the time at which the facts arrived.
	Now time.Time
	// NameTakenBy names the instance or node that already has this host's name; empty if there is none.
	NameTakenBy string
	// NamePattern is the regular expression that the host's name must match; empty allows any name.
	NamePattern string
	// VXLANPort is the UDP port of the cluster's overlay; 0 means the standard VXLAN port.
	VXLANPort uint16
	// Interface selects one of the host's interfaces; nil selects the one with the default route.
	Interface *v1alpha1.InstanceNetwork
	// Ports are the ports that the node's services need.
	Ports []desired.Port
}

// Unsupported explains why a host cannot become a node.
type Unsupported struct {
	// Reason is one of the reasons of condition Supported.
	Reason  string
	Message string
}

// Error implements error.
func (u *Unsupported) Error() string { return u.Message }

// Check returns nil if the host can become a node, and otherwise the first finding.
func Check(f wicdapi.Facts, s CheckInput) *Unsupported {
	checks := []func(wicdapi.Facts, CheckInput) *Unsupported{
		checkArchitecture,
		checkDrive,
		checkBuild,
		checkRevision,
		checkVXLANPort,
		checkEdition,
		checkHostname,
		checkNamePattern,
		checkNameFree,
		checkAddress,
		checkTrunk,
		checkAdapter,
		checkServices,
		checkRuntime,
		checkPorts,
		checkDisk,
		checkClock,
	}
	for _, check := range checks {
		if u := check(f, s); u != nil {
			return u
		}
	}
	return nil
}

func checkArchitecture(f wicdapi.Facts, _ CheckInput) *Unsupported {
	if f.Host.Architecture == "amd64" {
		return nil
	}
	return unsupported(api.ReasonArchitectureUnsupported,
		"the host's processor is %q; only x64 (amd64) is supported", f.Host.Architecture)
}

// checkDrive rejects a Windows that is not on drive C:, where the folders of containerd, OpenSSH and the operator are expected.
func checkDrive(f wicdapi.Facts, _ CheckInput) *Unsupported {
	if drive := f.Host.SystemDrive; drive != "" && !strings.EqualFold(drive, "C:") {
		return unsupported(api.ReasonDriveUnsupported,
			"Windows is on drive %q of the host; it must be on C:, where the operator and OpenSSH keep their files: install Windows on C:", drive)
	}
	return nil
}

func checkBuild(f wicdapi.Facts, _ CheckInput) *Unsupported {
	if _, known := windowsbuild.ReleaseOf(windowsbuild.Build(f.Host.Build)); known {
		return nil
	}
	if ended := endedBuilds()[f.Host.Build]; ended != "" && checkEdition(f, CheckInput{}) == nil {
		return unsupported(api.ReasonBuildUnsupported, "the host runs Windows Server, version %s (build %d), for which Microsoft ended support: "+
			"install Windows Server 2022 or later", ended, f.Host.Build)
	}
	var names []string
	for _, r := range windowsbuild.Releases() {
		names = append(names, fmt.Sprintf("%d (%s)", r.Build, r.Name))
	}
	return unsupported(api.ReasonBuildUnsupported,
		"the host runs Windows build %d; supported builds are %s", f.Host.Build, strings.Join(names, ", "))
}

// endedBuilds maps the builds of the Semi-Annual Channel that older OpenShift and OKD documents name to their versions. Microsoft ended support for
// 2004 on 14 December 2021 and for 20H2 on 9 August 2022 (Windows Server release information); Windows Server 2022 is their successor.
func endedBuilds() map[int]string { return map[int]string{19041: "2004", 19042: "20H2"} }

// checkRevision rejects hosts on which the pod network cannot work. An existing node stays: its WICD reports the missing update, as it reports all
// revisions with known bugs.
func checkRevision(f wicdapi.Facts, _ CheckInput) *Unsupported {
	missing, isMissing := windowsbuild.Missing(windowsbuild.Build(f.Host.Build), f.Host.UBR)
	if !isMissing || isNode(f) {
		return nil
	}
	return unsupported(api.ReasonWindowsUpdateNeeded, "%s", missing.Without(f.Host.UBR))
}

// isNode reports whether the host is, or was about to become, a node of this operator or of the original one. After an interrupted join, only the
// services show it.
func isNode(f wicdapi.Facts) bool {
	return f.Joined != nil || slices.ContainsFunc(f.Services, func(s wicdapi.ServiceFacts) bool { return s.Ours })
}

// checkVXLANPort rejects Windows Server 2019 if the overlay does not use the standard VXLAN port, the only one that its overlays support.
func checkVXLANPort(f wicdapi.Facts, s CheckInput) *Unsupported {
	if windowsbuild.Build(f.Host.Build) != windowsbuild.Server2019 || s.VXLANPort == 0 || s.VXLANPort == desired.VXLANPort {
		return nil
	}
	return unsupported(api.ReasonVXLANPortUnsupported,
		"the cluster's overlay uses UDP port %d, and Windows build %d (Windows Server 2019) supports only port %d: use a host with a later Windows Server, "+
			"or set the overlay's port to %d (not on vSphere)", s.VXLANPort, f.Host.Build, desired.VXLANPort, desired.VXLANPort)
}

func checkEdition(f wicdapi.Facts, _ CheckInput) *Unsupported {
	if slices.Contains([]string{"Server", "Server Core"}, f.Host.Installation) {
		return nil
	}
	return unsupported(api.ReasonEditionUnsupported,
		"the host runs %q with installation type %q; it must be Server or Server Core", f.Host.Product, f.Host.Installation)
}

func checkNameFree(f wicdapi.Facts, s CheckInput) *Unsupported {
	if s.NameTakenBy == "" {
		return nil
	}
	return unsupported(api.ReasonHostnameConflict,
		"the host's name %q is already used by %s; rename one of them (a clone keeps the name of its original)", NodeName(f), s.NameTakenBy)
}

func checkServices(f wicdapi.Facts, _ CheckInput) *Unsupported {
	for _, s := range f.Services {
		if !s.Ours {
			return unsupported(api.ReasonServiceConflict,
				"service %q on the host does not belong to the operator (command %s); remove it, because the operator installs its own", s.Name, s.Command)
		}
	}
	return nil
}

func checkDisk(f wicdapi.Facts, _ CheckInput) *Unsupported {
	if f.Joined != nil || f.Host.FreeBytes >= MinFreeBytes {
		return nil // a host that has joined already has its content
	}
	return unsupported(api.ReasonDiskTooSmall,
		"drive C: of the host has %.1f GB free; at least %d GB are required", float64(f.Host.FreeBytes)/(1<<30), MinFreeBytes>>30)
}

func checkClock(f wicdapi.Facts, s CheckInput) *Unsupported {
	skew := f.Host.Clock.Sub(s.Now).Round(time.Second)
	if skew.Abs() <= MaxClockSkew {
		return nil
	}
	direction := "ahead of"
	if skew < 0 {
		direction = "behind"
	}
	return unsupported(api.ReasonClockSkewed,
		"the host's clock is %s %s the operator's (%s UTC there); at most %s is allowed, because certificates would otherwise look expired or not yet valid: set up time synchronization",
		skew.Abs(), direction, f.Host.Clock.UTC().Format(time.DateTime), MaxClockSkew)
}

func unsupported(reason, format string, args ...any) *Unsupported {
	return &Unsupported{Reason: reason, Message: truncate.Text(fmt.Sprintf(format, args...), truncate.Reported)}
}
