package desired

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// checkContents checks files that could make programs run others, or grant access to everyone, against what is rendered.
func (n Node) checkContents() error {
	checks := map[string]func(string) error{
		containerdConfig: n.checkContainerdConfig, kubeletConfig: checkKubeletConfig, credentialProviderConfig: isExactly(ecrConfig),
		wicdKubeconfig: checkKubeconfig(WICDIdentity), nodeManagerKubeconfig: checkKubeconfig(NodeManagerIdentity), flannelNetConf: checkNetConf,
	}
	files := slices.Clone(n.Files)
	if n.Network != nil {
		files = append(files, n.Network.Files...)
		checks[proxyConfig], checks[cniConfig], checks[cniList] = checkProxyConfig, checkPlugins, checkPluginList
		if err := n.checkChain(); err != nil {
			return err
		}
	}
	if n.UserNetwork != nil && n.UserNetwork.Proxy != nil {
		files = append(files, *n.UserNetwork.Proxy)
		checks[proxyConfig] = checkProxyConfig
	}
	for _, f := range files {
		if check := checks[f.Path]; check != nil {
			if err := check(f.Content); err != nil {
				return fmt.Errorf("file %s: %w", f.Path, err)
			}
		}
	}
	return nil
}

func isExactly(want string) func(string) error {
	return func(got string) error {
		if got != want {
			return errors.New("content differs from the only allowed content")
		}
		return nil
	}
}

// checkContainerdConfig requires the rendered configuration. The resources of virtual machines, the sandbox image and
// discard_unpacked_layers may differ. Content without tables may be a part of that configuration.
func (n Node) checkContainerdConfig(content string) error {
	isPart := !strings.Contains(content, "[")
	for _, machine := range []*virtualMachine{nil, {}} {
		want := regexp.QuoteMeta(renderContainerdConfig(VersionFolder(n.Digest), machine, n.UserNetwork, ""))
		want = strings.NewReplacer(
			regexp.QuoteMeta(markSandboxImage), `[^'\n\\]*`, `VmMemorySizeInMb = 0`, `VmMemorySizeInMb = [0-9]+`, `VmProcessorCount = 0`, `VmProcessorCount = [0-9]+`,
			`discard_unpacked_layers = false`, `discard_unpacked_layers = (false|true)`,
		).Replace(want)
		if regexp.MustCompile(`^`+want+`$`).MatchString(content) || isPart && hasLines(content, want) {
			return nil
		}
	}
	return errors.New("content differs from the containerd configuration that WICD knows; only the size of virtual machines, the sandbox image and discard_unpacked_layers may differ")
}

// hasLines reports whether each line of a text matches a line of a pattern.
func hasLines(text, pattern string) bool {
	lines := strings.Split(pattern, "\n")
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimSpace(line); line != "" && !slices.ContainsFunc(lines, func(p string) bool { return matches(strings.TrimSpace(p))(line) }) {
			return false
		}
	}
	return true
}

// isOfKind reports whether a file has the field kind, in any spelling: without it, no component of Kubernetes reads the file.
func isOfKind(fields map[string]any) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(fields)), func(name string) bool { return strings.EqualFold(name, "kind") })
}

// checkKubeletConfig allows only fields that are rendered, and requires the rendered values of those that affect security.
func checkKubeletConfig(content string) error {
	fields, err := jsonObject(content)
	if err != nil {
		return err
	}
	if !isOfKind(fields) {
		return nil
	}
	allowed := map[string]bool{}
	for field := range reflect.TypeFor[kubeletConfiguration]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		allowed[name] = true
	}
	for name := range fields {
		if !allowed[name] {
			return fmt.Errorf("WICD does not know field %.64q", name)
		}
	}
	for name, want := range map[string]any{
		"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1", "staticPodPath": staticPods, "volumePluginDir": volumePlugins,
		"containerRuntimeEndpoint": runtimeEndpoint, "resolvConf": "", "rotateCertificates": true, "serverTLSBootstrap": true,
		"authentication": map[string]any{"x509": map[string]any{"clientCAFile": kubeletClientCA}, "anonymous": map[string]any{"enabled": false}},
	} {
		if !reflect.DeepEqual(fields[name], want) {
			return fmt.Errorf("field %s is %.128q; allowed: %v", name, fmt.Sprint(fields[name]), want)
		}
	}
	return nil
}

// checkKubeconfig requires that every user has the certificate and key in file identity: a kubeconfig can also make a client run a
// program.
func checkKubeconfig(identity string) func(string) error {
	return func(content string) error {
		fields, err := jsonObject(content)
		if err != nil {
			return err
		}
		users, _ := fields["users"].([]any)
		want := map[string]any{"client-certificate": identity, "client-key": identity}
		for _, item := range users {
			if user, _ := item.(map[string]any); !reflect.DeepEqual(user["user"], want) {
				return fmt.Errorf("user %.128q is not allowed; allowed: a user with certificate and key %s", fmt.Sprint(item), identity)
			}
		}
		return nil
	}
}

