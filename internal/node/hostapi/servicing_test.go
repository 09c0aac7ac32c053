package hostapi_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

func TestOnlyReplacementsNeedRestart(t *testing.T) {
	for name, test := range map[string]struct{ values, want []string }{
		"nothing":                    {nil, nil},
		"a file is removed":          {[]string{`\??\C:\Windows\AppCompat\Programs\Amcache.hve.tmp`, ""}, nil},
		"a file is replaced":         {[]string{`\??\C:\new.dll`, `!\??\C:\old.dll`}, []string{`C:\new.dll -> C:\old.dll`}},
		"a file is renamed":          {[]string{`\??\C:\a`, `\??\C:\b`}, []string{`C:\a -> C:\b`}},
		"one of each":                {[]string{`\??\C:\tmp`, "", `\??\C:\a`, `!\??\C:\b`}, []string{`C:\a -> C:\b`}},
		"the last value has no pair": {[]string{`\??\C:\a`}, nil},
		"no file":                    {[]string{"", `\??\C:\b`}, nil},
	} {
		if got := hostapi.Replacements(test.values); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func FuzzReplacements(f *testing.F) {
	f.Add("")
	f.Add("\\??\\C:\\a\n\n\\??\\C:\\a\n!\\??\\C:\\b")
	f.Fuzz(func(t *testing.T, text string) {
		all := hostapi.Replacements(strings.Split(text, "\n"))
		if len(all) > 256 {
			t.Errorf("%d entries", len(all))
		}
		for _, item := range all {
			if len(item) > len(text)+len(" -> ") {
				t.Errorf("%q is longer than the value", item)
			}
		}
	})
}

func TestFeatureErrorRemedies(t *testing.T) {
	for code, want := range map[uint32]struct{ restart, source bool }{
		3017: {restart: true}, 0x80070bc9: {restart: true}, 0x800f082f: {restart: true}, 0x800f0906: {source: true}, 0x800f081f: {source: true},
		0x800f0954: {source: true}, // https://github.com/MicrosoftDocs/windowsserverdocs/issues/2074
		0x80073712: {}, 5: {},
	} {
		e := &hostapi.FeatureError{Call: "DismEnableFeature", Code: code}
		if e.NeedsRestart() != want.restart || e.LacksSource() != want.source {
			t.Errorf("%v: a restart helps: %v, a source: %v", e, e.NeedsRestart(), e.LacksSource())
		}
	}
}

func TestNameInOtherCaseNeedsNoRestart(t *testing.T) {
	if got := hostapi.PendingRename("WIN-1", "win-1"); got != "" {
		t.Errorf("got %q", got)
	}
	if got, want := hostapi.PendingRename("WIN-1", "WIN-2"), "the computer name changes from WIN-1 to WIN-2"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
