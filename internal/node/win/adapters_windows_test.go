package win

import (
	"errors"
	"testing"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/testing/sim/contract"
)

func TestAdaptersKeepTheContract(t *testing.T) {
	contract.Adapters(t, func(t *testing.T) contract.AdaptersFixture {
		return contract.AdaptersFixture{Adapters: mustHost(t).Adapters, CannotRestore: func(err error) bool {
			return errors.Is(err, errors.ErrUnsupported) || errors.Is(err, windows.ERROR_CALL_NOT_IMPLEMENTED) || errors.Is(err, windows.ERROR_NOT_SUPPORTED) ||
				errors.Is(err, windows.ERROR_ACCESS_DENIED)
		}}
	})
}
