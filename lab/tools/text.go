package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/benhoyt/goawk/interp"
	"github.com/benhoyt/goawk/parser"
	"github.com/spf13/pflag"
	sh "mvdan.cc/sh/v3/interp"
)

// flags returns the set of options of a program.
func (c call) flags() *pflag.FlagSet {
	set := pflag.NewFlagSet(c.args[0], pflag.ContinueOnError)
	set.SetOutput(c.err)
	return set
}

// read calls a function with each file, or with the standard input if there are none.
func (c call) read(files []string, use func(name string, content io.Reader) error) error {
	if len(files) == 0 {
		return use("", c.in)
	}
	var failed error
	for _, name := range files {
		f, err := os.Open(c.path(name))
		if err == nil {
			err = errors.Join(use(name, f), f.Close())
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

func awk(_ context.Context, c call) error {
	set := c.flags()
	set.SetInterspersed(false)
	separator := set.StringP("field-separator", "F", " ", "")
	variables := set.StringArrayP("assign", "v", nil, "")
	if err := set.Parse(c.args[1:]); err != nil {
		return err
	}
	if set.NArg() == 0 {
		return errors.New("the program is missing")
	}
	program, err := parser.ParseProgram([]byte(set.Arg(0)), nil)
	if err != nil {
		return err
	}
	config := &interp.Config{Stdin: c.in, Output: c.out, Error: c.err, Argv0: "awk", NoExec: true, Vars: []string{"FS", *separator}}
	for _, v := range *variables {
		name, value, _ := strings.Cut(v, "=")
		config.Vars = append(config.Vars, name, value)
	}
	for _, file := range set.Args()[1:] {
		config.Args = append(config.Args, c.path(file))
	}
	status, err := interp.ExecProgram(program, config)
	if err == nil && status != 0 {
		err = sh.ExitStatus(status)
	}
	return err
}

// date implements the formats that tests use.
func date(_ context.Context, c call) error {
	now, layout := time.Now(), time.UnixDate
	for _, arg := range c.args[1:] {
		switch {
		case arg == "+%s":
			_, err := fmt.Fprintln(c.out, now.Unix())
			return err
		case strings.HasPrefix(arg, "+"):
			layout = strings.NewReplacer("%Y", "2006", "%m", "01", "%d", "02", "%H", "15", "%M", "04", "%S", "05", "%N", "000000000").Replace(arg[1:])
		case arg == "-u":
			now = now.UTC()
		default:
			return fmt.Errorf("unknown option %s", arg)
		}
	}
	_, err := fmt.Fprintln(c.out, now.Format(layout))
	return err
}

// expr implements "a operator b" for numbers.
func expr(_ context.Context, c call) error {
	if len(c.args) != 4 {
		return errors.New("want an expression of three words")
	}
	a, errA := strconv.Atoi(c.args[1])
	b, errB := strconv.Atoi(c.args[3])
	operator := c.args[2]
	if err := errors.Join(errA, errB); err != nil {
		return err
	}
	if b == 0 && strings.ContainsAny(operator, "/%") {
		return errors.New("division by zero")
	}
	var result int
	switch operator {
	case "+":
		result = a + b
	case "-":
		result = a - b
	case "*":
		result = a * b
	case "/":
		result = a / b
	case "%":
		result = a % b
	default:
		return fmt.Errorf("unknown operator %s", operator)
	}
	if _, err := fmt.Fprintln(c.out, result); err != nil || result != 0 {
		return err
	}
	return sh.ExitStatus(1)
}

func grep(_ context.Context, c call) error {
	set := c.flags()
	set.BoolP("extended-regexp", "E", false, "")
	fixed := set.BoolP("fixed-strings", "F", false, "")
	ignoreCase := set.BoolP("ignore-case", "i", false, "")
	inverted := set.BoolP("invert-match", "v", false, "")
	quiet := set.BoolP("quiet", "q", false, "")
	counted := set.BoolP("count", "c", false, "")
	limit := set.IntP("max-count", "m", 0, "")
	if err := set.Parse(c.args[1:]); err != nil {
		return err
	}
	if set.NArg() == 0 {
		return errors.New("the pattern is missing")
	}
	pattern := set.Arg(0)
	if *fixed {
		pattern = regexp.QuoteMeta(pattern)
	}
	if *ignoreCase {
		pattern = "(?i)" + pattern
	}
	matches, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	found := 0
	err = c.read(set.Args()[1:], func(_ string, content io.Reader) error {
		for lines := bufio.NewScanner(content); lines.Scan() && (*limit == 0 || found < *limit); {
			if matches.MatchString(lines.Text()) == *inverted {
				continue
			}
			if found++; !*quiet && !*counted {
				fmt.Fprintln(c.out, lines.Text())
			}
		}
		return nil
	})
	if *counted {
		fmt.Fprintln(c.out, found)
	}
	if err == nil && found == 0 {
		err = sh.ExitStatus(1)
	}
	return err
}

// seq implements "seq [first] last".
func seq(_ context.Context, c call) error {
	first, last := 1, 0
	var err error
	switch len(c.args) {
	case 2:
		last, err = strconv.Atoi(c.args[1])
	case 3:
		var errFirst error
		first, errFirst = strconv.Atoi(c.args[1])
		last, err = strconv.Atoi(c.args[2])
		err = errors.Join(errFirst, err)
	default:
		err = errors.New("want one or two numbers")
	}
	for i := first; err == nil && i <= last; i++ {
		_, err = fmt.Fprintln(c.out, i)
	}
	return err
}

func sorted(_ context.Context, c call) error {
	return c.read(c.args[1:], func(_ string, content io.Reader) error {
		text, err := io.ReadAll(content)
		lines := slices.Sorted(strings.Lines(string(text)))
		_, writeErr := io.WriteString(c.out, strings.Join(lines, ""))
		return errors.Join(err, writeErr)
	})
}

func wc(_ context.Context, c call) error {
	set := c.flags()
	onlyLines := set.BoolP("lines", "l", false, "")
	onlyBytes := set.BoolP("bytes", "c", false, "")
	onlyWords := set.BoolP("words", "w", false, "")
	if err := set.Parse(c.args[1:]); err != nil {
		return err
	}
	all := !*onlyLines && !*onlyBytes && !*onlyWords
	return c.read(set.Args(), func(name string, content io.Reader) error {
		text, err := io.ReadAll(content)
		var columns []string
		for _, column := range []struct {
			shown bool
			count int
		}{{*onlyLines, strings.Count(string(text), "\n")}, {*onlyWords, len(strings.Fields(string(text)))}, {*onlyBytes, len(text)}} {
			if column.shown || all {
				columns = append(columns, strconv.Itoa(column.count))
			}
		}
		if name != "" {
			columns = append(columns, name)
		}
		fmt.Fprintln(c.out, strings.Join(columns, " "))
		return err
	})
}
