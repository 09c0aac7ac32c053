package network

import (
	"context"
	"errors"
	"os/exec"
	"time"
)

// releaseTimeout is how long other programs may hold the output of a program that has ended or was killed. Without this limit, runProgram
// would wait for a program that inherited the output.
const releaseTimeout = 2 * time.Second

// runProgram runs a Windows program and returns its output.
func runProgram(ctx context.Context, program string, arguments ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, arguments...)
	cmd.WaitDelay = releaseTimeout
	output, err := cmd.Output()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // the program itself succeeded
	}
	return string(output), err
}
