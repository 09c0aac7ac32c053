package nodestatus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
)

// The configuration of VMware Tools. Where the folder is not there, they are not installed.
const (
	vmwareTools     = `C:\ProgramData\VMware\VMware Tools`
	vmwareToolsConf = vmwareTools + `\tools.conf`
	// maxToolsConf bounds the file, and maxExcluded the patterns in it, in bytes. The example of VMware, mostly comments, has some 20 KiB.
	maxToolsConf, maxExcluded = 256 << 10, 4 << 10
	// defaultExcluded are the adapters of Windows that VMware Tools do not tell vSphere of where tools.conf says nothing else
	// (https://github.com/vmware/open-vm-tools/blob/master/open-vm-tools/tools.conf).
	defaultExcluded = "vEthernet*"
)

// onVSphere tells whether a Node's machine is known to vSphere as one of the cluster: only then does anybody ask it for addresses.
func onVSphere(node *corev1.Node) bool { return strings.HasPrefix(node.Spec.ProviderID, "vsphere://") }

// hiddenAdapters says why VMware Tools do not tell vSphere of the address of the node, which the overlay moves to a virtual adapter of Windows.
// A file that is not what VMware Tools read says nothing.
func (p *Problems) hiddenAdapters(context.Context, bool) (wrong string, isKnown bool) {
	adapter := p.Record.Local.Adapter
	if p.Wanted.Network == nil || adapter == "" || !p.Host.Disk.Exists(vmwareTools) {
		return "", true
	}
	text, err := p.readToolsConf()
	if err != nil {
		return "", false
	}
	excluded, isSet, isValid := excludedAdapters(text)
	if !isValid {
		return "", false
	}
	because := fmt.Sprintf("exclude-nics in %s is %.64q", vmwareToolsConf, excluded)
	if !isSet {
		excluded = defaultExcluded
		because = fmt.Sprintf("%s does not set exclude-nics, and the default is %s", vmwareToolsConf, excluded)
	}
	if !isExcluded("vEthernet ("+adapter+")", excluded) {
		return "", true
	}
	return fmt.Sprintf("VMware Tools do not tell vSphere of the virtual adapter with the address of the node: %s; "+
		"write exclude-nics= with nothing behind it into section [guestinfo] there", because), true
}

// readToolsConf reads the file, nothing where it is not there.
func (p *Problems) readToolsConf() (string, error) {
	info, err := p.Host.Disk.Stat(vmwareToolsConf)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is no file", vmwareToolsConf)
	}
	f, err := p.Host.Disk.Open(vmwareToolsConf)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxToolsConf+1))
	if err == nil && len(b) > maxToolsConf {
		err = fmt.Errorf("%s has more than %d bytes", vmwareToolsConf, maxToolsConf)
	}
	return string(b), err
}

// excludedAdapters reads a tools.conf: groups in brackets, keys with values, and comments. Of several values the last one counts.
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

// isExcluded tells whether one of the patterns, with commas between them, is for a name.
func isExcluded(name, patterns string) bool {
	return slices.ContainsFunc(strings.Split(patterns, ","), func(pattern string) bool {
		quoted := regexp.QuoteMeta(strings.TrimSpace(pattern))
		expression := "(?s)^" + strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(quoted) + "$"
		is, err := regexp.MatchString(expression, name)
		return err == nil && is
	})
}
