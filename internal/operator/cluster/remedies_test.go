package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// stateFile is the environment variable that names the file of a networkOperatorState; if it is set, the test program acts as oc or sleep.
const stateFile = "NETWORK_OPERATOR_STATE"

func TestMain(m *testing.M) {
	if file := os.Getenv(stateFile); file != "" {
		if err := actAs(filepath.Base(os.Args[0]), os.Args[1:], file); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// actAs acts as oc, or as sleep, during which the network operator reconciles.
func actAs(program string, args []string, file string) error {
	var s networkOperatorState
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return err
	}
	switch line := strings.Join(args, " "); {
	case program == "sleep":
		s.reconcile()
	case len(args) == 6 && strings.HasPrefix(line, "patch networks.operator.openshift.io cluster --type=merge -p "):
		if err := s.patch(args[5]); err != nil {
			return err
		}
	case line == "-n openshift-network-operator get configmap applied-cluster -o jsonpath={.data.applied}":
		applied, err := json.Marshal(map[string]any{"defaultNetwork": map[string]any{"ovnKubernetesConfig": s.Applied}})
		if err != nil {
			return err
		}
		_, err = os.Stdout.Write(applied)
		return err
	default:
		return fmt.Errorf("the fake %s does not implement %q", program, args)
	}
	text, err = json.Marshal(s)
	return errors.Join(err, os.WriteFile(file, text, 0o600))
}

// patch applies a merge patch of Network.operator.
func (s *networkOperatorState) patch(text string) error {
	var patch struct {
		Spec struct {
			DefaultNetwork struct{ OVNKubernetesConfig map[string]any }
		}
	}
	err := json.Unmarshal([]byte(text), &patch)
	s.OVN = merged(s.OVN, patch.Spec.DefaultNetwork.OVNKubernetesConfig)
	return err
}

// merged is a JSON merge patch (RFC 7396).
func merged(got, patch map[string]any) map[string]any {
	result := map[string]any{}
	for k, v := range got {
		result[k] = v
	}
	for k, v := range patch {
		next, isObject := v.(map[string]any)
		before, _ := result[k].(map[string]any)
		switch {
		case v == nil:
			delete(result, k)
		case isObject:
			result[k] = merged(before, next)
		default:
			result[k] = v
		}
	}
	return result
}

// run executes commands with the fake programs, then lets the network operator reconcile once more.
func (s *networkOperatorState) run(t *testing.T, commands string) {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"oc", "sleep"} {
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "state.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "sh", "-ec", commands)
	command.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), stateFile+"="+file)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", commands, err, out)
	}
	if text, err = os.ReadFile(file); err != nil {
		t.Fatal(err)
	}
	*s = networkOperatorState{}
	if err := json.Unmarshal(text, s); err != nil {
		t.Fatal(err)
	}
	s.reconcile()
}

// check returns the operator's finding on such a cluster.
func (s *networkOperatorState) check(t *testing.T, platform string) error {
	t.Helper()
	entries, services := []any{}, []any{}
	in := desired.Inputs{Config: v1alpha1.WindowsConfigSpec{}}
	for _, e := range s.ClusterNetwork {
		entries = append(entries, map[string]any{"cidr": e.CIDR, "hostPrefix": int64(e.HostPrefix)})
	}
	for _, service := range s.ServiceNetwork {
		services = append(services, service)
		if p, err := netip.ParsePrefix(service); err == nil && p.Addr().Is4() {
			in.Cluster.ServiceCIDRs = []string{service}
		}
	}
	status := map[string]any{"networkType": "OVNKubernetes", "clusterNetwork": entries, "serviceNetwork": services}
	config, operator := openshift(openshiftConfig, "Network", "cluster", "{}"), openshift(openshiftOperator, "Network", "cluster", "{}")
	text, err := json.Marshal(map[string]any{"spec": map[string]any{"defaultNetwork": map[string]any{"ovnKubernetesConfig": s.OVN}}})
	if err == nil {
		var spec unstructured.Unstructured
		err = spec.UnmarshalJSON([]byte(strings.Replace(string(text), "{", `{"apiVersion":"v1","kind":"x",`, 1)))
		operator.Object["spec"] = spec.Object["spec"]
	}
	if err != nil {
		t.Fatal(err)
	}
	config.Object["status"] = status
	if in.Cluster.Network, err = readNetwork(t.Context(), reader(onPlatform(platform), config, operator), in.Config.Network); err != nil {
		return err
	}
	return desired.CheckNetwork(in)
}

// TestInvalidOVNConfigIsRefusedWithRemedy checks each recorded start with the equivalent OpenShift configuration. A configuration
// that does not work must be rejected before a host joins, and the commands in the message must lead to one that OpenShift applies and with which
// OVN-Kubernetes starts.
func TestInvalidOVNConfigIsRefusedWithRemedy(t *testing.T) {
	stricter := map[string]string{
		"hybrid range 10.132.0.0/24/30":             "no address for pods",
		"hybrid range 10.132.0.0/24/31":             "no address for pods",
		"hybrid range 10.132.0.0/14, 10.160.0.0/16": "Linux nodes reach the first range only",
		"IPv6 cluster, IPv6 hybrid range":           "Windows' overlays carry IPv4",
	}
	withoutRemedy := []string{api.ReasonHybridOverlayDualStack, api.ReasonClusterNetworkIPv6Only}
	reported := 0
	for _, start := range recordedStarts(t) {
		state, ok := start.state()
		if !ok {
			continue
		}
		reported++
		t.Run(start.Do, func(t *testing.T) {
			err := state.check(t, "AWS")
			if works := start.Works && stricter[start.Do] == ""; works || err == nil {
				if !works || err != nil {
					t.Errorf("got %v, recorded %q", err, start.Message)
				}
				return
			}
			refused := (*desired.NetworkError)(nil)
			if !errors.As(err, &refused) {
				t.Fatalf("got %v", err)
			}
			_, commands, found := strings.Cut(refused.Message, "oc patch")
			switch {
			case slices.Contains(withoutRemedy, refused.Reason):
				if found {
					t.Errorf("no hybrid overlay works there, and the message has a command: %v", err)
				}
			case !found && strings.Contains(stricter[start.Do], "address"): // the remedy depends on the user's intention
			default:
				state.verify(t, "AWS", "oc patch"+commands)
			}
		})
	}
	if reported < 50 {
		t.Errorf("only %d starts were recorded", reported)
	}
}

