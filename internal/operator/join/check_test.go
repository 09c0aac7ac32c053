package join_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/payload"
)

func noon() time.Time { return time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC) }

// goodHost returns the facts of a supported host.
func goodHost() wicdapi.Facts {
	return wicdapi.Facts{
		Program: strings.Repeat("a", 64),
		Host: wicdapi.HostFacts{
			Hostname: "WIN-1", Build: 20348, UBR: 2402, Product: "Windows Server 2022 Datacenter", Installation: "Server Core",
			Architecture: "amd64", BootID: "7", Clock: noon(), FreeBytes: 60 << 30,
			Interfaces: []wicdapi.Interface{
				{Name: "Backup", Addresses: addresses("192.168.7.2/24")},
				{Name: "Ethernet", Addresses: addresses("fe80::1/64", "169.254.3.4/16", "10.0.0.7/24"), DefaultRoute: true},
			},
		},
	}
}

func pattern(text string) func(*join.CheckInput) {
	return func(s *join.CheckInput) { s.NamePattern = text }
}

// TestCheck has a case for each reason for which a host is rejected, with the facts that the message must name.
func TestCheck(t *testing.T) {
	tests := map[string]struct {
		facts  func(*wicdapi.Facts)
		around func(*join.CheckInput)
		reason string
		parts  []string
	}{
		"a supported host":                 {},
		"Windows Server 2019":              {facts: func(f *wicdapi.Facts) { f.Host.Build = 17763 }},
		"Windows Server 2025":              {facts: func(f *wicdapi.Facts) { f.Host.Build = 26100 }},
		"the desktop installation":         {facts: func(f *wicdapi.Facts) { f.Host.Installation = "Server" }},
		"clock off by two minutes":         {facts: func(f *wicdapi.Facts) { f.Host.Clock = noon().Add(-2 * time.Minute) }},
		"exactly 5 GB free":                {facts: func(f *wicdapi.Facts) { f.Host.FreeBytes = 5 << 30 }},
		"existing service of the operator": {facts: service("kubelet", true)},
		"a full disk after a join":         {facts: func(f *wicdapi.Facts) { f.Host.FreeBytes = 1; f.Joined = &wicdapi.Joined{} }},
		"Windows Server, version 2004": {facts: func(f *wicdapi.Facts) { f.Host.Build = 19041 }, reason: api.ReasonBuildUnsupported,
			parts: []string{"version 2004 (build 19041)", "Microsoft ended support", "install Windows Server 2022 or later"}},
		"Windows Server, version 20H2": {facts: func(f *wicdapi.Facts) { f.Host.Build = 19042 }, reason: api.ReasonBuildUnsupported,
			parts: []string{"version 20H2 (build 19042)", "Microsoft ended support", "install Windows Server 2022 or later"}},
		"Windows 10 of that build": {facts: func(f *wicdapi.Facts) { f.Host.Build, f.Host.Installation = 19042, "Client" }, reason: api.ReasonBuildUnsupported,
			parts: []string{"build 19042; supported builds are"}},
		"another build": {facts: func(f *wicdapi.Facts) { f.Host.Build = 18363 }, reason: api.ReasonBuildUnsupported,
			parts: []string{"18363", "17763 (Windows Server 2019)", "20348 (Windows Server 2022)", "26100 (Windows Server 2025)"}},
		"Windows on another drive": {facts: func(f *wicdapi.Facts) { f.Host.SystemDrive = "D:" }, reason: api.ReasonDriveUnsupported,
			parts: []string{`"D:"`, "must be on C:", "install Windows on C:"}},
		"Windows on drive c:": {facts: func(f *wicdapi.Facts) { f.Host.SystemDrive = "c:" }},
		"initial release of Windows Server 2022": {facts: version(20348, 587), reason: api.ReasonWindowsUpdateNeeded,
			parts: []string{"10.0.20348 (Windows Server 2022) with revision 587", "revision 681 (KB5012637)", "any later cumulative update"}},
		"initial release of Windows Server 2019": {facts: version(17763, 107), reason: api.ReasonWindowsUpdateNeeded,
			parts: []string{"with revision 107", "revision 379 (KB4489899)"}},
		"oldest supported revision":        {facts: version(20348, 681)},
		"revision with a known fault":      {facts: version(20348, 2582)},
		"Windows Server 2025 with a fault": {facts: version(26100, 1742)},
		"unreadable revision":              {facts: version(20348, 0)},
		"an old revision of a node": {facts: func(f *wicdapi.Facts) {
			version(20348, 587)(f)
			f.Joined = &wicdapi.Joined{}
		}},
		"an old revision of a node of the original operator": {facts: func(f *wicdapi.Facts) {
			version(20348, 587)(f)
			service("kubelet", true)(f)
		}},
		"an ARM machine": {facts: func(f *wicdapi.Facts) { f.Host.Architecture = "arm64" }, reason: api.ReasonArchitectureUnsupported,
			parts: []string{"arm64", "amd64"}},
		"Windows 11": {facts: func(f *wicdapi.Facts) { f.Host.Installation = "Client"; f.Host.Product = "Windows 11 Pro" }, reason: api.ReasonEditionUnsupported,
			parts: []string{"Windows 11 Pro", "Client"}},
		"Nano Server":       {facts: func(f *wicdapi.Facts) { f.Host.Installation = "Nano Server" }, reason: api.ReasonEditionUnsupported, parts: []string{"Nano Server"}},
		"custom VXLAN port": {around: port(9898)},
		"standard VXLAN port on Windows Server 2019": {facts: build(17763), around: port(4789)},
		"no VXLAN port on Windows Server 2019":       {facts: build(17763), around: port(0)},
		"custom VXLAN port on Windows Server 2019": {facts: build(17763), around: port(9898), reason: api.ReasonVXLANPortUnsupported,
			parts: []string{"UDP port 9898", "17763 (Windows Server 2019)", "4789"}},
		"an underscore":    {facts: hostname("win_1"), reason: api.ReasonHostnameInvalid, parts: []string{`"win_1"`, "RFC 1123"}}, // https://github.com/rancher/rke2/issues/7978
		"a Kelvin sign":    {facts: hostname("WIN-\u212a"), reason: api.ReasonHostnameInvalid, parts: []string{"WIN-\u212a", "RFC 1123"}},
		"a Turkish letter": {facts: hostname("W\u0130N-1"), reason: api.ReasonHostnameInvalid, parts: []string{"W\u0130N-1"}},
		"64 characters":    {facts: hostname(strings.Repeat("a", 64)), reason: api.ReasonHostnameInvalid},
		"a dot":            {facts: hostname("win.example"), reason: api.ReasonHostnameInvalid},
		"localhost":        {facts: hostname("LOCALHOST"), reason: api.ReasonHostnameInvalid, parts: []string{"LOCALHOST"}},
		"no name":          {facts: hostname(""), reason: api.ReasonHostnameInvalid},
		"a cloned machine": {around: func(s *join.CheckInput) { s.NameTakenBy = "WindowsInstance ns/10.0.0.8" }, reason: api.ReasonHostnameConflict, parts: []string{"win-1", "ns/10.0.0.8"}},
		"disallowed name":  {around: pattern("windows-[0-9]+"), reason: api.ReasonHostnameInvalid, parts: []string{`"win-1"`, "spec.hosts.namePattern", "windows-[0-9]+"}},
		"a part of a name": {around: pattern("win"), reason: api.ReasonHostnameInvalid},
		"allowed name":     {around: pattern("web-[0-9]+|win-[0-9]+")},
		"invalid pattern":  {around: pattern("win-1)|(.*"), reason: api.ReasonHostnameInvalid, parts: []string{"RE2"}},
		"no default route": {facts: func(f *wicdapi.Facts) { f.Host.Interfaces = f.Host.Interfaces[:1] }, reason: api.ReasonAddressMissing},
		"a foreign containerd": {facts: service("containerd", false), reason: api.ReasonServiceConflict, // https://github.com/prometheus-community/windows_exporter/issues/1092
			parts: []string{`"containerd"`, `C:\Program Files\x.exe`}},
		"Docker without containerd's pipe": {facts: docker}, // https://docs.docker.com/engine/install/binaries/
		"a containerd of Docker": {facts: func(f *wicdapi.Facts) { docker(f); f.Host.RuntimePipe = true }, reason: api.ReasonContainerRuntimeConflict,
			parts: []string{`\\.\pipe\containerd-containerd`, "docker (Running)", "remove that container runtime"}},
		"a containerd without a service": {facts: func(f *wicdapi.Facts) { f.Host.RuntimePipe = true }, reason: api.ReasonContainerRuntimeConflict},
		"containerd of the operator":     {facts: func(f *wicdapi.Facts) { service("containerd", true)(f); docker(f); f.Host.RuntimePipe = true }},
		"unreadable pipe":                {facts: unread(wicdapi.FactRuntimePipe)},
		"another exporter": {facts: listens(9182, "0.0.0.0", `C:\Program Files\windows_exporter\windows_exporter.exe`), reason: api.ReasonPortInUse, // https://github.com/prometheus-community/windows_exporter/issues/243
			parts: []string{`C:\Program Files\windows_exporter\windows_exporter.exe (process 812) at 0.0.0.0:9182, the port of windows_exporter`, "change its port"}},
		"an exporter at all addresses of both families": {facts: listens(9182, "::", `C:\x.exe`), reason: api.ReasonPortInUse},
		"HTTP server of Windows at the kubelet's port": {facts: func(f *wicdapi.Facts) {
			f.Host.Listeners = []wicdapi.Listener{{Port: 10250, Address: netip.IPv6Unspecified(), PID: 4}}
		}, reason: api.ReasonPortInUse, parts: []string{"Windows itself (process 4) at [::]:10250", "kubelet"}},
		"a program without a name":                         {facts: listens(10256, "10.0.0.7", ""), reason: api.ReasonPortInUse, parts: []string{"an unknown program (process 812)"}},
		"a server on loopback at the health port":          {facts: listens(10248, "127.0.0.1", `C:\x.exe`), reason: api.ReasonPortInUse},
		"a server on loopback only":                        {facts: listens(10250, "127.0.0.1", `C:\x.exe`)},
		"another address at the port of a loopback server": {facts: listens(10280, "10.0.0.7", `C:\x.exe`)},
		"another port":                                     {facts: listens(8080, "0.0.0.0", `C:\x.exe`)},
		"a port of UDP":                                    {facts: func(f *wicdapi.Facts) { listens(10250, "0.0.0.0", `C:\x.exe`)(f); f.Host.Listeners[0].UDP = true }},
		"running kubelet of the operator":                  {facts: listens(10250, "0.0.0.0", `c:\K\kubelet.exe`)},
		"pod of a joined node at the port":                 {facts: func(f *wicdapi.Facts) { listens(9182, "::", `C:\hpc\x.exe`)(f); f.Joined = &wicdapi.Joined{} }},
		"unreadable listeners":                             {facts: unread(wicdapi.FactListeners)},
		"a full disk":                                      {facts: func(f *wicdapi.Facts) { f.Host.FreeBytes = 5<<30 - 1 }, reason: api.ReasonDiskTooSmall, parts: []string{"5.0 GB free", "at least 5 GB"}},
		"clock ahead":                                      {facts: func(f *wicdapi.Facts) { f.Host.Clock = noon().Add(121 * time.Second) }, reason: api.ReasonClockSkewed, parts: []string{"2m1s ahead of", "2m0s"}},
		"clock behind":                                     {facts: func(f *wicdapi.Facts) { f.Host.Clock = noon().Add(-time.Hour) }, reason: api.ReasonClockSkewed, parts: []string{"1h0m0s behind"}},
		"most important fault first":                       {facts: func(f *wicdapi.Facts) { f.Host.Build = 1; f.Host.FreeBytes = 0 }, reason: api.ReasonBuildUnsupported},
		"a foreign kubelet joins":                          {facts: func(f *wicdapi.Facts) { service("kubelet", false)(f); f.Joined = &wicdapi.Joined{} }, reason: api.ReasonServiceConflict},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			facts, around := goodHost(), join.CheckInput{Now: noon(), Ports: desired.Ports(payload.Manifest{Files: []payload.File{{Path: "windows_exporter.exe"}}})}
			if test.facts != nil {
				test.facts(&facts)
			}
			if test.around != nil {
				test.around(&around)
			}
			got := join.Check(facts, around)
			if got == nil {
				got = &join.Unsupported{}
			}
			if got.Reason != test.reason {
				t.Fatalf("reason %q (%s), want %q", got.Reason, got.Message, test.reason)
			}
			for _, part := range test.parts {
				if !strings.Contains(got.Message, part) {
					t.Errorf("message %q does not contain %q", got.Message, part)
				}
			}
		})
	}
}

