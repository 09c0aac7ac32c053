package ovn

import (
	"bufio"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
)

// Config is the part of the cluster manager's configuration that affects the annotations of Nodes.
type Config struct {
	// Cluster are the ranges for Linux nodes, Hybrid those for Windows nodes.
	Cluster, Hybrid []Range
	// HybridOverlay is whether the hybrid overlay is on, regardless of its ranges.
	HybridOverlay bool
	// NoHostSubnet selects the nodes that OVN does not manage. If nil, it selects none.
	NoHostSubnet labels.Selector
	// Transit are the ranges of the transit switch, one per address family.
	Transit []netip.Prefix
}

// ExitError is the exit code and the error message of the cluster manager.
type ExitError struct {
	Code int
	Text string
}

func (e *ExitError) Error() string { return fmt.Sprintf("exit code %d: %s", e.Code, e.Text) }

// configError returns the error with which the cluster manager rejects its configuration.
func configError(format string, args ...any) error {
	return &ExitError{Code: 1, Text: fmt.Sprintf(format, args...)}
}

// Defaults of the cluster manager that affect the hybrid overlay.
const (
	defaultCluster     = "10.128.0.0/14/23"
	defaultServices    = "172.16.1.0/24"
	defaultJoin4       = "100.64.0.0/16"
	defaultJoin6       = "fd98::/64"
	defaultMasquerade4 = "169.254.169.0/29"
	defaultMasquerade6 = "fd69::/125"
	defaultTransit4    = "100.88.0.0/16"
	defaultTransit6    = "fd97::/64"
)

// settings are the values of ovnkube.conf by section and key, as in "hybridoverlay.enabled".
type settings map[string]string

func (s settings) getOr(key, value string) string {
	if set, ok := s[key]; ok {
		return set
	}
	return value
}

// flagKeys maps flags to their keys in settings.
func flagKeys() map[string]string {
	return map[string]string{
		"--cluster-subnets": "default.cluster-subnets", "--k8s-service-cidrs": "kubernetes.service-cidrs",
		"--no-hostsubnet-nodes": "kubernetes.no-hostsubnet-nodes", "--enable-hybrid-overlay": "hybridoverlay.enabled",
		"--hybrid-overlay-cluster-subnets": "hybridoverlay.cluster-subnets", "--hybrid-overlay-vxlan-port": "hybridoverlay.hybrid-overlay-vxlan-port",
	}
}

func readSettings(conf string, flags []string) settings {
	s, section := settings{}, ""
	for lines := bufio.NewScanner(strings.NewReader(conf)); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if name, ok := strings.CutPrefix(line, "["); ok {
			section = strings.TrimSuffix(name, "]")
			continue
		}
		if key, value, ok := strings.Cut(line, "="); ok {
			s[section+"."+strings.TrimSpace(key)] = strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	for i, flag := range flags {
		key, known := flagKeys()[flag]
		switch {
		case !known:
		case flag == "--enable-hybrid-overlay":
			s[key] = "true"
		case i+1 < len(flags):
			s[key] = flags[i+1]
		}
	}
	return s
}

// ParseConfig parses the content of ovnkube.conf and flags, which take precedence. The error has the exit code and the values
// of the cluster manager's error, but not its wording.
func ParseConfig(conf string, flags ...string) (c Config, err error) {
	s := readSettings(conf, flags)
	if err := checkPort(s.getOr("hybridoverlay.hybrid-overlay-vxlan-port", "4789")); err != nil {
		return Config{}, err
	}
	if c.Cluster, err = parseRanges("cluster", s.getOr("default.cluster-subnets", defaultCluster)); err != nil {
		return Config{}, err
	}
	c.HybridOverlay = s["hybridoverlay.enabled"] == "true"
	if text := s["hybridoverlay.cluster-subnets"]; c.HybridOverlay && text != "" {
		if c.Hybrid, err = parseRanges("hybrid", text); err != nil {
			return Config{}, err
		}
	}
	if text := s["kubernetes.no-hostsubnet-nodes"]; text != "" {
		if c.NoHostSubnet, err = labels.Parse(text); err != nil {
			return Config{}, configError("no-hostsubnet-nodes %q is not a label selector", text)
		}
	}
	used, err := c.networks(s)
	if err != nil {
		return Config{}, err
	}
	return c, c.checkNetworks(used)
}

func checkPort(text string) error {
	port, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return configError("the VXLAN port %q is not a number", text)
	}
	if port > 65535 {
		return configError("the VXLAN port is larger than 65535")
	}
	return nil
}

// usedNetwork is a range with its purpose.
type usedNetwork struct {
	purpose string
	prefix  netip.Prefix
}

// networks returns all ranges of the configuration, in the order in which the cluster manager compares them.
func (c *Config) networks(s settings) (all []usedNetwork, err error) {
	add := func(purpose string, texts ...string) []netip.Prefix {
		var prefixes []netip.Prefix
		for _, text := range texts {
			p, parseErr := netip.ParsePrefix(strings.TrimSpace(text))
			if parseErr != nil {
				err = configError("the %s %q is not a range", purpose, text)
			}
			prefixes = append(prefixes, p.Masked())
			all = append(all, usedNetwork{purpose, p.Masked()})
		}
		return prefixes
	}
	add("join network", s.getOr("gateway.v4-join-subnet", defaultJoin4), s.getOr("gateway.v6-join-subnet", defaultJoin6))
	for _, r := range c.Cluster {
		all = append(all, usedNetwork{clusterNetwork, r.Prefix})
	}
	add(serviceNetwork, strings.Split(s.getOr("kubernetes.service-cidrs", defaultServices), ",")...)
	add("masquerade network", s.getOr("gateway.v4-masquerade-subnet", defaultMasquerade4), s.getOr("gateway.v6-masquerade-subnet", defaultMasquerade6))
	for _, r := range c.Hybrid {
		all = append(all, usedNetwork{hybridNetwork, r.Prefix})
	}
	c.Transit = add("transit network", s.getOr("clustermanager.v4-transit-subnet", defaultTransit4), s.getOr("clustermanager.v6-transit-subnet", defaultTransit6))
	return all, err
}

// Purposes of networks whose address families must be the same.
const (
	clusterNetwork = "cluster network"
	serviceNetwork = "service network"
	hybridNetwork  = "hybrid network"
)

// checkNetworks returns an error if networks overlap, or if their address families differ.
func (c *Config) checkNetworks(used []usedNetwork) error {
	for i, later := range used {
		for _, earlier := range used[:i] {
			if later.prefix.Overlaps(earlier.prefix) {
				return configError("the %s %s overlaps the %s %s", later.purpose, later.prefix, earlier.purpose, earlier.prefix)
			}
		}
	}
	families := map[string][]string{}
	for _, n := range used {
		family := "IPv6"
		if n.prefix.Addr().Is4() {
			family = "IPv4"
		}
		if !slices.Contains(families[n.purpose], family) {
			families[n.purpose] = append(families[n.purpose], family)
		}
	}
	familiesOf := func(purpose string) string {
		return strings.Join(slices.Sorted(slices.Values(families[purpose])), " and ")
	}
	for _, purpose := range []string{serviceNetwork, hybridNetwork} {
		if len(families[purpose]) > 0 && familiesOf(purpose) != familiesOf(clusterNetwork) {
			return configError("the cluster network has %s, the %s has %s", familiesOf(clusterNetwork), purpose, familiesOf(purpose))
		}
	}
	return nil
}
