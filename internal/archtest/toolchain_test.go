package archtest

import (
	"go/version"
	"runtime"
	"testing"
)

// oldestGo is the first version of Go in which a program reads and writes the pipes of OpenSSH for Windows without hanging; WICD uses them
// for its requests and responses (https://go.dev/issue/75949, https://go.dev/issue/76391).
const oldestGo = "go1.26.8"

func TestGoToolchainIsNewEnough(t *testing.T) {
	inRoot(t)
	if toolchain := "go" + goVersion(t); version.Compare(toolchain, oldestGo) < 0 {
		t.Errorf("go.mod has the toolchain %s, want %s or later", toolchain, oldestGo)
	}
	if got := runtime.Version(); version.Compare(got, oldestGo) < 0 {
		t.Errorf("this is %s, want %s or later", got, oldestGo)
	}
}
