package nodestatus

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

func TestToolsConfIsRead(t *testing.T) {
	for name, test := range map[string]struct {
		text     string
		excluded string
		set      bool
		invalid  bool
	}{
		"nothing":             {text: ""},
		"comments":            {text: "# a comment\r\n[guestinfo]\r\n# exclude-nics=vEthernet*\r\n"},
		"nothing is hidden":   {text: "[guestinfo]\r\nexclude-nics=\r\n", set: true},
		"spaces":              {text: "\ufeff[guestinfo]\n  exclude-nics =  a*, b \n", set: true, excluded: "a*, b"},
		"the last one":        {text: "[guestinfo]\nexclude-nics=a\n[other]\nx=y=z\n[guestinfo]\nexclude-nics=b\n", set: true, excluded: "b"},
		"another group":       {text: "[vmsvc]\nexclude-nics=a\n"},
		"another key":         {text: "[guestinfo]\nprimary-nics=a\nlow-priority-nics=b\n"},
		"a key with no group": {text: "exclude-nics=\n", invalid: true},
		"no pair":             {text: "[guestinfo]\nexclude-nics\n", invalid: true},
		"half a group":        {text: "[guestinfo\n", invalid: true},
		"a long value":        {text: "[guestinfo]\nexclude-nics=" + strings.Repeat(",", maxExcluded+1) + "\n", invalid: true},
		"no text":             {text: "[guestinfo]\n\xff=\n", invalid: true},
	} {
		t.Run(name, func(t *testing.T) {
			excluded, isSet, isValid := excludedAdapters(test.text)
			if excluded != test.excluded || isSet != test.set || isValid == test.invalid {
				t.Errorf("%q, %v, %v, want %q, %v, %v", excluded, isSet, isValid, test.excluded, test.set, !test.invalid)
			}
		})
	}
}

func TestPatternsExcludeAdapters(t *testing.T) {
	const name = "vEthernet (Ethernet0)"
	for patterns, want := range map[string]bool{
		"": false, "vEthernet*": true, "*": true, "veth*, docker*": false, "veth*,vEthernet*": true, "vEthernet (Ethernet?)": true, "vEthernet (Ethernet": false,
		"vethernet*": false, ".*": false, "vEthernet (Ethernet0)": true, "(": false, "[v]*": false, `\*`: false,
	} {
		if got := isExcluded(name, patterns); got != want {
			t.Errorf("%q excludes %q: %v", patterns, name, got)
		}
	}
}

func FuzzToolsConf(f *testing.F) {
	f.Add("[guestinfo]\nexclude-nics=vEthernet*\n", "vEthernet (Ethernet0)")
	f.Add("[guestinfo]\n# exclude-nics=\nexclude-nics=a?b,*\n", "a(b")
	f.Fuzz(func(t *testing.T, text, name string) {
		excluded, isSet, isValid := excludedAdapters(text)
		if !isValid && isSet || !isSet && excluded != "" || len(excluded) > min(len(text), maxExcluded) || strings.ContainsAny(excluded, "\n") {
			t.Errorf("%q is read as %q, %v, %v", text, excluded, isSet, isValid)
		}
		if isExcluded(name, excluded) && excluded == "" && name != "" {
			t.Errorf("nothing excludes %q", name)
		}
	})
}

func TestHiddenAdaptersAreFound(t *testing.T) {
	for name, test := range map[string]struct {
		conf               string // "-" is none
		noTools, noNetwork bool
		message            string
		unknown            bool
	}{
		"no VMware Tools":        {noTools: true},
		"a network without one":  {conf: "-", noNetwork: true},
		"no file":                {conf: "-", message: "does not set exclude-nics"},
		"the example":            {conf: "[guestinfo]\n#exclude-nics=vEthernet*\n", message: "does not set exclude-nics"},
		"a pattern of their own": {conf: "[guestinfo]\nexclude-nics=veth*,vEther*\n", message: `is "veth*,vEther*"`},
		"another adapter":        {conf: "[guestinfo]\nexclude-nics=vEthernet (Backup)\n"},
		"nothing is hidden":      {conf: "[guestinfo]\nexclude-nics=\n"},
		"no configuration":       {conf: "what is this", unknown: true},
		"too large":              {conf: strings.Repeat("#\n", maxToolsConf), unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			disk := hostapi.Disk{Root: t.TempDir()}
			if !test.noTools {
				if _, err := disk.MakeFolder(vmwareTools); err != nil {
					t.Fatal(err)
				}
			}
			if !test.noTools && test.conf != "-" {
				if _, err := disk.WriteFile(vmwareToolsConf, test.conf); err != nil {
					t.Fatal(err)
				}
			}
			p := &Problems{Session: state.Session{Host: hostapi.Host{Disk: disk}}}
			p.Record.Local.Adapter = "Ethernet0"
			if !test.noNetwork {
				p.Wanted.Network = &desired.Network{}
			}
			wrong, isKnown := p.hiddenAdapters(t.Context(), false)
			if isKnown == test.unknown || (wrong != "") != (test.message != "") || !strings.Contains(wrong, test.message) {
				t.Errorf("%q, %v, want %q, %v", wrong, isKnown, test.message, !test.unknown)
			}
		})
	}
}

// TestOnlyVSphereNodesAreReported: elsewhere, the addresses from VMware Tools are not used.
func TestOnlyVSphereNodesAreReported(t *testing.T) {
	for provider, want := range map[string]bool{"vsphere://4211": true, "aws:///eu/i-1": false, "": false} {
		if got := onVSphere(&corev1.Node{Spec: corev1.NodeSpec{ProviderID: provider}}); got != want {
			t.Errorf("%q: %v", provider, got)
		}
	}
}
