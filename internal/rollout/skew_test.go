package rollout_test

import (
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/rollout"
)

func TestKubeletGoesWithTheAPIServer(t *testing.T) {
	for _, test := range []struct{ kubelet, server, want string }{
		{"v1.36.3", "v1.36.0", ""},
		{"v1.36.3", "v1.36.3+f1a2b3c", ""},
		{"v1.33.9", "v1.36.0", ""},
		{"v1.32.9", "v1.36.0", "more than 3 minor versions older"},
		{"v1.37.0", "v1.36.9", "newer than the API server"},
		{"", "v1.36.9", ""},
		{"v1.36.3", "unknown", ""},
	} {
		got := rollout.Unfit(test.kubelet, test.server)
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("kubelet %q with API server %q: %q, want %q", test.kubelet, test.server, got, test.want)
		}
	}
}
