package daemon_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/platform"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sim/servers"
)

// The operator checks the facts before it sends content: they must include every foreign service with one of the operator's names. The list was
// once maintained by hand, and lacked flanneld.
func TestForeignServicesAreListedInFacts(t *testing.T) {
	for _, name := range desired.Services() {
		t.Run(name, func(t *testing.T) {
			w := daemontest.NewWindows(t, sim.WindowsOptions{})
			daemontest.MustDeclare(t, w, desired.Service{Name: name, Description: "somebody's", Command: `C:\somebody\service.exe`})
			isForeign := func(s wicdapi.ServiceFacts) bool { return s.Name == name && !s.Ours }
			if got := daemontest.Facts(t, w).Services; !slices.ContainsFunc(got, isForeign) {
				t.Errorf("the services are %+v, without %s", got, name)
			}
		})
	}
}

// TestFactsIncludeCloudNodeName requests the facts with and without a platform, and from a cloud that refuses.
func TestFactsIncludeCloudNodeName(t *testing.T) {
	const name = "ip-10-0-1-2.us-east-2.compute.internal"
	for _, test := range []struct {
		what, flag, want, fails string
		service                 servers.MetadataOptions
	}{
		{what: "no platform", service: servers.MetadataOptions{Platform: platform.AWS, Name: name}},
		{what: "AWS", flag: platform.AWS, want: name, service: servers.MetadataOptions{Platform: platform.AWS, Name: name}},
		{what: "a platform without names", flag: "Azure", service: servers.MetadataOptions{Platform: platform.AWS, Name: name}},
		{what: "an AWS that refuses", flag: platform.AWS, fails: "403 Forbidden", service: servers.MetadataOptions{Platform: platform.AWS, Status: 403, Failures: -1}},
	} {
		synctest.Test(t, func(t *testing.T) {
			service := servers.NewMetadata(test.service)
			defer service.Close()
			w := daemontest.NewWindows(t, sim.WindowsOptions{Dial: service.Dial})
			command := wicdapi.CommandFacts
			if test.flag != "" {
				command += " --" + wicdapi.FlagPlatform + "=" + test.flag
			}
			var facts wicdapi.Facts
			if err := wicdapi.Call(t.Context(), daemontest.NewWire(w), command, nil, &facts, nil); err != nil {
				t.Fatal(err)
			}
			if facts.CloudName != test.want || facts.Host.Hostname != "WIN-SIM" {
				t.Errorf("%s: the name is %q, want %q", test.what, facts.CloudName, test.want)
			}
			if (facts.NoCloudName != "") != (test.fails != "") || !strings.Contains(facts.NoCloudName, test.fails) {
				t.Errorf("%s: got %q, want %q", test.what, facts.NoCloudName, test.fails)
			}
			if requested := service.Requests(); test.flag != platform.AWS && len(requested) > 0 {
				t.Errorf("%s: the cloud received the queries %q", test.what, requested)
			}
		})
	}
}
