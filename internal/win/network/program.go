package network

import (
	"context"
	"errors"
	"os/exec"
	"time"
)

// releasedWithin is how long other programs may hold the output of one that has ended or was killed. Without a limit, a program that inherited
// it would be waited for.
const releasedWithin = 2 * time.Second

// said runs a program of Windows and returns its output.
func said(ctx context.Context, program string, arguments ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, arguments...)
	cmd.WaitDelay = releasedWithin
	output, err := cmd.Output()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // the program itself succeeded
	}
	return string(output), err
}
