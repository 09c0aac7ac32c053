package remote

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestFIPSEnforced runs the host key tests in a process in which Go rejects all cryptography that FIPS 140-3 does not approve.
func TestFIPSEnforced(t *testing.T) {
	names := []string{"TestHostKeyIsPinnedAtFirstContact", "TestHostKeyChangeIsNotBadCredentials"}
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^("+strings.Join(names, "|")+")$")
	c.Env = append(os.Environ(), "GODEBUG=fips140=only")
	out, err := c.CombinedOutput()
	for _, name := range names {
		if err != nil || !strings.Contains(string(out), "--- PASS: "+name) {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
}
