package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
)

// env implements "env" and "printenv [name]".
func env(_ context.Context, c call) error {
	if len(c.args) > 1 {
		v := c.env.Get(c.args[1])
		if !v.IsSet() {
			return interp.ExitStatus(1)
		}
		_, err := fmt.Fprintln(c.out, v.String())
		return err
	}
	var err error
	c.env.Each(func(name string, v expand.Variable) bool {
		if v.Exported && v.IsSet() {
			_, err = fmt.Fprintf(c.out, "%s=%s\n", name, v.String())
		}
		return err == nil
	})
	return err
}

func hostname(_ context.Context, c call) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.out, name)
	return err
}

// mv implements "mv [-v] source target".
func mv(_ context.Context, c call) error {
	set := c.flags()
	verbose := set.BoolP("verbose", "v", false, "")
	if err := set.Parse(c.args[1:]); err != nil {
		return err
	}
	if set.NArg() != 2 {
		return fmt.Errorf("got arguments %q, want a source and a target", set.Args())
	}
	from, to := c.path(set.Arg(0)), c.path(set.Arg(1))
	if folder, err := os.Stat(to); err == nil && folder.IsDir() {
		to = filepath.Join(to, filepath.Base(from))
	}
	if *verbose {
		fmt.Fprintf(c.out, "renamed '%s' -> '%s'\n", set.Arg(0), to)
	}
	return os.Rename(from, to)
}

func whoami(_ context.Context, c call) error {
	u, err := user.Current()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.out, u.Username)
	return err
}

// duration parses seconds, or a number with a unit.
func duration(text string) (time.Duration, error) {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		return time.Duration(seconds * float64(time.Second)), nil
	}
	return time.ParseDuration(text)
}

func sleep(ctx context.Context, c call) error {
	if len(c.args) != 2 {
		return errors.New("want one duration")
	}
	pause, err := duration(c.args[1])
	if err != nil {
		return err
	}
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// timeout implements "timeout [-t] duration program [arguments]".
func timeout(ctx context.Context, c call) error {
	args := c.args[1:]
	if len(args) > 0 && args[0] == "-t" {
		args = args[1:]
	}
	if len(args) < 2 {
		return errors.New("want a duration and a program")
	}
	limit, err := duration(args[0])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c.args = append([]string{nameOf(args[1])}, args[2:]...)
	status := c.run(ctx)
	if ctx.Err() != nil {
		const terminated = 143
		status = terminated
	}
	if status != 0 {
		return interp.ExitStatus(status)
	}
	return nil
}

// stat implements "stat [-c format] files", with the size, permissions and name of files.
func stat(_ context.Context, c call) error {
	set := c.flags()
	format := set.StringP("format", "c", "%n %s %a", "")
	if err := set.Parse(c.args[1:]); err != nil {
		return err
	}
	for _, name := range set.Args() {
		info, err := os.Stat(c.path(name))
		if err != nil {
			return err
		}
		line := strings.NewReplacer("%n", name, "%s", strconv.FormatInt(info.Size(), 10), "%a", strconv.FormatUint(uint64(info.Mode().Perm()), 8))
		if _, err := fmt.Fprintln(c.out, line.Replace(*format)); err != nil {
			return err
		}
	}
	return nil
}
