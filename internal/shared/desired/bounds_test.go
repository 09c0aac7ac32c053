package desired_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

// bounded returns a node as a host gets it, with everything that can be rendered.
func bounded(t *testing.T, provider v1alpha1.NetworkProvider) desired.Node {
	t.Helper()
	in := inputs()
	in.Payload, in.Config.CSIProxy = declared(), v1alpha1.CSIProxyRun
	in.Settings = settings(t)
	switch provider {
	case v1alpha1.NetworkOVNHybridOverlay:
		in.Config.Network = v1alpha1.NetworkSpec{Provider: provider}
		in.Cluster.Network = desired.ClusterNetwork{
			PodCIDRs: []string{"10.128.0.0/14"}, HybridCIDRs: []string{"10.132.0.0/14"}, VXLANPort: 9898,
		}
	case v1alpha1.NetworkFlannel:
		with := withFlannel(goodNetConf)
		in.Config.Network, in.Cluster.Network = with.Config.Network, with.Cluster.Network
	}
	in.Cluster.Network.Platform, in.Cluster.CloudProvider.External = "AWS", true
	rendered, err := desired.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	rendered.Node.AuthorizedKeys = []string{"ssh-ed25519 AAAA"}
	rendered.Node.SigningKey = desired.PublicKey(signingKey(1))
	on, err := rendered.Node.On(desired.Local{Node: "win-1.example.com", NodeIP: "10.1.2.3", Adapter: "Ethernet 2 (µ)"}, rendered.Secrets)
	if err != nil {
		t.Fatal(err)
	}
	return on
}

func TestRenderedSettingsAreWithinBounds(t *testing.T) {
	for _, provider := range []v1alpha1.NetworkProvider{v1alpha1.NetworkCustom, v1alpha1.NetworkOVNHybridOverlay, v1alpha1.NetworkFlannel} {
		node := bounded(t, provider)
		if err := node.CheckBounds(); err != nil {
			t.Errorf("%s: %v", provider, err)
		}
		if len(node.Services) < 5 || len(node.Files) < 6 {
			t.Errorf("%s: only %d services and %d files", provider, len(node.Services), len(node.Files))
		}
	}
}