// verify executes commands, and expects a working hybrid overlay.
func (s *networkOperatorState) verify(t *testing.T, platform, commands string) {
	t.Helper()
	s.run(t, commands)
	config, err := s.rendered()
	if err = errors.Join(err, config.start()); err != nil || !config.enabled || s.Refused != "" {
		t.Errorf("after %s: network operator %q, OVN-Kubernetes %v with %+v", commands, s.Refused, err, config)
	}
	if err := s.check(t, platform); err != nil {
		t.Errorf("after %s: %v", commands, err)
	}
}

// TestRemediesWork executes the commands of messages that no recorded start triggers.
func TestRemediesWork(t *testing.T) {
	hybrid := func(text string) map[string]any {
		var config map[string]any
		if err := json.Unmarshal([]byte(text), &config); err != nil {
			t.Fatal(err)
		}
		return map[string]any{"hybridOverlayConfig": config}
	}
	pods := []clusterEntry{{"10.128.0.0/14", 23}}
	for name, test := range map[string]struct {
		platform string
		state    networkOperatorState
		want     string
	}{
		"no hybrid overlay":            {"AWS", networkOperatorState{ClusterNetwork: pods, OVN: map[string]any{"mtu": 1400.0}}, "10.132.0.0/14"},
		"no hybrid overlay on vSphere": {"VSphere", networkOperatorState{ClusterNetwork: pods}, "10.132.0.0/14"},
		"the port of vSphere":          {"VSphere", networkOperatorState{ClusterNetwork: pods, OVN: hybrid(`{"hybridClusterNetwork":[{"cidr":"10.160.0.0/16"}]}`)}, "10.160.0.0/16"},
		"two faults":                   {"VSphere", networkOperatorState{ClusterNetwork: pods, OVN: hybrid(`{"hybridClusterNetwork":[{"cidr":"x"}],"hybridOverlayVXLANPort":70000}`)}, "10.132.0.0/14"},
		"class E":                      {"AWS", networkOperatorState{ClusterNetwork: pods, OVN: hybrid(`{"hybridClusterNetwork":[{"cidr":"241.0.0.0/16"}]}`)}, "10.132.0.0/14"},
		"default ranges in use":        {"AWS", networkOperatorState{ClusterNetwork: []clusterEntry{{"10.128.0.0/9", 23}, {"10.0.0.0/14", 23}, {"172.16.0.0/12", 23}}}, "10.4.0.0/14"},
		"almost all ranges in use":     {"AWS", networkOperatorState{ClusterNetwork: []clusterEntry{{"10.0.0.0/8", 23}, {"172.16.0.0/12", 23}, {"192.168.0.0/17", 23}}}, "192.168.128.0/17"},
	} {
		t.Run(name, func(t *testing.T) {
			s := test.state
			s.ServiceNetwork, s.Applied = []string{"198.18.0.0/16"}, s.OVN
			err := s.check(t, test.platform)
			if err == nil {
				t.Fatal("not refused")
			}
			_, commands, _ := strings.Cut(err.Error(), "oc patch")
			s.verify(t, test.platform, "oc patch"+commands)
			if config, _ := s.rendered(); config.hybrid != test.want {
				t.Errorf("the range is %s, want %s", config.hybrid, test.want)
			}
		})
	}
}

// TestOVNKubernetesFakeRejectsEarlyChange proves that the tests above depend on the wait.
func TestOVNKubernetesFakeRejectsEarlyChange(t *testing.T) {
	s := networkOperatorState{OVN: map[string]any{"hybridOverlayConfig": map[string]any{"hybridOverlayVXLANPort": 9898.0}}}
	s.Applied = s.OVN
	patch := `oc patch networks.operator.openshift.io cluster --type=merge -p '{"spec":{"defaultNetwork":{"ovnKubernetesConfig":{"hybridOverlayConfig":%s}}}}'`
	s.run(t, fmt.Sprintf(patch, "null")+" && "+fmt.Sprintf(patch, `{"hybridOverlayVXLANPort":9899}`))
	if s.Refused != "cannot edit a running hybrid overlay network" {
		t.Errorf("the network operator reports %q", s.Refused)
	}
}

// TestDocumentedCommandsWork executes the OpenShift commands of docs/network.md one after the other, as an administrator would.
func TestDocumentedCommandsWork(t *testing.T) {
	text, err := os.ReadFile("../../../docs/network.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## OpenShift and OKD\n")
	section, _, _ = strings.Cut(section, "\n## ")
	s := networkOperatorState{ClusterNetwork: []clusterEntry{{"10.128.0.0/14", 23}}, ServiceNetwork: []string{"172.30.0.0/16"}}
	blocks := strings.Split(section, "```console\n")[1:]
	for _, block := range blocks {
		commands, _, _ := strings.Cut(block, "```")
		s.verify(t, "AWS", commands)
	}
	if config, err := s.rendered(); err != nil || config.hybrid != "10.136.0.0/14" || len(blocks) != 2 {
		t.Errorf("after %d blocks, OVN-Kubernetes gets %+v (%v)", len(blocks), config, err)
	}
}
