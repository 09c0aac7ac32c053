package bugreports

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/pem"
	"net/netip"
	"os"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/operator/remote"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// joinReports are reports about joining hosts and its prerequisites.
func joinReports() []report {
	return append([]report{{
		link:    "https://github.com/kubernetes/kubernetes/issues/44702",
		input:   "an adapter with two addresses, of which the second was named and reached",
		want:    "10.0.0.7",
		outcome: nodeIPOf("10.0.0.200/24", "10.0.0.7/24"),
	}, {
		link:    "https://github.com/kubernetes/kubernetes/issues/45583",
		input:   "an adapter without the address that was reached, behind NAT",
		want:    "10.0.0.200",
		outcome: nodeIPOf("10.0.0.200/24"),
	}, {
		link:    "https://github.com/MicrosoftDocs/windowsserverdocs/issues/7392",
		input:   "a German Windows, whose group is Administratoren",
		want:    "names no group by its English name",
		outcome: prepareHost("names no group by its English name", func(text string) bool { return !strings.Contains(text, `BUILTIN\`) }),
	}, {
		link:    "https://github.com/MicrosoftDocs/windowsserverdocs/issues/7843",
		input:   "OpenSSH is to be installed behind WSUS",
		want:    "says what to do",
		outcome: prepareHost("says what to do", func(text string) bool { return strings.Contains(text, "0x800f0954") }),
	}, {
		link:  "https://github.com/MicrosoftDocs/windowsserverdocs/issues/2074",
		input: "a feature of Windows is to be installed behind WSUS",
		want:  "the source is missing",
		outcome: func(*testing.T) string {
			if (&hostapi.FeatureError{Code: 0x800f0954}).LacksSource() {
				return "the source is missing"
			}
			return "unknown"
		},
	}, {
		link:  "https://github.com/docker/for-win/issues/6613",
		input: "a range of ports that Windows excludes has the kubelet's",
		want:  "told with the range",
		outcome: func(*testing.T) string {
			if reported := (hostapi.Ports{Excluded: []hostapi.PortRange{{First: 10200, Last: 10299}}}).ExcludedOf([]uint16{10250}); strings.Contains(reported, "10250 (range 10200-10299)") {
				return "told with the range"
			}
			return "not told"
		},
	}, {
		link:    "https://github.com/Azure/ARO-RP/issues/2647",
		input:   "a MachineHealthCheck that deletes Machines whose node is not Ready for five minutes",
		want:    "says what to set",
		outcome: document("../../../docs/fleet.md", "says what to set", func(text string) bool { return strings.Contains(text, "`nodeStartupTimeout`") }),
	}, {
		link:    "https://github.com/hashicorp/packer/issues/6750",
		input:   "an image that was made without a reset of EC2Launch",
		want:    "says what to do",
		outcome: document("../../../docs/machines.md", "says what to do", func(text string) bool { return strings.Contains(text, "ec2launch reset") }),
	}}, append(keyReports(), sessionReports()...)...)
}

// keyReports are reports about private keys as users put them into a Secret.
func keyReports() []report {
	return []report{{
		link: "https://github.com/appleboy/ssh-action/issues/2", input: "a key without the line break at its end", want: "taken",
		outcome: key(func(text string) string { return strings.TrimSuffix(text, "\n") }),
	}, {
		link: "https://github.com/koderover/zadig/issues/2398", input: "a key in one line", want: "PEM whose lines are cut, joined or indented",
		outcome: key(func(text string) string { return strings.ReplaceAll(text, "\n", " ") }),
	}, {
		link: "https://github.com/MicrosoftDocs/azure-docs/issues/31460", input: "a key that PowerShell wrote with a byte order mark", want: "a byte order mark before the text",
		outcome: key(func(text string) string { return "\ufeff" + text }),
	}, {
		link: "https://github.com/jenkinsci/kubernetes-operator/issues/79", input: "a key that was encoded once more", want: "PEM encoded once more in base64",
		outcome: key(func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }),
	}, {
		link: "https://github.com/MicrosoftDocs/azure-docs/issues/31460", input: "a key that PowerShell redirected into a file", want: "text in UTF-16",
		outcome: key(func(text string) string { return "\xff\xfe" + strings.Join(strings.Split(text, ""), "\x00") + "\x00" }),
	}}
}

// key reports whether a private key is accepted, or what the error found instead.
func key(form func(string) string) func(*testing.T) string {
	return func(t *testing.T) string {
		block, err := ssh.MarshalPrivateKey(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), "")
		if err != nil {
			t.Fatal(err)
		}
		_, err = remote.ParsePrivateKey([]byte(form(string(pem.EncodeToMemory(block)))))
		if err == nil {
			return "taken"
		}
		_, found, _ := strings.Cut(err.Error(), "found ")
		found, _, _ = strings.Cut(found, ";")
		found, _, _ = strings.Cut(found, ", as ")
		return found
	}
}

// nodeIPOf returns the node address of a host that was reached at 10.0.0.7.
func nodeIPOf(addresses ...string) func(*testing.T) string {
	return func(*testing.T) string {
		i := wicdapi.Interface{Name: "Ethernet", DefaultRoute: true}
		for _, a := range addresses {
			i.Addresses = append(i.Addresses, netip.MustParsePrefix(a))
		}
		return join.NodeIP(wicdapi.Facts{Reached: netip.MustParseAddr("10.0.0.7"), Host: wicdapi.HostFacts{Interfaces: []wicdapi.Interface{i}}}, nil)
	}
}

func prepareHost(says string, does func(string) bool) func(*testing.T) string {
	return document("../../../docs/tasks/prepare-host.md", says, does)
}

// document checks a document and returns says if does is true for its text.
func document(path, says string, does func(string) bool) func(*testing.T) string {
	return func(t *testing.T) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !does(string(bytes.TrimSpace(text))) {
			return "says nothing"
		}
		return says
	}
}
