package win

import (
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/win/pipe"
	"github.com/windows-machine-config/wmco/internal/testing/sim/contract"
)

func TestPipesKeepTheContract(t *testing.T) {
	host := mustHost(t)
	contract.Pipes(t, func(*testing.T) contract.PipesFixture {
		f := contract.PipesFixture{Pipes: host.Pipes, Dial: pipe.DialOwned}
		if onWine() {
			f.SharesNames = "Wine 8 ignores FILE_FLAG_FIRST_PIPE_INSTANCE"
		}
		return f
	})
}
