package win

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// programs runs programs of this host.
type programs struct{}

// maxStderr is how much of a program's standard error is reported; killedAfter is how long it may hold its output open after
// it was killed.
const (
	maxStderr   = 2 << 10
	killedAfter = 10 * time.Second
)

// Run implements wicdapi.Runner.
func (programs) Run(ctx context.Context, command string, stdin io.Reader, stdout io.Writer) error {
	words := strings.Fields(command)
	if len(words) == 0 {
		return fmt.Errorf("running %q: the command names no program", command)
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = stdin, stdout, &stderr, killedAfter
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("running %s: %w: %s", words[0], err, bytes.TrimSpace(stderr.Bytes()[:min(stderr.Len(), maxStderr)]))
	}
	return nil
}
