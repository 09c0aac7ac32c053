package daemon

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon/logrotate"
)

// releaseTimeout is how long the output of an ended program may stay open, held by its child processes.
const releaseTimeout = 5 * time.Second

// hostCommand runs a program that does not support Windows' service manager as a service: its output is the log, its exit code the service's, and
// it ends with the service. The program is not notified of that, because Windows has no way to do so for programs without a window.
func hostCommand(ctx context.Context, call Call, flags *flag.FlagSet) int {
	asService, logName := serviceFlags(flags)
	var variables []string
	flags.Func("env", "additional environment variable of the program, as NAME=value; may be repeated", func(variable string) error {
		if name, _, ok := strings.Cut(variable, "="); !ok || name == "" {
			return errors.New("NAME=value is needed")
		}
		variables = append(variables, variable)
		return nil
	})
	if code, done := parseFlags(call, flags); done {
		return code
	}
	if flags.NArg() == 0 {
		fmt.Fprintln(call.Stderr, "no program given; usage: host [flags] -- <program> [arguments]")
		return 1
	}
	code, err := hostProgram(ctx, call, *asService, *logName, hostedProgram{command: flags.Args(), variables: variables})
	if err != nil {
		fmt.Fprintln(call.Stderr, err)
		return 1
	}
	return int(code)
}

// hostedProgram is a program with its arguments, and its variables in addition to WICD's.
type hostedProgram struct{ command, variables []string }

func hostProgram(ctx context.Context, call Call, asService bool, logName string, program hostedProgram) (uint32, error) {
	h, err := call.Host()
	if err != nil {
		return 0, err
	}
	if err := call.Contain(); err != nil {
		return 0, fmt.Errorf("making sure that %s ends with this process: %w", program.command[0], err)
	}
	log := call.Stderr
	if logName != "" {
		file := logrotate.NewFile(h.Disk, logName)
		defer file.Close()
		log = file
	}
	run := func(ctx context.Context) uint32 { return program.run(ctx, discardWriteErrors{log}) }
	if !asService {
		return run(ctx), nil
	}
	return 0, call.Serve(run)
}

// run runs the program until it or ctx ends.
func (p hostedProgram) run(ctx context.Context, output io.Writer) (exitCode uint32) {
	cmd := exec.CommandContext(ctx, p.command[0], p.command[1:]...)
	cmd.Env = append(os.Environ(), p.variables...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = output, output, releaseTimeout
	err := cmd.Run()
	if err == nil || ctx.Err() != nil {
		return 0
	}
	slog.New(slog.NewJSONHandler(output, nil)).Error("Program ended", "program", p.command[0], "error", err.Error())
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return uint32(exit.ExitCode())
	}
	return 1
}

// discardWriteErrors discards output that cannot be written: a program whose output is no longer read would end, or hang.
type discardWriteErrors struct{ io.Writer }

// Write implements io.Writer.
func (c discardWriteErrors) Write(p []byte) (int, error) {
	_, _ = c.Writer.Write(p)
	return len(p), nil
}
