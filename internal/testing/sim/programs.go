package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/windows-machine-config/wmco/internal/node/daemon"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// Run implements wicdapi.Runner. The only program on a simulated computer is WICD, whatever the content of its file.
func (b *boot) Run(ctx context.Context, command string, stdin io.Reader, stdout io.Writer) error {
	program, args, _ := strings.Cut(command, " ")
	b.w.mu.Lock()
	err := b.canRun(program)
	b.w.mu.Unlock()
	if err != nil {
		return fmt.Errorf("running %s: %w", program, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.ctx, cancel)()
	var stderr strings.Builder
	code := daemon.Main(ctx, daemon.Call{
		Path: program, Args: strings.Fields(args), Stdin: stdin, Stdout: stdout, Stderr: &stderr,
		Host:    func() (hostapi.Host, error) { return b.host(), nil },
		Program: func() (io.ReadCloser, error) { return os.Open(b.w.Disk().Local(program)) },
		Serve: func(func(context.Context) uint32) error {
			return errors.New("the service manager did not start this process")
		},
	})
	if code != 0 {
		return fmt.Errorf("running %s: exit status %d: %s", program, code, stderr.String())
	}
	return nil
}
