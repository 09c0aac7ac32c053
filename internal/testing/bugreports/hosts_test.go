package bugreports

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/hostnetwork"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/operator/rollout"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/payload"
)

// hostReports are reports about what hosts had before they became nodes, or lost when they did.
func hostReports() []report {
	const exporter, docker = "https://github.com/prometheus-community/windows_exporter/issues/", "https://docs.docker.com/engine/install/binaries/"
	return []report{{
		link: exporter + "1092", input: "windows_exporter of its own installer", want: api.ReasonServiceConflict,
		outcome: checked(func(f *wicdapi.Facts) {
			f.Services = []wicdapi.ServiceFacts{{Name: "windows_exporter", Command: `"C:\Program Files\windows_exporter\windows_exporter.exe"`, State: "Running"}}
		}),
	}, {
		link: exporter + "243", input: "another program that listens where windows_exporter does", want: api.ReasonPortInUse,
		outcome: checked(func(f *wicdapi.Facts) {
			f.Host.Listeners = []wicdapi.Listener{{Port: 9182, Address: netip.IPv6Unspecified(), PID: 812, Program: `C:\Program Files\wmi_exporter\wmi_exporter.exe`}}
		}),
	}, {
		link: docker, input: "Docker Engine as a service", want: "joins",
		outcome: checked(func(f *wicdapi.Facts) { f.Engines = []wicdapi.ServiceFacts{{Name: "docker", State: "Running"}} }),
	}, {
		link: docker, input: "Docker Engine whose containerd has the pipe of that of nodes", want: api.ReasonContainerRuntimeConflict,
		outcome: checked(func(f *wicdapi.Facts) {
			f.Engines, f.Host.RuntimePipe = []wicdapi.ServiceFacts{{Name: "docker", State: "Running"}}, true
		}),
	}, {
		link: "https://github.com/ovn-kubernetes/ovn-kubernetes/issues/2530", input: "a static address that is gone with the first network", want: "told with the address",
		outcome: func(*testing.T) string {
			address := hostnetwork.Address{Prefix: netip.MustParsePrefix("10.0.0.7/24"), Static: true}
			before := hostnetwork.Adapter{Name: "Ethernet", Addresses: []hostnetwork.Address{address}}
			now := hostnetwork.Adapter{Name: "vEthernet (Ethernet)"}
			if lost := hostnetwork.Compare(before, now, []hostnetwork.Adapter{now}).String(); strings.Contains(lost, "10.0.0.7") {
				return "told with the address"
			}
			return "not told"
		},
	}, {
		link: "https://github.com/Azure/AKS/issues/1293", input: "a node is drained before the pods of the one before it run again, and there is no PodDisruptionBudget", want: "waits 2m0s",
		outcome: func(*testing.T) string {
			drained := metav1.NewTime(time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC))
			return fmt.Sprint("waits ", rollout.SettlesUntil(&drained, "").Sub(drained.Time))
		},
	}}
}

// checked returns the reason why a host cannot become a node.
func checked(change func(*wicdapi.Facts)) func(*testing.T) string {
	return func(*testing.T) string {
		now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
		facts := wicdapi.Facts{Host: wicdapi.HostFacts{
			Hostname: "win-1", Build: 20348, UBR: 2402, Installation: "Server Core", Architecture: "amd64", Clock: now, FreeBytes: 60 << 30,
			Interfaces: []wicdapi.Interface{{Name: "Ethernet", DefaultRoute: true, Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.7/24")}}},
		}}
		change(&facts)
		content := payload.Manifest{Files: []payload.File{{Path: "windows_exporter.exe"}}}
		if u := join.Check(facts, join.CheckInput{Now: now, Ports: desired.Ports(content)}); u != nil {
			return u.Reason
		}
		return "joins"
	}
}
