package platform_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/platform"
)

// FuzzChooseProvider uses arbitrary provider IDs: the explanation must be short and printable, and only known clouds may make nodes wait.
func FuzzChooseProvider(f *testing.F) {
	for _, id := range []string{"aws:///us-east-1a/i-1", "kind://docker/kind/kind", "cn-hangzhou.i-1", "", "://", "AWS://x", "\xff://x", "a\nb://"} {
		f.Add(id, "gce://p/z/v")
		f.Add(id, id)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		p := platform.ChooseProvider(v1alpha1.CloudProviderAuto, platform.Evidence{ProviderIDs: []string{first, second}})
		if len(p.Why) > 300 || !utf8.ValidString(p.Why) || strings.ContainsAny(p.Why, "\r\n") {
			t.Errorf("%q and %q: Why is %q", first, second, p.Why)
		}
		scheme, _, _ := strings.Cut(first, "://")
		other, _, _ := strings.Cut(second, "://")
		if p.External && (scheme != other || strings.Trim(scheme, "abcdefghijklmnopqrstuvwxyz") != "" || scheme == "kind") {
			t.Errorf("%q and %q have nodes wait for a cloud", first, second)
		}
	})
}
