package cluster

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// recordedStart is one recorded start of OVN-Kubernetes' cluster manager (commit 8871cd9ce, 2026-11-25): the relevant configuration, and whether it
// worked when Windows Nodes registered.
type recordedStart struct {
	Do                        string
	Cluster, Services, Hybrid string
	Join, Transit, Masquerade string
	Enabled                   bool
	Port                      string
	Works                     bool
	Message                   string
}

func recordedStarts(t *testing.T) (starts []recordedStart) {
	t.Helper()
	text, err := os.ReadFile("testdata/ovn-starts.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &starts); err != nil || len(starts) < 60 {
		t.Fatalf("%d recorded starts, error %v", len(starts), err)
	}
	return starts
}

// ovnConfig is the part of OVN-Kubernetes' configuration that the hybrid overlay depends on.
type ovnConfig struct {
	cluster, services, hybrid string
	join, transit, masquerade string
	enabled                   bool
	port                      string
}

// start returns why OVN-Kubernetes does not work with a configuration, according to the recorded starts.
func (c ovnConfig) start() error {
	port, err := strconv.ParseUint(cmp.Or(c.port, "0"), 10, 64)
	if err != nil || port > 65535 {
		return fmt.Errorf("port %s", c.port)
	}
	if !c.enabled {
		return nil
	}
	if c.hybrid == "" {
		return errors.New("panic at the first Windows Node")
	}
	var all []netip.Prefix
	families := map[string]bool{}
	for _, part := range []struct{ name, ranges string }{
		{"cluster", c.cluster}, {"services", c.services}, {"hybrid", c.hybrid},
		{"join", cmp.Or(c.join, "100.64.0.0/16")}, {"transit", cmp.Or(c.transit, "100.88.0.0/16")}, {"masquerade", cmp.Or(c.masquerade, "169.254.169.0/29")},
	} {
		for item := range strings.SplitSeq(part.ranges, ",") {
			prefix, err := rangeOf(strings.TrimSpace(item), part.name == "cluster" || part.name == "hybrid")
			if err != nil {
				return fmt.Errorf("%s: %w", part.name, err)
			}
			for _, other := range all {
				if prefix.Overlaps(other) {
					return fmt.Errorf("%s %s overlaps %s", part.name, prefix, other)
				}
			}
			all = append(all, prefix)
			families[fmt.Sprint(part.name, prefix.Addr().Is6())] = true
		}
	}
	for _, ipv6 := range []bool{false, true} {
		if families[fmt.Sprint("cluster", ipv6)] != families[fmt.Sprint("hybrid", ipv6)] {
			return errors.New("illegal network configuration")
		}
	}
	return nil
}

func rangeOf(text string, ofNodes bool) (netip.Prefix, error) {
	parts := strings.Split(text, "/")
	if len(parts) < 2 || len(parts) > 3 {
		return netip.Prefix{}, fmt.Errorf("%q is not properly formatted", text)
	}
	prefix, err := netip.ParsePrefix(parts[0] + "/" + parts[1])
	if err != nil || !ofNodes {
		return prefix.Masked(), err
	}
	length, longest := 24, 31
	if prefix.Addr().Is6() {
		length, longest = 64, 64
	}
	if len(parts) == 3 {
		if length, err = strconv.Atoi(parts[2]); err != nil {
			return netip.Prefix{}, err
		}
	}
	if length <= prefix.Bits() || length > longest {
		return netip.Prefix{}, fmt.Errorf("host subnet length %d of %s", length, prefix)
	}
	return prefix.Masked(), nil
}

// TestOVNKubernetesFakeMatchesRecording compares ovnConfig.start, on which other tests rely, with each recorded start.
func TestOVNKubernetesFakeMatchesRecording(t *testing.T) {
	for _, s := range recordedStarts(t) {
		c := ovnConfig{s.Cluster, s.Services, s.Hybrid, s.Join, s.Transit, s.Masquerade, s.Enabled, s.Port}
		if err := c.start(); (err == nil) != s.Works {
			t.Errorf("%s: got %v, recorded %q", s.Do, err, s.Message)
		}
	}
}

