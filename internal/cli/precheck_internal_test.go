package cli

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/observe/advice"
	"github.com/windows-machine-config/wmco/internal/operator/migration"
)

func TestAPIServerVersionIsChecked(t *testing.T) {
	for version, want := range map[string]advice.Severity{"v1.32.9": advice.Error, "v1.33.0": advice.OK, "v1.36.3+abc": advice.OK, "unknown": advice.OK} {
		found := &findings{}
		if checkServer(found, version); (*found)[0].Severity != want {
			t.Errorf("%s is %s, want %s", version, (*found)[0].Severity, want)
		}
	}
}

func TestClusterIsChecked(t *testing.T) {
	found := &findings{}
	checkCluster(found, migration.Cluster{
		Namespace: "a", NetworkFault: "no range", KeyFault: "none", EntryFaults: map[string]string{"10.1.42.": "no address"}, Unread: map[string]string{"Secret": "forbidden"},
	})
	var errors, warnings int
	for _, f := range *found {
		switch f.Severity {
		case advice.Error:
			errors++
		case advice.Warning:
			warnings++
		}
	}
	if errors != 2 || warnings != 1 {
		t.Errorf("%d errors and %d warnings: %+v", errors, warnings, *found)
	}
}

// TestHostsAreDialed distinguishes an SSH server from another server, a closed port, and a silent one.
func TestHostsAreDialed(t *testing.T) {
	listen := func(greeting string) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = c.Write([]byte(greeting))
				c.Close()
			}
		}()
		return l.Addr().String()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for address, want := range map[string]string{
		listen("SSH-2.0-OpenSSH_for_Windows"): "", listen("HTTP/1.1 400"): api.ReasonNotSSH, "127.0.0.1:1": api.ReasonConnectionRefused, "no.such.invalid:22": api.ReasonAddressUnresolvable,
	} {
		if got, message := dialSSH(ctx, address); got != want {
			t.Errorf("%s is %q (%s), want %q", address, got, message, want)
		}
	}
}