// checkProxyConfig requires that kube-proxy uses WICD's kubeconfig.
func checkProxyConfig(content string) error {
	fields, err := jsonObject(content)
	if err != nil {
		return err
	}
	if want := map[string]any{"kubeconfig": wicdKubeconfig}; isOfKind(fields) && !reflect.DeepEqual(fields["clientConnection"], want) {
		return fmt.Errorf("clientConnection is %.128q; allowed: %v", fmt.Sprint(fields["clientConnection"]), want)
	}
	return nil
}

// checkNetConf requires backend vxlan, the only supported one: another backend of Flannel runs commands.
func checkNetConf(content string) error {
	if _, err := jsonObject(content); err != nil {
		return err
	}
	conf, err := parseNetConf(content)
	if err != nil {
		return err
	}
	if conf.Backend.Type != "vxlan" {
		return fmt.Errorf("Backend.Type is %.64q; allowed: vxlan", conf.Backend.Type)
	}
	return nil
}

// checkPlugins requires plugin names without folders: containerd searches its plugin folders, but also accepts paths.
func checkPlugins(content string) error {
	fields, err := jsonObject(content)
	if err != nil {
		return err
	}
	return checkTypes(fields)
}

// checkPluginList requires that the last plugin of a list is that of WICD.
func checkPluginList(content string) error {
	fields, err := jsonObject(content)
	if err != nil {
		return err
	}
	plugins, _ := fields["plugins"].([]any)
	if len(plugins) < 2 || !reflect.DeepEqual(plugins[len(plugins)-1], object{"type": policyPlugin}) {
		return fmt.Errorf("it has %d plugins; allowed: those that connect pods, followed by %s without settings", len(plugins), policyPlugin)
	}
	return checkTypes(fields)
}

// checkChain requires that pods cannot start without the rules of their policies if these are enforced, and that nothing waits for WICD otherwise.
func (n Node) checkChain() error {
	for _, f := range n.Network.Files {
		if isList := f.Path == cniList; IsCNIConfig(f.Path) && isList != n.Policies.Enforces() {
			return fmt.Errorf("file %s does not match the policy mode; allowed: %s with mode %s, and %s otherwise", f.Path, cniList, PolicyEnforce, cniConfig)
		}
	}
	return nil
}

// checkNetworkPlugins checks the user's CNI configuration, filled in with sample values.
func (n Node) checkNetworkPlugins() error {
	if n.CNI == nil {
		return nil
	}
	filled, err := n.CNI.Fill("10.0.0.0/24", "10.0.0.1")
	if err != nil {
		return nil // WICD reports it when it fills in the configuration, and writes nothing
	}
	if err := checkPlugins(filled); err != nil {
		return fmt.Errorf("pod network: %w", err)
	}
	return nil
}

func checkTypes(v any) error {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			if err := checkTypes(item); err != nil {
				return err
			}
		}
	case map[string]any:
		for key, item := range v {
			if name, isText := item.(string); isText && strings.EqualFold(key, "type") && !matches(`[A-Za-z0-9][A-Za-z0-9_-]{0,63}`)(name) {
				return fmt.Errorf("plugin %.64q is not allowed; allowed: names without folders", name)
			}
			if err := checkTypes(item); err != nil {
				return err
			}
		}
	}
	return nil
}

// jsonObject parses a JSON object without duplicate fields: parsers differ in which of two they use.
func jsonObject(content string) (map[string]any, error) {
	d := json.NewDecoder(strings.NewReader(content))
	if err := checkUnique(d); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("unexpected data after the JSON object")
	}
	var fields map[string]any
	if err := json.NewDecoder(bytes.NewReader([]byte(content))).Decode(&fields); err != nil {
		return nil, fmt.Errorf("parsing JSON: %w", err)
	}
	return fields, nil
}

// checkUnique reads one value and rejects duplicate fields, ignoring case.
func checkUnique(d *json.Decoder) error {
	token, err := d.Token()
	if err != nil {
		return fmt.Errorf("parsing JSON: %w", err)
	}
	seen := map[string]bool{}
	switch token {
	case json.Delim('{'), json.Delim('['):
		for d.More() {
			if token == json.Delim('{') {
				key, err := d.Token()
				if err != nil {
					return fmt.Errorf("parsing JSON: %w", err)
				}
				name := strings.ToLower(fmt.Sprint(key))
				if seen[name] {
					return fmt.Errorf("field %.64q is set twice", name)
				}
				seen[name] = true
			}
			if err := checkUnique(d); err != nil {
				return err
			}
		}
		_, err = d.Token()
	}
	return err
}