// networkOperatorState simulates OpenShift's network operator: its configuration, and the one that it applied last.
type networkOperatorState struct {
	ClusterNetwork []clusterEntry
	ServiceNetwork []string
	OVN            map[string]any
	Applied        map[string]any
	// Refused is why it no longer applies changes.
	Refused string
}

type clusterEntry struct {
	CIDR       string `json:"cidr"`
	HostPrefix int    `json:"hostPrefix,omitempty"`
}

// reconcile applies the configuration unless that would change an applied hybrid overlay.
func (s *networkOperatorState) reconcile() {
	before, got := s.Applied["hybridOverlayConfig"], s.OVN["hybridOverlayConfig"]
	if before != nil && got != nil && !reflect.DeepEqual(before, got) {
		s.Refused = "cannot edit a running hybrid overlay network"
		return
	}
	s.Applied, s.Refused = s.OVN, ""
}

// rendered returns the configuration that it passes to OVN-Kubernetes.
func (s *networkOperatorState) rendered() (c ovnConfig, err error) {
	var clusters []string
	for _, e := range s.ClusterNetwork {
		item := e.CIDR
		if e.HostPrefix != 0 {
			item += fmt.Sprintf("/%d", e.HostPrefix)
		}
		clusters = append(clusters, item)
	}
	c.cluster, c.services = strings.Join(clusters, ","), strings.Join(s.ServiceNetwork, ",")
	text, err := json.Marshal(s.Applied)
	if err != nil {
		return c, err
	}
	var got struct {
		V4InternalSubnet string
		IPv4             struct{ InternalJoinSubnet, InternalTransitSwitchSubnet string }
		GatewayConfig    struct {
			IPv4 struct{ InternalMasqueradeSubnet string }
		}
		HybridOverlayConfig *struct {
			HybridClusterNetwork   []struct{ CIDR string }
			HybridOverlayVXLANPort *uint32
		}
	}
	if err := json.Unmarshal(text, &got); err != nil {
		return c, err
	}
	c.join, c.transit = cmp.Or(got.IPv4.InternalJoinSubnet, got.V4InternalSubnet), got.IPv4.InternalTransitSwitchSubnet
	c.masquerade = got.GatewayConfig.IPv4.InternalMasqueradeSubnet
	if hybrid := got.HybridOverlayConfig; hybrid != nil {
		c.enabled = true
		if len(hybrid.HybridClusterNetwork) > 0 {
			c.hybrid = hybrid.HybridClusterNetwork[0].CIDR
		}
		if hybrid.HybridOverlayVXLANPort != nil {
			c.port = fmt.Sprint(*hybrid.HybridOverlayVXLANPort)
		}
	}
	return c, nil
}

// state returns the OpenShift configuration that leads to a recorded start; false if there is none.
func (s recordedStart) state() (state networkOperatorState, ok bool) {
	for item := range strings.SplitSeq(s.Cluster, ",") {
		entry := clusterEntry{CIDR: item}
		if parts := strings.SplitN(item, "/", 3); len(parts) == 3 {
			entry.CIDR = parts[0] + "/" + parts[1]
			entry.HostPrefix, _ = strconv.Atoi(parts[2])
		}
		state.ClusterNetwork = append(state.ClusterNetwork, entry)
	}
	state.ServiceNetwork = strings.Split(s.Services, ",")
	hybrid := map[string]any{}
	if s.Hybrid != "" {
		hybrid["hybridClusterNetwork"] = []any{map[string]any{"cidr": s.Hybrid, "hostPrefix": 23.0}}
	}
	if s.Port != "" {
		port, err := strconv.ParseUint(s.Port, 10, 32)
		if err != nil {
			return state, false
		}
		hybrid["hybridOverlayVXLANPort"] = float64(port)
	}
	state.OVN = map[string]any{"hybridOverlayConfig": hybrid}
	ipv4 := map[string]any{}
	if s.Join != "" {
		ipv4["internalJoinSubnet"] = s.Join
	}
	if s.Transit != "" {
		ipv4["internalTransitSwitchSubnet"] = s.Transit
	}
	state.OVN["ipv4"] = ipv4
	if s.Masquerade != "" {
		state.OVN["gatewayConfig"] = map[string]any{"ipv4": map[string]any{"internalMasqueradeSubnet": s.Masquerade}}
	}
	state.Applied = state.OVN
	return state, s.Enabled
}
