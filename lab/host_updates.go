//go:build linux

package lab

import (
	"context"
	"fmt"

	"github.com/windows-machine-config/wmco/internal/testing/sim/updateregistry"
	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
)

// ServeUpdate adds an update to the server of the host's Windows Update Agent, or replaces it. Updates have the numbers from 1 without gaps.
func (h *Host) ServeUpdate(ctx context.Context, number int, u updateregistry.Update) error {
	for name, value := range u.Values() {
		v := guestapi.RegistryValue{Type: "REG_SZ"}
		switch value := value.(type) {
		case string:
			v.Text = value
		case uint32:
			v = guestapi.RegistryValue{Type: "REG_DWORD", Number: uint64(value)}
		}
		if err := h.WriteRegistry(ctx, fmt.Sprintf(`HKLM\%s\%08d`, updateregistry.Key, number), name, v); err != nil {
			return fmt.Errorf("serving update %s to %s: %w", u.Title, h.name, err)
		}
	}
	return nil
}
