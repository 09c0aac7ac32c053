package configure_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// change changes the wanted state of a host.
type change func(r *wicdapi.JoinRequest)

// changes returns one change of each kind that a declaration allows.
func changes() map[string]change {
	command := func(service int, more string) change {
		return func(r *wicdapi.JoinRequest) { r.Desired.Services[service].Command += more }
	}
	return map[string]change{
		"nothing":                       func(*wicdapi.JoinRequest) {},
		"command of containerd":         command(0, " --log-level debug"),
		"command of the kubelet":        command(1, " --v=4"),
		"command of the exporter":       command(2, " --log.level debug"),
		"a file that the kubelet reads": func(r *wicdapi.JoinRequest) { r.Desired.Files[0].Content = `{"maxPods": 9}` },
		"a file that containerd reads":  func(r *wicdapi.JoinRequest) { r.Desired.Files[1].Content += "\n" },
		"an unused file":                func(r *wicdapi.JoinRequest) { r.Desired.Files[2].Content = "mirror" },
		"an added file": func(r *wicdapi.JoinRequest) {
			r.Desired.Files = append(r.Desired.Files, desired.File{Path: webConfig, Content: "x"})
		},
		"a removed file":         func(r *wicdapi.JoinRequest) { r.Desired.Files = r.Desired.Files[:2] },
		"a removed file in use":  func(r *wicdapi.JoinRequest) { r.Desired.Files = r.Desired.Files[1:] },
		"files in another order": func(r *wicdapi.JoinRequest) { slices.Reverse(r.Desired.Files) },
		"a secret file": func(r *wicdapi.JoinRequest) {
			r.Desired.SecretsVersion = "1"
			r.Secrets = desired.Secrets{Version: "1", Files: []desired.File{{Path: webConfig, Content: "x"}}}
		},
		"a variable that containerd reads": func(r *wicdapi.JoinRequest) {
			r.Desired.Environment, r.Desired.WatchedEnvironment = map[string]string{"NO_PROXY": "${NODE_IP}"}, []string{"NO_PROXY"}
		},
		"a secret variable": func(r *wicdapi.JoinRequest) {
			r.Desired.SecretsVersion, r.Secrets = "1", desired.Secrets{Version: "1", Environment: map[string]string{"NO_PROXY": "x"}}
		},
		"an unused variable":            func(r *wicdapi.JoinRequest) { r.Desired.Environment = map[string]string{"HTTPS_PROXY": "x"} },
		"a variable that is read now":   func(r *wicdapi.JoinRequest) { r.Desired.Services[2].Reads = []string{"NO_PROXY"} },
		"dependency":                    func(r *wicdapi.JoinRequest) { r.Desired.Services[2].DependsOn = []string{"kubelet"} },
		"dependencies in another order": func(r *wicdapi.JoinRequest) { slices.Reverse(r.Desired.Services[3].DependsOn) },
		"firewall":                      func(r *wicdapi.JoinRequest) { r.Desired.Firewall = rules() },
		"exclusions of Defender":        func(r *wicdapi.JoinRequest) { r.Desired.Exclusions = exclusionsOf(r.Desired.Digest) },
		"limits of logs":                func(r *wicdapi.JoinRequest) { r.Desired.Logs.Count = 7 },
		"where it logs": func(r *wicdapi.JoinRequest) {
			r.Desired.Services[0].Log.Path = desired.Logs + `\containerd\containerd.log`
		},
		"SSH keys":         func(r *wicdapi.JoinRequest) { r.Desired.AuthorizedKeys = []string{keyLine("new")} },
		"retired SSH keys": func(r *wicdapi.JoinRequest) { r.Desired.RetiredKeys = []string{keyLine("old")} },
		"pod network":      func(r *wicdapi.JoinRequest) { r.Desired.CNI.Content = `{"name":"other","type":"t"}` },
		"folder": func(r *wicdapi.JoinRequest) {
			r.Desired.Directories = append(r.Desired.Directories, desired.Logs+`\new`)
		},
		"operator's version": func(r *wicdapi.JoinRequest) { r.Desired.Version = "2.0.0" },
		"an added service": func(r *wicdapi.JoinRequest) {
			r.Desired.Services = append(r.Desired.Services, daemontest.Service("cloud-node-manager", desired.VersionFolder(r.Desired.Digest)+`\kubelet.exe --v=4`))
		},
		"payload": func(r *wicdapi.JoinRequest) {
			other, folder := daemontest.NewRequest(newExporterPayload("2")), desired.VersionFolder(r.Desired.Digest)
			r.Desired.Digest, r.Desired.Payload = other.Desired.Digest, other.Desired.Payload
			for i := range r.Desired.Services {
				s := &r.Desired.Services[i]
				s.Command = strings.ReplaceAll(s.Command, folder, desired.VersionFolder(other.Desired.Digest))
			}
		},
		"feature": func(r *wicdapi.JoinRequest) { r.Desired.Features = []string{"Containers"} },
	}
}

