package nodestatus

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
)

// The configuration of VMware Tools. They are not installed if the folder does not exist.
const (
	vmwareTools     = `C:\ProgramData\VMware\VMware Tools`
	vmwareToolsConf = vmwareTools + `\tools.conf`
	// maxToolsConf limits the file, maxExcluded the patterns in it, in bytes. VMware's example, mostly comments, has some 20 KiB.
	maxToolsConf, maxExcluded = 256 << 10, 4 << 10
	// defaultExcluded are the adapters of Windows that VMware Tools do not report to vSphere by default
	// (https://github.com/vmware/open-vm-tools/blob/master/open-vm-tools/tools.conf).
	defaultExcluded = "vEthernet*"
)

// onVSphere reports whether vSphere knows a Node's machine as part of the cluster: only then are its addresses queried.
func onVSphere(node *corev1.Node) bool { return strings.HasPrefix(node.Spec.ProviderID, "vsphere://") }

// hiddenAdapters returns why VMware Tools do not report the node's address to vSphere: the overlay moves it to a virtual adapter of Windows. A file
// that VMware Tools could not read is inconclusive.
func (p *Problems) hiddenAdapters(context.Context, bool) (wrong string, isKnown bool) {
	adapter := p.Record.Local.Adapter
	if p.Wanted.Network == nil || adapter == "" || !p.Host.Disk.Exists(vmwareTools) {
		return "", true
	}
	text, err := p.Host.Disk.ReadAtMost(vmwareToolsConf, maxToolsConf)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", false
	}
	excluded, isSet, isValid := excludedAdapters(string(text))
	if !isValid {
		return "", false
	}
	cause := fmt.Sprintf("exclude-nics in %s is %.64q", vmwareToolsConf, excluded)
	if !isSet {
		excluded = defaultExcluded
		cause = fmt.Sprintf("%s does not set exclude-nics, and the default is %s", vmwareToolsConf, excluded)
	}
	if !isExcluded("vEthernet ("+adapter+")", excluded) {
		return "", true
	}
	return fmt.Sprintf("VMware Tools do not report the virtual adapter with the node's address to vSphere: %s; "+
		"set exclude-nics= with an empty value in section [guestinfo] of that file", cause), true
}

// excludedAdapters parses a tools.conf: groups in brackets, keys with values, and comments. Of several values the last one counts.
func excludedAdapters(text string) (excluded string, isSet, isValid bool) {
	if !utf8.ValidString(text) {
		return "", false, false
	}
	group := ""
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		line = strings.TrimSpace(line)
		key, value, isPair := strings.Cut(line, "=")
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[' && line[len(line)-1] == ']':
			group = line[1 : len(line)-1]
		case !isPair || group == "" || len(value) > maxExcluded:
			return "", false, false
		case group == "guestinfo" && strings.TrimSpace(key) == "exclude-nics":
			excluded, isSet = strings.TrimSpace(value), true
		}
	}
	return excluded, isSet, true
}

// isExcluded reports whether one of the comma-separated patterns matches a name.
func isExcluded(name, patterns string) bool {
	return slices.ContainsFunc(strings.Split(patterns, ","), func(pattern string) bool {
		quoted := regexp.QuoteMeta(strings.TrimSpace(pattern))
		expression := "(?s)^" + strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(quoted) + "$"
		ok, err := regexp.MatchString(expression, name)
		return err == nil && ok
	})
}
