package win

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/windows"
)

// Reboot implements hostapi.System. It calls shutdown.exe, the documented way, which enables the needed privilege in services and
// SSH sessions. The delay is rounded up to whole seconds.
func (s *system) Reboot(ctx context.Context, reason string, after time.Duration) error {
	const longest = 512 // the maximum length of a reason
	if r := []rune(reason); len(r) > longest {
		reason = string(r[:longest])
	}
	seconds := int((after + time.Second - 1) / time.Second)
	// p:4:1 is a planned restart for application maintenance.
	cmd := exec.CommandContext(ctx, s.shutdown, "/r", "/t", strconv.Itoa(seconds), "/c", reason, "/d", "p:4:1")
	cmd.SysProcAttr = &syscall.SysProcAttr{HideWindow: true, CreationFlags: windows.CREATE_NO_WINDOW}
	cmd.WaitDelay = killedAfter
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		switch syscall.Errno(exit.ExitCode()) {
		case windows.ERROR_SHUTDOWN_IS_SCHEDULED, windows.ERROR_SHUTDOWN_IN_PROGRESS:
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("restarting Windows with %s: %w", s.shutdown, err)
	}
	return nil
}