func build(n int) func(*wicdapi.Facts) { return func(f *wicdapi.Facts) { f.Host.Build = n } }

func version(build, revision int) func(*wicdapi.Facts) {
	return func(f *wicdapi.Facts) { f.Host.Build, f.Host.UBR = build, revision }
}

func port(n uint16) func(*join.CheckInput) {
	return func(s *join.CheckInput) { s.VXLANPort = n }
}

func hostname(name string) func(*wicdapi.Facts) {
	return func(f *wicdapi.Facts) { f.Host.Hostname = name }
}

// docker adds a running Docker service.
func docker(f *wicdapi.Facts) {
	f.Engines = []wicdapi.ServiceFacts{{Name: "docker", Command: `"C:\Program Files\Docker\dockerd.exe" --run-service`, State: "Running"}}
}

// listens adds a program that listens on a port.
func listens(port uint16, at, program string) func(*wicdapi.Facts) {
	return func(f *wicdapi.Facts) {
		f.Host.Listeners = []wicdapi.Listener{{Port: port, Address: netip.MustParseAddr(at), PID: 812, Program: program}}
	}
}

// unread marks a fact that Windows did not report.
func unread(name string) func(*wicdapi.Facts) {
	return func(f *wicdapi.Facts) { f.Host.Unread = map[string]string{name: "access is denied"} }
}

func service(name string, ours bool) func(*wicdapi.Facts) {
	return func(f *wicdapi.Facts) {
		f.Services = []wicdapi.ServiceFacts{{Name: name, Command: `C:\Program Files\x.exe`, Ours: ours}}
	}
}
