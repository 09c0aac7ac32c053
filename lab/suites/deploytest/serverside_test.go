//go:build linux

package deploytest

import (
	"strings"
	"testing"
)

// testServerSideApply takes the manifests from kubectl apply to kubectl apply --server-side, as those do who begin to use a GitOps tool.
func (c *cluster) testServerSideApply(t *testing.T) {
	c.kubectl(t, "apply", "-k", deployDir)
	applied := c.kubectl(t, "apply", "-k", deployDir, "--server-side") // a conflict is an error
	if len(applied) < 20 {
		t.Errorf("kubectl applied %d objects: %q", len(applied), applied)
	}
	for _, line := range applied {
		if !strings.HasSuffix(line, " serverside-applied") {
			t.Errorf("kubectl says %q", line)
		}
	}
}
