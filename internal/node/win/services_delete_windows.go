package win

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// deleteAccess is the standard right DELETE (winnt.h), which golang.org/x/sys lacks.
const deleteAccess = 0x10000

// Delete implements hostapi.Services.
func (s *services) Delete(ctx context.Context, name string) error {
	own, err := isOwnProcess(name)
	if err == nil && !own {
		err = s.Stop(ctx, name)
	}
	if err == nil {
		err = s.retryWhileBusy(ctx, func() error { return unregister(name) })
	}
	if err != nil && !isDeleted(err) {
		return fmt.Errorf("deleting service %s: %w", name, err)
	}
	return nil
}

// isOwnProcess reports whether a service is this process.
func isOwnProcess(name string) (bool, error) {
	status, err := statusOf(name)
	if errors.Is(err, hostapi.ErrNotFound) {
		return false, nil
	}
	return err == nil && status.ProcessId == windows.GetCurrentProcessId(), err
}

func unregister(name string) error {
	m, err := connect(0)
	if err != nil {
		return err
	}
	defer m.Close()
	svc, err := m.open(name, deleteAccess)
	if err != nil {
		return err
	}
	defer svc.Close()
	if err := windows.DeleteService(svc.Handle); !errors.Is(err, windows.ERROR_SERVICE_MARKED_FOR_DELETE) {
		return err
	}
	return nil
}
