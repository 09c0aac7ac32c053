package desired

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
)

// Bounds of a declaration. A host rejects a declaration beyond them even if it is signed, so that neither a bug nor a stolen key lets a
// Node's declaration write arbitrary files or run arbitrary programs.
const (
	maxServices = 32
	maxFiles    = 4096
	maxContent  = 2 << 20 // bytes of all files together
	maxPayload  = 512
	maxKeys     = 1000 // SSH keys, and retired ones
	maxRules    = 32   // firewall rules, routes, exclusions of Defender
	maxSources  = 80   // of a firewall rule: those of the user, and of load balancers
	maxCommand  = 8 << 10
	maxVariable = 32767 // limit of Windows (SetEnvironmentVariable)
)

// CheckBounds returns an error if a declaration, with or without its placeholders filled in, has something that no node may have.
func (n Node) CheckBounds() error {
	for _, check := range []func() error{n.checkCounts, n.checkServices, n.checkPaths, n.checkContents, n.checkNetworkPlugins, n.checkPayload, n.checkRegistries, n.checkExclusions, n.checkPolicies, n.checkUpdates, n.checkImages, n.checkOtherFields} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (n Node) checkCounts() error {
	content := len(n.Certificates)
	for _, f := range n.Files {
		content += len(f.Content)
	}
	for _, c := range []struct {
		what         string
		count, limit int
	}{
		{"services", len(n.Services), maxServices}, {"files", len(n.Files), maxFiles},
		{"folders", len(n.Directories), maxServices}, {"payload files", len(n.Payload), maxPayload},
		{"SSH keys", len(n.AuthorizedKeys), maxKeys}, {"retired SSH keys", len(n.RetiredKeys), maxKeys},
		{"firewall rules", len(n.Firewall), maxRules}, {"routes", len(n.Routes), maxRules},
		{"Defender exclusions", len(n.Exclusions.Processes) + len(n.Exclusions.Paths), maxRules},
	} {
		if c.count > c.limit {
			return fmt.Errorf("%d %s are declared; at most %d are allowed", c.count, c.what, c.limit)
		}
	}
	if content > maxContent {
		return fmt.Errorf("%w: files and certificates have %d bytes; at most %d are allowed", ErrTooLarge, content, maxContent)
	}
	return nil
}

func (n Node) checkServices() error {
	for i, s := range n.Services {
		if slices.Contains(NamesOf(n.Services[:i]), s.Name) {
			return fmt.Errorf("service %.64q is declared twice", s.Name)
		}
		if err := n.checkService(s); err != nil {
			return fmt.Errorf("service %.64q: %w", s.Name, err)
		}
	}
	return nil
}

func (n Node) checkService(s Service) error {
	for _, name := range append([]string{s.Name}, s.DependsOn...) {
		if !slices.Contains(Services(), name) {
			return fmt.Errorf("%.64q is not a service of a node; allowed: %s", name, strings.Join(Services(), ", "))
		}
	}
	if slices.Contains(s.DependsOn, api.WICDService) {
		return fmt.Errorf("it depends on %s, which must be able to stop without it", api.WICDService)
	}
	if s.Description != ServiceDescription(s.Name) {
		return fmt.Errorf("description is %.64q, want %q", s.Description, ServiceDescription(s.Name))
	}
	if s.Ready != "" && s.Ready != runtimeEndpoint && !isLocalProbe(s.Ready) {
		return fmt.Errorf("readiness probe is %.64q; allowed: %s and http://127.0.0.1:<port>/<path>", s.Ready, runtimeEndpoint)
	}
	if s.Log.Path != "" && !isBelow(Logs, s.Log.Path) {
		return fmt.Errorf("log file is %.128q; allowed: files below %s", s.Log.Path, Logs)
	}
	for _, need := range s.Needs {
		if !isBelow(Root, need) && !isBelow(KubeletData, need) {
			return fmt.Errorf("required file is %.128q; allowed: files below %s and %s", need, Root, KubeletData)
		}
	}
	if err := checkVariables(slices.Collect(maps.Keys(s.Environment)), s.Environment); err != nil {
		return err
	}
	return n.checkCommand(s.Command)
}

// checkPaths requires that all files and folders are among those that Render declares.
func (n Node) checkPaths() error {
	files := []string{
		kubeletConfig, kubeletClientCA, containerdConfig, exporterConfig, wicdKubeconfig, clusterCA, flannelNetConf, mirrors.KubeletConfig,
		credentialProviderConfig, nodeManagerKubeconfig,
	}
	for _, f := range n.Files {
		if !slices.Contains(files, f.Path) {
			return fmt.Errorf("file %.128q is not allowed; allowed: %s", f.Path, strings.Join(files, ", "))
		}
	}
	networks := append(CNIConfigs(), proxyConfig)
	var paths []string
	if n.CNI != nil {
		paths = append(paths, n.CNI.Path)
	}
	if n.Network != nil {
		for _, f := range n.Network.Files {
			paths = append(paths, f.Path)
		}
		if f := n.Network.StatusFile; f != "" && f != overlayStatus {
			return fmt.Errorf("status file of the network is %.128q; allowed: %s", f, overlayStatus)
		}
	}
	if n.UserNetwork != nil && n.UserNetwork.Proxy != nil {
		paths = append(paths, n.UserNetwork.Proxy.Path)
	}
	for _, path := range paths {
		if !slices.Contains(networks, path) {
			return fmt.Errorf("network file %.128q is not allowed; allowed: %s", path, strings.Join(networks, ", "))
		}
	}
	for _, folder := range n.UserNetwork.Folders() {
		if err := checkUserFolder(folder); err != nil {
			return fmt.Errorf("network: %w", err)
		}
	}
	folders := []string{Metrics, Registries, CNIFolder, staticPods, KubeletCertificates, WICDCertificates}
	for _, path := range n.Directories {
		if !slices.Contains(folders, path) && !isBelow(Logs, path) {
			return fmt.Errorf("folder %.128q is not allowed; allowed: %s and folders below %s", path, strings.Join(folders, ", "), Logs)
		}
	}
	return nil
}

// checkRegistries applies the bounds of package mirrors.
func (n Node) checkRegistries() error {
	if n.Registries == nil {
		return nil
	}
	if err := n.Registries.Check(); err != nil {
		return fmt.Errorf("registry mirrors: %w", err)
	}
	return nil
}

// checkPayload requires programs, outside the folders below C:\k that have other purposes.
func (n Node) checkPayload() error {
	reservedFolders := []string{Store, Versions, State, Metrics, WICDCertificates}
	for _, f := range n.Payload {
		path := Root + `\` + f.Path
		reserved := slices.ContainsFunc(reservedFolders, func(folder string) bool { return strings.HasPrefix(strings.ToLower(path), strings.ToLower(folder)+`\`) })
		if !isBelow(Root, path) || !strings.HasSuffix(path, ".exe") || reserved {
			return fmt.Errorf("payload file %.128q is not allowed; allowed: programs such as kubelet.exe and cni\\host-local.exe", f.Path)
		}
	}
	return nil
}

// checkOtherFields checks all other fields against what Render can produce.
func (n Node) checkOtherFields() error {
	for _, feature := range n.Features {
		if feature != ContainersFeature && feature != HyperVFeature {
			return fmt.Errorf("Windows feature %.64q is not allowed; allowed: %s and %s", feature, ContainersFeature, HyperVFeature)
		}
	}
	if err := checkVariables(append(slices.Collect(maps.Keys(n.Environment)), n.WatchedEnvironment...), n.Environment); err != nil {
		return err
	}
	for _, r := range n.Firewall {
		if proxy := VersionFolder(n.Digest) + `\` + proxyProgram; !r.isAllowed(proxy) {
			return fmt.Errorf("a firewall rule opens %s ports %v for program %.128q; allowed: TCP %v for any program, TCP for %s, and one UDP port", r.Protocol, r.Ports, r.Program, tcpPorts(), proxy)
		}
	}
	for _, r := range n.Firewall {
		if len(r.From) > maxSources || slices.ContainsFunc(r.From, func(from string) bool { _, err := netip.ParsePrefix(from); return err != nil }) {
			return fmt.Errorf("a firewall rule opens ports %v for %d sources, %.64q first; at most %d address ranges are allowed", r.Ports, len(r.From), r.From[0], maxSources)
		}
	}
	for _, r := range n.Routes {
		if r.To != metadataRange {
			return fmt.Errorf("route to %.64q is not allowed; allowed: %s", r.To, metadataRange)
		}
	}
	if n.Network != nil {
		for _, name := range []string{n.Network.MadeBy, n.Network.Proxy} {
			if !slices.Contains(Services(), name) {
				return fmt.Errorf("the network names service %.64q; allowed: %s", name, strings.Join(Services(), ", "))
			}
		}
	}
	if n.TaintValue != "" && n.TaintValue != api.TaintValueLowerCase {
		return fmt.Errorf("taint value is %.64q; allowed: %s and %s", n.TaintValue, api.TaintValue, api.TaintValueLowerCase)
	}
	if n.SandboxImage != "" {
		if err := CheckImage(n.SandboxImage); err != nil {
			return fmt.Errorf("sandbox image: %w", err)
		}
	}
	if n.SigningKey != "" {
		if _, err := parseKey(n.SigningKey); err != nil {
			return fmt.Errorf("signing key: %w", err)
		}
	}
	return nil
}

// isAllowed reports whether firewall can produce the rule.
func (r FirewallRule) isAllowed(proxy string) bool {
	switch {
	case r.Program != "":
		return r.Protocol == TCP && r.Program == proxy && len(r.Ports) == 0
	case r.Protocol == UDP:
		return len(r.Ports) == 1
	}
	return r.Protocol == TCP && len(r.Ports) > 0 && !slices.ContainsFunc(r.Ports, func(p uint16) bool { return !slices.Contains(tcpPorts(), p) })
}

func checkVariables(names []string, values map[string]string) error {
	for _, name := range names {
		if !slices.Contains(proxyVariables(), name) {
			return fmt.Errorf("environment variable %.64q is not allowed; allowed: %s", name, strings.Join(proxyVariables(), ", "))
		}
		if len(values[name]) > maxVariable {
			return fmt.Errorf("environment variable %s has %d characters; at most %d are allowed", name, len(values[name]), maxVariable)
		}
	}
	return nil
}
