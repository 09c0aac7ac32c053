package win

import (
	"testing"

	"golang.org/x/sys/windows/svc/eventlog"

	"github.com/windows-machine-config/wmco/internal/testing/sim/contract"
)

// testSource is an event source that only tests use. It uses the message file of EventCreate.exe, whose messages contain only the data.
const testSource = "WICD contract"

func TestEventLogsKeepTheContract(t *testing.T) {
	contract.EventLogs(t, func(t *testing.T) contract.EventLogsFixture {
		h := mustHost(t)
		f := contract.EventLogsFixture{
			EventLogs: h.EventLogs, Inventory: h.Inventory, Channel: "Application", Provider: testSource,
			NoClear: "a test must not clear the log of a Windows",
		}
		if onWine() {
			f.NoEvents = "Wine keeps no events: its EvtQuery returns nothing"
			return f
		}
		f.Write = func(t *testing.T, id uint32, message string) { mustWriteEvent(t, id, message) }
		return f
	})
}

func mustWriteEvent(t *testing.T, id uint32, message string) {
	t.Helper()
	log, err := eventlog.Open(testSource)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if err := log.Warning(id, message); err != nil {
		t.Fatal(err)
	}
}

func TestFirewallRulesAreListed(t *testing.T) {
	h := mustHost(t)
	rules, err := h.Inventory.FirewallRules(t.Context())
	if err != nil {
		t.Skipf("reading the firewall: %v", err)
	}
	for _, r := range rules {
		if r.Name == "" || r.Protocol == "" {
			t.Errorf("a rule is %+v", r)
		}
	}
}
