package update

import (
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

func TestInvalidOutlineErrorNamesFault(t *testing.T) {
	digest := strings.Repeat("a", 64)
	for want, outline := range map[string]desired.Node{
		"":                  {Version: "v2", Digest: digest},
		"is for version":    {Version: "v3", Digest: digest},
		"has the digest \"": {Version: "v2", Digest: "AA"},
	} {
		if err := checkOutline(outline, "v2"); (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
