package podnetwork_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/node/policypipe"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// enforcing returns a declaration that differs in that policies are enforced.
func enforcing(n desired.Node) desired.Node {
	network := *n.Network
	network.Files = slices.Clone(network.Files)
	network.Files[0] = desired.File{
		Path:    daemontest.CNIConfig + "list",
		Content: `{"name":"{{.Network}}","plugins":[{"type":"win-overlay","subnet":"{{.PodCIDR}}"},{"type":"wicd-cni"}]}`,
	}
	n.Network, n.Policies = &network, &desired.Policies{Mode: desired.PolicyEnforce}
	return n
}

// askWICD asks for a pod as the network plugin does. It reports whether WICD answers.
func askWICD(t *testing.T, o *overlaid) bool {
	t.Helper()
	c, err := o.Windows.DialPipe(t.Context(), policypipe.Name)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(t.Context(), policypipe.CallTimeout)
	defer cancel()
	err = policypipe.Call(ctx, c, policypipe.Request{
		Namespace: "shop", Name: "web", UID: "1", ContainerID: "1", Addresses: []netip.Addr{netip.MustParseAddr("10.132.1.7")},
	})
	refused := new(policypipe.RefusedError)
	return err == nil || errors.As(err, &refused)
}

func TestPluginFollowsPoliciesInSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newServing(t, 1)
		disk, off := o.Windows.Disk(), o.Request.Desired
		list := daemontest.CNIConfig + "list"
		expect := func(what string, isEnforced bool) {
			t.Helper()
			time.Sleep(time.Minute)
			if disk.Exists(list) != isEnforced || disk.Exists(daemontest.CNIConfig) == isEnforced {
				t.Errorf("%s: %s exists: %t, %s: %t", what, daemontest.CNIConfig, disk.Exists(daemontest.CNIConfig), list, disk.Exists(list))
			}
			if got := askWICD(t, o); got != isEnforced {
				t.Errorf("%s: WICD answers the plugin: %t, want %t", what, got, isEnforced)
			}
		}
		expect("off", false)
		o.Publish(t, enforcing(off))
		expect("enforced", true)
		if content, err := disk.Read(list); err != nil || !strings.Contains(string(content), `"subnet":"10.132.1.0/24"`) {
			t.Errorf("%s is %s, %v", list, content, err)
		}
		if _, err := disk.WriteFile(daemontest.CNIConfig, `{"name":"x","type":"win-overlay"}`); err != nil {
			t.Fatal(err)
		}
		expect("a file without the plugin appeared", true)
		o.Stop()
		o.Start(t)
		expect("WICD restarted", true)
		o.Publish(t, off)
		expect("off again", false)
	})
}
