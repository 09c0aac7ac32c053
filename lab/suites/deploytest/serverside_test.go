//go:build linux

package deploytest

import (
	"strings"
	"testing"
)

// testServerSideApply applies the manifests first with kubectl apply and then with kubectl apply --server-side, as happens when
// users adopt a GitOps tool.
func (c *cluster) testServerSideApply(t *testing.T) {
	c.kubectl(t, "apply", "-k", deployDir)
	applied := c.kubectl(t, "apply", "-k", deployDir, "--server-side") // a conflict is an error
	if len(applied) < 20 {
		t.Errorf("kubectl applied %d objects, want at least 20: %q", len(applied), applied)
	}
	for _, line := range applied {
		if !strings.HasSuffix(line, " serverside-applied") {
			t.Errorf("got output line %q of kubectl, want one that ends with serverside-applied", line)
		}
	}
}