// webConfig is a file that the exporter reads.
const webConfig = `C:\k\tls\windows-exporter-webconfig.yaml`

// newExporterPayload returns a payload that includes the exporter.
func newExporterPayload(version string) *daemontest.Payload {
	c := daemontest.NewPayload(version)
	c.Add("windows_exporter.exe", []byte("the exporter"))
	return c
}

// hostRequest returns a request with more than daemontest.NewRequest's: a service without dependents, one that depends on two, and no Windows feature.
func hostRequest() wicdapi.JoinRequest {
	r := daemontest.NewRequest(newExporterPayload("1"))
	folder := desired.VersionFolder(r.Desired.Digest)
	exporter := daemontest.Service("windows_exporter", folder+`\windows_exporter.exe --web.config.file `+webConfig)
	both := daemontest.Service("csi-proxy", folder+`\kubelet.exe --v=2`, "containerd", "kubelet")
	r.Desired.Services = slices.Insert(r.Desired.Services, 2, exporter, both)
	r.Desired.Services[0].Reads = []string{"NO_PROXY"}
	r.Desired.Features = nil
	r.Desired.Files = append(r.Desired.Files, desired.File{Path: daemontest.PlainFile, Content: "mirrors"})
	return r
}

// TestDisruptionsArePredicted changes hosts, and compares what happens to their processes with the predicted disruption.
func TestDisruptionsArePredicted(t *testing.T) {
	for name, change := range changes() {
		t.Run(name, func(t *testing.T) {
			w := daemontest.NewWindows(t, sim.WindowsOptions{Features: map[string]wicdapi.FeatureState{
				"Containers": wicdapi.FeatureDisabled,
			}})
			daemontest.MustSend(t, w, newExporterPayload("1"))
			daemontest.MustSend(t, w, newExporterPayload("2"))
			old, new := hostRequest(), hostRequest()
			change(&new)
			daemontest.MustJoin(t, w, old)
			before := daemontest.PIDs(w, old)
			result := daemontest.MustJoin(t, w, new)
			var restarted []string
			if result.Rebooting == "" {
				after := daemontest.PIDs(w, old)
				for _, s := range new.Desired.Services {
					if pid := before[s.Name]; pid != 0 && pid != after[s.Name] {
						restarted = append(restarted, s.Name)
					}
				}
			}
			disruption := desired.DisruptionOf(mustFill(t, old), mustFill(t, new))
			if reboots := disruption == v1alpha1.DisruptionReboot; reboots != (result.Rebooting != "") {
				t.Errorf("the disruption is %s, and the host reboots: %q", disruption, result.Rebooting)
			}
			if restarts := disruption == v1alpha1.DisruptionRestart || disruption == v1alpha1.DisruptionDrain; restarts != (len(restarted) > 0) {
				t.Errorf("the disruption is %s, and %q restarted; it did %q", disruption, restarted, result.Changed)
			}
		})
	}
}

func mustFill(t *testing.T, r wicdapi.JoinRequest) desired.Node {
	t.Helper()
	node, err := r.Desired.On(r.Local, r.Secrets)
	if err != nil {
		t.Fatal(err)
	}
	return node
}