// TestValuesBeyondBoundsAreRejected has declarations that an attacker who can publish for nodes might try.
func TestValuesBeyondBoundsAreRejected(t *testing.T) {
	folder := desired.VersionFolder(bounded(t, v1alpha1.NetworkCustom).Digest)
	command := func(c string) func(*desired.Node) {
		return func(n *desired.Node) { n.Services[0].Command = strings.ReplaceAll(c, "<folder>", folder) }
	}
	file := func(path string) func(*desired.Node) {
		return func(n *desired.Node) { n.Files = append(n.Files, desired.File{Path: path, Content: "x"}) }
	}
	program := func(path string) func(*desired.Node) {
		return func(n *desired.Node) { n.Payload = append(n.Payload, desired.PayloadFile{Path: path}) }
	}
	many := func(n int) []string { return slices.Repeat([]string{"x"}, n) }
	for name, change := range map[string]func(*desired.Node){
		"a shell":                            command(`cmd.exe /c calc.exe`),
		"a shell with its path":              command(`C:\Windows\System32\cmd.exe /c calc.exe`),
		"a shell, quoted":                    command(`"C:\Windows\System32\cmd.exe" /c calc.exe`),
		"no command":                         command(``),
		"a shell from above the folder":      command(`<folder>\..\..\..\Windows\System32\cmd.exe /c x.exe`),
		"a program of another version":       command(`C:\k\versions\000000000000\kubelet.exe`),
		"a script of the folder":             command(`<folder>\x.cmd`),
		"a stream":                           command(`<folder>\kubelet.exe:x.exe`),
		"a shell behind the log runner":      command(`<folder>\kube-log-runner.exe -log-file=C:\var\log\x.log cmd.exe /c calc.exe`),
		"the log runner with other flags":    command(`<folder>\kube-log-runner.exe -also-stdout <folder>\kubelet.exe`),
		"the log runner with a quoted flag":  command(`<folder>\kube-log-runner.exe -log-file=x "-x" <folder>\kubelet.exe`),
		"the log runner writes elsewhere":    command(`<folder>\kube-log-runner.exe -log-file=C:\Windows\x.log <folder>\kubelet.exe`),
		"the log runner writes our record":   command(`<folder>\kube-log-runner.exe -log-file=C:\k\state\node.json <folder>\kubelet.exe`),
		"a shell behind WICD":                command(`<folder>\windows-instance-config-daemon.exe host --windows-service --log-file C:\var\log\x.log --env NODE_NAME=x -- cmd.exe`),
		"a shell before the end of flags":    command(`<folder>\windows-instance-config-daemon.exe host --windows-service --log-file C:\var\log\x.log --env NODE_NAME=x cmd.exe -- <folder>\kubelet.exe`),
		"a shell behind WICD, quoted":        command(`<folder>\windows-instance-config-daemon.exe host "--" cmd.exe -- <folder>\kubelet.exe`),
		"WICD with another variable":         command(`<folder>\windows-instance-config-daemon.exe host --windows-service --log-file C:\var\log\x.log --env PATH=x -- <folder>\kubelet.exe`),
		"WICD with another command":          command(`<folder>\windows-instance-config-daemon.exe leave`),
		"configuration from elsewhere":       command(`<folder>\containerd\containerd.exe --config C:\Users\Public\evil.toml`),
		"the same with slashes":              command(`<folder>\containerd\containerd.exe --config C:/Users/Public/evil.toml`),
		"configuration from another host":    command(`<folder>\containerd\containerd.exe --config \\evil\share\evil.toml`),
		"the same with slashes, of a host":   command(`<folder>\containerd\containerd.exe --config=//evil/share/evil.toml`),
		"configuration from above":           command(`<folder>\containerd\containerd.exe --config C:\k\..\evil.toml`),
		"a variable in a command":            command(`<folder>\containerd\containerd.exe --config %TEMP%\evil.toml`),
		"a line end in a command":            command("<folder>\\kubelet.exe\ncalc.exe"),
		"a command without end":              command(`<folder>\kubelet.exe ` + strings.Repeat("x", 9000)),
		"a flag without end":                 command(`<folder>\kubelet.exe --windows-priorityclass ` + strings.Repeat("x", 1001)),
		"a service of Windows":               func(n *desired.Node) { n.Services[0].Name = "Spooler" },
		"a service in another case":          func(n *desired.Node) { n.Services[0].Name = "Kubelet" },
		"a service that waits for another's": func(n *desired.Node) { n.Services[0].DependsOn = []string{"WinDefend"} },
		"a service twice":                    func(n *desired.Node) { n.Services = append(n.Services, n.Services[0]) },
		"a service that waits for WICD":      func(n *desired.Node) { n.Services[0].DependsOn = []string{api.WICDService} },
		"a service that hides":               func(n *desired.Node) { n.Services[0].Description = "Windows Update" },
		"a probe of another host":            func(n *desired.Node) { n.Services[0].Ready = "http://169.254.169.254/latest/meta-data" },
		"a probe of another pipe":            func(n *desired.Node) { n.Services[0].Ready = "npipe://./pipe/lsass" },
		"a log elsewhere":                    func(n *desired.Node) { n.Services[0].Log.Path = `C:\Windows\System32\config\SAM` },
		"a variable of a service":            func(n *desired.Node) { n.Services[0].Environment = map[string]string{"GODEBUG": "x"} },
		"a need elsewhere":                   func(n *desired.Node) { n.Services[0].Needs = []string{`\\evil\share\x`} },
		"names of hosts":                     file(`C:\Windows\System32\drivers\etc\hosts`),
		"something at the next logon":        file(`C:\ProgramData\Microsoft\Windows\Start Menu\Programs\StartUp\x.cmd`),
		"SSH keys as a file":                 file(`C:\ProgramData\ssh\administrators_authorized_keys`),
		"our record":                         file(`C:\k\state\node.json`),
		"a program's name":                   file(`C:\k\kubelet.exe`),
		"content of the store":               file(desired.Store + `\` + strings.Repeat("a", 64)),
		"the kubelet's identity":             file(desired.KubeletKubeconfig),
		"WICD's identity":                    file(desired.WICDIdentity),
		"the node manager's identity":        file(desired.NodeManagerIdentity),
		"a static pod":                       file(`C:\k\etc\kubernetes\manifests\evil.yaml`),
		"a file of containerd's registries":  file(desired.Registries + `\quay.io\hosts.toml`),
		"a mirror with a scheme": func(n *desired.Node) {
			n.Registries = &mirrors.Table{Sources: []mirrors.Source{{Prefix: "quay.io", Mirrors: []mirrors.Location{{At: "http://x.test"}}}}}
		},
		"a source with line ends": func(n *desired.Node) {
			n.Registries = &mirrors.Table{Sources: []mirrors.Source{{Prefix: "quay.io\"\n[host]"}}}
		},
		"an allowed registry above the folder": func(n *desired.Node) { n.Registries = &mirrors.Table{Allowed: []string{".."}} },
		"a missing CA": func(n *desired.Node) {
			n.Registries = &mirrors.Table{Sources: []mirrors.Source{{Prefix: "quay.io", Tags: []mirrors.Location{{At: "x.test", CA: 1}}}}}
		},
		"too many sources": func(n *desired.Node) {
			n.Registries = &mirrors.Table{Sources: slices.Repeat([]mirrors.Source{{Prefix: "quay.io"}}, 20001)}
		},
		"a file of another host":  file(`\\evil\share\x`),
		"a relative file":         file(`k\kubelet.conf`),
		"a file in another case":  file(`c:\k\kubelet.conf`),
		"a pod network elsewhere": func(n *desired.Node) { n.CNI.Path = `C:\k\kubelet.conf` },
		"a network's file elsewhere": func(n *desired.Node) {
			n.Network = &desired.Network{Files: []desired.File{{Path: `C:\k\kubelet.conf`}}}
		},
		"a status file elsewhere":      func(n *desired.Node) { n.Network = &desired.Network{StatusFile: `C:\k\kubelet.conf`} },
		"a network of another service": func(n *desired.Node) { n.Network = &desired.Network{MadeBy: "Spooler", Proxy: "kube-proxy"} },
		"a folder elsewhere":           func(n *desired.Node) { n.Directories = append(n.Directories, `C:\Windows`) },
		"a folder of the operator":     func(n *desired.Node) { n.Directories = append(n.Directories, desired.State) },
		"a payload that is a record":   program(`state\node.json`),
		"a payload in the store":       program(`store\x.exe`),
		"a payload in the State":       program(`State\x.exe`),
		"a payload that is no program": program(`kubelet.conf`),
		"a payload from above":         program(`..\Windows\x.exe`),
		"another feature":              func(n *desired.Node) { n.Features = []string{"SMB1Protocol"} },
		"the path of programs":         func(n *desired.Node) { n.Environment = map[string]string{"PATH": `C:\evil`} },
		"a variable that is removed":   func(n *desired.Node) { n.WatchedEnvironment = []string{"PATH"} },
		"a variable without end":       func(n *desired.Node) { n.Environment = map[string]string{"NO_PROXY": strings.Repeat("x", 40000)} },
		"file sharing": func(n *desired.Node) {
			n.Firewall = []desired.FirewallRule{{Protocol: desired.TCP, Ports: []uint16{445}}}
		},
		"all of UDP": func(n *desired.Node) {
			n.Firewall = []desired.FirewallRule{{Protocol: desired.UDP, Ports: []uint16{53, 137}}}
		},
		"all ports of a program": func(n *desired.Node) {
			n.Firewall = []desired.FirewallRule{{Protocol: desired.TCP, Program: `C:\k\kubelet.exe`}}
		},
		"all ports": func(n *desired.Node) { n.Firewall = []desired.FirewallRule{{Protocol: desired.TCP}} },
		"a program of Windows": func(n *desired.Node) {
			n.Firewall = []desired.FirewallRule{{Protocol: desired.TCP, Ports: []uint16{22}, Program: `C:\Windows\System32\svchost.exe`}}
		},
		"another protocol":            func(n *desired.Node) { n.Firewall = []desired.FirewallRule{{Protocol: "ICMP"}} },
		"a source that is no range":   func(n *desired.Node) { n.Firewall[0].From = []string{"LocalSubnet,0.0.0.0/0"} },
		"sources without end":         func(n *desired.Node) { n.Firewall[0].From = slices.Repeat([]string{"10.0.0.0/8"}, 81) },
		"all of a drive unscanned":    func(n *desired.Node) { n.Exclusions.Paths = []string{`C:\`} },
		"a folder of users unscanned": func(n *desired.Node) { n.Exclusions.Paths = []string{desired.KubeletData} },
		"any containerd unscanned":    func(n *desired.Node) { n.Exclusions.Processes = []string{`containerd.exe`} },
		"a shell unscanned":           func(n *desired.Node) { n.Exclusions.Processes = []string{`C:\Windows\System32\cmd.exe`} },
		"exclusions without end":      func(n *desired.Node) { n.Exclusions.Paths = slices.Repeat([]string{desired.ContainerdRoot}, 33) },
		"a route for everything":      func(n *desired.Node) { n.Routes = []desired.Route{{To: "0.0.0.0/0"}} },
		"policies that are off":       func(n *desired.Node) { n.Policies = &desired.Policies{Mode: "Off"} },
		"policies without a mode":     func(n *desired.Node) { n.Policies = &desired.Policies{} },
		"unknown policy of updates":   func(n *desired.Node) { n.WindowsUpdates = "Install" },
		"class of updates": func(n *desired.Node) {
			n.UpdatesToInstall = &windowsupdate.Selection{Classes: []windowsupdate.Class{"other"}}
		},
		"article of an update": func(n *desired.Node) { n.UpdatesToInstall = &windowsupdate.Selection{Blocked: []string{"KB1; x"}} },
		"article of a goal":    func(n *desired.Node) { n.UpdateGoal.Of.Approved = []string{"1"} },
		"many blocked updates": func(n *desired.Node) {
			n.UpdatesToInstall = &windowsupdate.Selection{Blocked: slices.Repeat([]string{"KB5068787"}, 129)}
		},
		"an invalid key":           func(n *desired.Node) { n.SigningKey = "x" },
		"SSH keys without end":     func(n *desired.Node) { n.AuthorizedKeys = many(1001) },
		"retired keys without end": func(n *desired.Node) { n.RetiredKeys = many(1001) },
		"services without end":     func(n *desired.Node) { n.Services = slices.Repeat(n.Services[:1], 33) },
		"files without end":        func(n *desired.Node) { n.Files = slices.Repeat(n.Files[:1], 4097) },
		"content without end":      func(n *desired.Node) { n.Files[0].Content = strings.Repeat("x", 3<<20) },
		"certificates without end": func(n *desired.Node) { n.Certificates = strings.Repeat("x", 3<<20) },
		"folders without end":      func(n *desired.Node) { n.Directories = slices.Repeat(n.Directories[:1], 33) },
		"programs without end":     func(n *desired.Node) { n.Payload = slices.Repeat(n.Payload[:1], 513) },
		"rules without end":        func(n *desired.Node) { n.Firewall = slices.Repeat(n.Firewall[:1], 33) },
		"routes without end":       func(n *desired.Node) { n.Routes = slices.Repeat([]desired.Route{{To: "169.254.169.254/32"}}, 33) },
	} {
		node := bounded(t, v1alpha1.NetworkCustom)
		change(&node)
		if err := node.CheckBounds(); err == nil {
			t.Errorf("%s is accepted", name)
		} else if len(err.Error()) > 1000 {
			t.Errorf("%s: the error has %d characters", name, len(err.Error()))
		}
	}
}

// FuzzBounds: an accepted declaration runs only programs of the version's folder, and writes only files that nodes have.
func FuzzBounds(f *testing.F) {
	digest := strings.Repeat("a", 64)
	folder := desired.VersionFolder(digest)
	f.Add(`{"digest":"`+digest+`"}`, `[{"name":"kubelet","description":"`+desired.ServiceDescription("kubelet")+`","command":"C:\\k\\versions\\aaaaaaaaaaaa\\kubelet.exe"}]`,
		`[{"path":"C:\\k\\containerd\\registries\\quay.io\\hosts.toml"}]`, `{"NO_PROXY":"b"}`)
	f.Add(`{"digest":"`+digest+`"}`, `[{"name":"kubelet","command":"C:\\k\\versions\\aaaaaaaaaaaa\\kube-log-runner.exe -log-file=C:\\var\\log\\x cmd.exe"}]`,
		`[{"path":"C:\\k\\..\\Windows\\x"}]`, `{"PATH":"b"}`)
	f.Fuzz(func(t *testing.T, node, services, files, environment string) {
		read, err := desired.FromData(map[string]string{"node": node, "services": services, "files": files, "environmentVars": environment, "watchedEnvironmentVars": "[]"})
		if err != nil || read.Digest != digest {
			return
		}
		on, err := read.On(desired.Local{Node: "win-1", NodeIP: "10.1.2.3", Adapter: "Ethernet"}, desired.Secrets{})
		if err != nil || on.CheckBounds() != nil {
			return
		}
		for _, s := range on.Services {
			program, _, _ := strings.Cut(s.Command, " ")
			if !strings.HasPrefix(program, folder+`\`) || !strings.HasSuffix(program, ".exe") || strings.Contains(program, `..`) {
				t.Errorf("service %q runs %q", s.Name, s.Command)
			}
			if !slices.Contains(desired.Services(), s.Name) {
				t.Errorf("service %q is accepted", s.Name)
			}
		}
		for _, file := range on.Files {
			isOurs := strings.HasPrefix(file.Path, `C:\k\`) || file.Path == mirrors.KubeletConfig
			if !isOurs || strings.Contains(file.Path, `..`) || strings.HasPrefix(file.Path, desired.State) || strings.HasPrefix(file.Path, desired.Store) || strings.HasSuffix(file.Path, ".exe") && !strings.HasPrefix(file.Path, desired.Registries) {
				t.Errorf("file %q is accepted", file.Path)
			}
		}
		for name := range on.Environment {
			if !strings.HasSuffix(name, "_PROXY") {
				t.Errorf("variable %q is accepted", name)
			}
		}
	})
}
