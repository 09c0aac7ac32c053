// Command tools is a POSIX shell with the programs that Kubernetes' tests run in their images. It replaces the port of BusyBox
// in the upstream images for Windows. Like BusyBox, its name or its first argument selects the program: images have it under
// each name that tests run.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"mvdan.cc/sh/moreinterp/coreutils"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
)

func main() {
	args := append([]string{nameOf(filepath.ToSlash(os.Args[0]))}, os.Args[1:]...)
	if args[0] == "tools" {
		args = args[1:]
	}
	dir, err := os.Getwd()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(statusNotFound)
	}
	c := call{dir: dir, env: expand.ListEnviron(os.Environ()...), in: os.Stdin, out: os.Stdout, err: os.Stderr, args: args}
	os.Exit(c.run(context.Background()))
}

// Exit codes of shells.
const (
	statusSyntax   = 2
	statusNotFound = 127
)

// call is the call of a program.
type call struct {
	args     []string // args[0] is the name of the program
	dir      string
	env      expand.Environ
	in       io.Reader
	out, err io.Writer
}

// run runs a program, and returns its exit code. It runs programs other than sh as commands of a shell.
func (c call) run(ctx context.Context) int {
	var err error
	switch {
	case len(c.args) == 0:
		err = errors.New("the name of a program is missing")
	case c.args[0] == "sh":
		err = shell(ctx, c)
	default:
		var words []string
		for _, arg := range c.args {
			word, quoteErr := syntax.Quote(arg, syntax.LangBash)
			err = errors.Join(err, quoteErr)
			words = append(words, word)
		}
		if err == nil {
			err = c.script(ctx, strings.Join(words, " "), nil)
		}
	}
	var status interp.ExitStatus
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return int(status)
	}
	fmt.Fprintln(c.err, err)
	return statusNotFound
}

// shell implements "sh [-efux] [-c command [name]] [file] [arguments]".
func shell(ctx context.Context, c call) error {
	var options []string
	args := c.args[1:]
	isCommand := false
	for len(args) > 0 && !isCommand && len(args[0]) > 1 && args[0][0] == '-' {
		for _, letter := range args[0][1:] {
			if letter == 'c' {
				isCommand = true
			} else {
				options = append(options, "-"+string(letter))
			}
		}
		args = args[1:]
	}
	var command string
	switch {
	case isCommand && len(args) == 0:
		return errors.New("sh: -c needs a command")
	case isCommand:
		command, args = args[0], args[min(len(args), 2):]
	default:
		in := c.in
		if len(args) > 0 {
			file, err := os.Open(c.path(args[0]))
			if err != nil {
				return err
			}
			defer file.Close()
			in, args = file, args[1:]
		}
		text, err := io.ReadAll(in)
		if err != nil {
			return err
		}
		command = string(text)
	}
	return c.script(ctx, command, append(append(options, "--"), args...))
}

// script runs a script with parameters like those of the built-in set.
func (c call) script(ctx context.Context, text string, parameters []string) error {
	file, err := syntax.NewParser().Parse(strings.NewReader(text), "")
	if err != nil {
		fmt.Fprintln(c.err, "sh:", err)
		return interp.ExitStatus(statusSyntax)
	}
	runner, err := interp.New(interp.Params(parameters...), interp.Dir(c.dir), interp.Env(c.env), interp.StdIO(c.in, c.out, c.err),
		interp.ExecHandlers(withTools, coreutils.ExecHandler))
	if err != nil {
		return err
	}
	return runner.Run(ctx, file)
}

// withTools runs the programs of this package in this process. They have the same paths as in Linux images: in /bin.
func withTools(next interp.ExecHandlerFunc) interp.ExecHandlerFunc {
	return func(ctx context.Context, args []string) error {
		name := nameOf(args[0])
		args = append([]string{name}, args[1:]...)
		hc := interp.HandlerCtx(ctx)
		if name != "sh" && interp.IsBuiltin(name) {
			return hc.Builtin(ctx, args)
		}
		tool := find(name)
		if tool == nil {
			return next(ctx, args)
		}
		err := tool(ctx, call{args: args, dir: hc.Dir, env: hc.Env, in: hc.Stdin, out: hc.Stdout, err: hc.Stderr})
		var status interp.ExitStatus
		if err != nil && !errors.As(err, &status) {
			fmt.Fprintf(hc.Stderr, "%s: %v\n", name, err)
			return interp.ExitStatus(1)
		}
		return err
	}
}

// nameOf returns the name of a program in /bin, and the path of other programs.
func nameOf(path string) string {
	name := path[strings.LastIndex(path, "/")+1:]
	if folder := strings.TrimSuffix(path, name); folder != "" && !strings.HasSuffix(folder, "/bin/") {
		return path
	}
	if short := strings.TrimSuffix(strings.ToLower(name), ".exe"); short == "tools" || short == "sh" || find(short) != nil {
		return short
	}
	return name
}

// path returns the absolute path for an argument. On Windows, a path that starts with a slash is on the drive of the working folder.
func (c call) path(arg string) string {
	if arg == "/dev/null" {
		return os.DevNull
	}
	if filepath.IsAbs(arg) {
		return arg
	}
	if strings.HasPrefix(arg, "/") {
		return filepath.VolumeName(c.dir) + filepath.FromSlash(arg)
	}
	return filepath.Join(c.dir, arg)
}
