package desired

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/payload"
)

// checkCommand requires a program of the version's folder, possibly started through another such program, with known flags and permitted
// values. Windows accepts many spellings of a path (\x, /x, C:x, ..\x, \\host\x, \\?\x), so paths must be exactly those that are rendered.
func (n Node) checkCommand(command string) error {
	if len(command) > maxCommand || strings.ContainsAny(command, "\x00\r\n\t%") {
		return fmt.Errorf("command %.128q has %d characters; at most %d are allowed, without tabs, line breaks and %%", command, len(command), maxCommand)
	}
	arguments, err := splitCommand(command)
	if err != nil {
		return err
	}
	folder := VersionFolder(n.Digest)
	for {
		if len(arguments) == 0 || !isProgram(folder, arguments[0]) {
			return fmt.Errorf("command runs %.128q; allowed: programs below %s", strings.Join(arguments, " "), folder)
		}
		program := strings.TrimPrefix(arguments[0], folder+`\`)
		rest, err := n.checkFlags(program, arguments[1:])
		if err != nil {
			return fmt.Errorf("%s: %w", program, err)
		}
		if len(rest) == 0 {
			if program == logRunnerProgram {
				return fmt.Errorf("%s runs no program", program)
			}
			return nil
		}
		if runsAnother := program == logRunnerProgram || program == payload.WICD && arguments[1] == "host"; !runsAnother {
			return fmt.Errorf("%s has the argument %.128q, which is not one of its flags", program, rest[0])
		}
		arguments = rest
	}
}

var (
	quotedCommand = regexp.MustCompile(`^(?:[^ "]+|"[^"\\]+")(?: (?:[^ "]+|"[^"\\]+"))*$`)
	argument      = regexp.MustCompile(`[^ "]+|"[^"]+"`)
	localProbe    = regexp.MustCompile(`^http://127\.0\.0\.1:[0-9]{1,5}/[a-z/]*$`)
)

// splitCommand splits a command as Windows does, provided that quotes enclose only whole arguments.
func splitCommand(command string) (arguments []string, err error) {
	if !quotedCommand.MatchString(command) {
		return nil, fmt.Errorf("command is %.128q; each argument must be unquoted or quoted as a whole, with one space between arguments", command)
	}
	for _, item := range argument.FindAllString(command, -1) {
		arguments = append(arguments, strings.Trim(item, `"`))
	}
	return arguments, nil
}

// validator reports whether a flag accepts a value; nil for a flag without a value.
type validator func(string) bool

// checkFlags checks the flags of a program and returns the arguments after them: the program that it runs.
func (n Node) checkFlags(program string, arguments []string) (rest []string, err error) {
	flags, known := n.flags()[program]
	if !known {
		return nil, fmt.Errorf("not a program of a service; allowed: %s", strings.Join(slices.Sorted(maps.Keys(n.flags())), ", "))
	}
	for len(arguments) > 0 {
		name, text, isJoined := strings.Cut(arguments[0], "=")
		validate, isFlag := flags[name]
		if !isFlag {
			if strings.HasPrefix(name, "-") {
				return nil, fmt.Errorf("flag %.64q is not allowed; allowed: %s", name, strings.Join(slices.Sorted(maps.Keys(flags)), ", "))
			}
			return arguments, nil
		}
		arguments = arguments[1:]
		if validate != nil && !isJoined {
			if len(arguments) == 0 {
				return nil, fmt.Errorf("flag %s has no value", name)
			}
			text, arguments = arguments[0], arguments[1:]
		}
		if validate == nil && isJoined || validate != nil && !validate(text) {
			return nil, fmt.Errorf("flag %s has the invalid value %.128q", name, text)
		}
	}
	return nil, nil
}

// flags returns the flags of all rendered programs, by the program's path below the version's folder.
func (n Node) flags() map[string]map[string]validator {
	logs := validator(func(text string) bool { return isBelow(Logs, text) && strings.HasSuffix(text, ".log") })
	number, duration, word := matches(`[0-9]{1,18}`), matches(`[0-9a-z.]{1,32}`), atMost(1000, matches(`[A-Za-z0-9_,.-]+`))
	node, address := orPlaceholder(markNode, word), orPlaceholder(markNodeIP, isAddress)
	isTrueOrFalse := oneOf("true", "false")
	return map[string]map[string]validator{
		logRunnerProgram:            {"-log-file": logs, "-log-file-size": number, "-log-file-age": duration},
		payload.WICD:                {"run": nil, "host": nil, "--windows-service": nil, "--log-file": logs, "--env": orPlaceholder("NODE_NAME="+markNode, matches(`NODE_NAME=[A-Za-z0-9.-]{1,253}`)), "--": nil},
		`containerd\containerd.exe`: {"--config": oneOf(containerdConfig), "--log-file": logs, "--run-service": nil, "--log-level": word},
		`kubelet.exe`: {
			"--config": oneOf(kubeletConfig), "--bootstrap-kubeconfig": oneOf(BootstrapKubeconfig), "--kubeconfig": oneOf(KubeletKubeconfig), "--cert-dir": oneOf(KubeletCertificates),
			"--windows-service": nil, "--node-labels": matches(`[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+=[A-Za-z0-9_.-]+`), "--windows-priorityclass": word, "--v": number,
			"--hostname-override": node, "--node-ip": address, "--cloud-provider": oneOf("external"),
			"--image-credential-provider-config": oneOf(credentialProviderConfig), "--image-credential-provider-bin-dir": oneOf(VersionFolder(n.Digest)),
		},
		csiProxyProgram: {"-windows-service": nil, "--v": number},
		proxyProgram:    {"--config": oneOf(proxyConfig), "--windows-service": nil, "--v": number},
		nodeManagerProgram: {
			"--windows-service": isTrueOrFalse, "--node-name": node, "--wait-routes": isTrueOrFalse, "--kubeconfig": oneOf(nodeManagerKubeconfig), "--secure-port": number, "--v": number,
		},
		flannelProgram: {
			"--kube-subnet-mgr": nil, "--kubeconfig-file": oneOf(wicdKubeconfig), "--net-config-path": oneOf(flannelNetConf), "--subnet-file": oneOf(flannelSubnet), "--iface": address,
			"--set-node-network-unavailable": isTrueOrFalse, "--v": number,
		},
		overlayProgram: {
			"--node": node, "--bootstrap-kubeconfig": oneOf(KubeletKubeconfig), "--cert-dir": oneOf(CNIFolder), "--cert-duration": duration, "--windows-service": nil, "--logfile": logs,
			"--k8s-apiserver": isServer, "--k8s-cacert": oneOf(clusterCA), "--status-file": oneOf(overlayStatus), "--interface": orPlaceholder(markAdapter, isAdapter), "--loglevel": number,
			"--hybrid-overlay-vxlan-port": number, "--cluster-subnets": isRangeList, "--hybrid-overlay-cluster-subnets": isRangeList,
		},
		exporterProgram: {
			"--collectors.enabled": word, "--collector.net.enabled": word, "--collector.textfile.directories": oneOf(Metrics), "--web.config.file": oneOf(exporterConfig),
			"--log.level": word, "--log.file": logs,
		},
	}
}

func oneOf(values ...string) validator {
	return func(text string) bool { return slices.Contains(values, text) }
}

func matches(pattern string) validator {
	return func(text string) bool { return regexp.MustCompile(`^(?:` + pattern + `)$`).MatchString(text) } // most patterns are never used
}

// atMost limits the length: a regular expression with this many repetitions would take a hundred times as long to compile.
func atMost(limit int, validate validator) validator {
	return func(text string) bool { return len(text) <= limit && validate(text) }
}

// orPlaceholder also accepts the placeholder for a value that depends on the host.
func orPlaceholder(placeholder string, validate validator) validator {
	return func(text string) bool { return text == placeholder || validate(text) }
}

func isAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}

func isServer(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Scheme == "https" && u.Host != "" && u.User == nil
}

// isAdapter accepts the name of an adapter, which Windows lets users choose.
func isAdapter(text string) bool { return len(text) <= 512 && !strings.HasPrefix(text, "-") }

func isRangeList(text string) bool { return matches(`[0-9./,]+`)(text) }

func isLocalProbe(url string) bool { return localProbe.MatchString(url) }

func isProgram(folder, path string) bool {
	return isBelow(folder, path) && strings.HasSuffix(path, ".exe")
}

// isBelow reports whether a path is below a folder and spelled canonically: it rejects anything that Windows could read as another path, such
// as streams, wildcards, short names, or spaces and dots at the end of a name.
func isBelow(folder, path string) bool {
	rest, below := strings.CutPrefix(path, folder+`\`)
	if !below {
		return false
	}
	isForbidden := func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-[]", r)
	}
	for name := range strings.SplitSeq(rest, `\`) {
		if name == "" || strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") || strings.ContainsFunc(name, isForbidden) {
			return false
		}
	}
	return true
}
