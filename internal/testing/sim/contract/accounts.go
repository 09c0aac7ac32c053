package contract

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// AccountsFixture is a computer for one test that is joined to no domain and has no plugin. The fixture cleans up after the test.
type AccountsFixture struct {
	Accounts hostapi.Accounts
	// Join joins the computer to a domain of this name, or to none. It is nil if a test cannot do that; NoJoin is the reason.
	Join   func(t *testing.T, domain string)
	NoJoin string
	// Register registers a plugin by a class ID, and Class the class; nil if a test cannot, and NoRegister is the reason.
	Register, Class func(t *testing.T, id string)
	NoRegister      string
}

// Accounts checks the contract of hostapi.Accounts.
func Accounts(t *testing.T, fixture func(t *testing.T) AccountsFixture) {
	run(t, fixture, []test[AccountsFixture]{
		{"DomainIsReportedWhileHostIsJoined", domainIsReportedWhileHostIsJoined},
		{"OnlyPluginsWithClassAreListed", onlyPluginsWithClassAreListed},
		{"PluginListIsBounded", pluginListIsBounded},
		{"CanceledCallsFail", canceledCallsFail},
	})
}

func expectDomain(t *testing.T, f AccountsFixture, want string) {
	t.Helper()
	if domain, err := f.Accounts.Domain(deadline(t)); err != nil || domain != want {
		t.Errorf("Domain() = %q, %v, want %q", domain, err, want)
	}
}

func domainIsReportedWhileHostIsJoined(t *testing.T, f AccountsFixture) {
	expectDomain(t, f, "")
	if f.Join == nil {
		t.Skip(f.NoJoin)
	}
	f.Join(t, "CONTOSO")
	expectDomain(t, f, "CONTOSO")
	f.Join(t, "")
	expectDomain(t, f, "")
}

func expectPlugins(t *testing.T, f AccountsFixture, want ...string) {
	t.Helper()
	if plugins, err := f.Accounts.Plugins(deadline(t)); err != nil || !slices.Equal(plugins, want) {
		t.Errorf("Plugins() = %q, %v, want %q", plugins, err, want)
	}
}

func onlyPluginsWithClassAreListed(t *testing.T, f AccountsFixture) {
	expectPlugins(t, f)
	if f.Register == nil {
		t.Skip(f.NoRegister)
	}
	const first, second, withoutClass = "{00000000-0000-4000-8000-00000000A001}", "{00000000-0000-4000-8000-00000000A002}", "{00000000-0000-4000-8000-00000000A003}"
	f.Register(t, second)
	f.Class(t, second)
	f.Register(t, "{00000000-0000-4000-8000-00000000a001}")
	f.Class(t, first)
	f.Register(t, withoutClass)
	f.Register(t, "not an ID")
	f.Class(t, "not an ID")
	expectPlugins(t, f, first, second)
}

func pluginListIsBounded(t *testing.T, f AccountsFixture) {
	if f.Register == nil {
		t.Skip(f.NoRegister)
	}
	for i := range hostapi.MaxPlugins + 3 {
		id := fmt.Sprintf("{00000000-0000-4000-8000-00000000B0%02d}", i)
		f.Register(t, id)
		f.Class(t, id)
	}
	if plugins, err := f.Accounts.Plugins(deadline(t)); err != nil || len(plugins) != hostapi.MaxPlugins {
		t.Errorf("Plugins() = %q, %v, want %d", plugins, err, hostapi.MaxPlugins)
	}
}

func canceledCallsFail(t *testing.T, f AccountsFixture) {
	ctx := canceled(t)
	_, errDomain := f.Accounts.Domain(ctx)
	_, errPlugins := f.Accounts.Plugins(ctx)
	for _, err := range []error{errDomain, errPlugins} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("a canceled call returned %v", err)
		}
	}
}
