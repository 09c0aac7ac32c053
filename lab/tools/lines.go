package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// head prints the first lines or bytes.
func head(_ context.Context, c call) error {
	set := c.flags()
	count := set.IntP("lines", "n", 10, "")
	size := set.Int64P("bytes", "c", -1, "")
	if err := set.Parse(c.args[1:]); err != nil {
		return err
	}
	return c.read(set.Args(), func(_ string, content io.Reader) error {
		if *size >= 0 {
			_, err := io.CopyN(c.out, content, *size)
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		}
		lines := bufio.NewScanner(content)
		for n := 0; n < *count && lines.Scan(); n++ {
			fmt.Fprintln(c.out, lines.Text())
		}
		return lines.Err()
	})
}

// hexdump prints bytes as numbers and as text, like "hexdump -C".
func hexdump(_ context.Context, c call) error {
	set := c.flags()
	set.BoolP("canonical", "C", true, "")
	if err := set.Parse(c.args[1:]); err != nil {
		return err
	}
	return c.read(set.Args(), func(_ string, content io.Reader) error {
		dumper := hex.Dumper(c.out)
		_, err := io.Copy(dumper, content)
		return errors.Join(err, dumper.Close())
	})
}

// followInterval is how often tail -f reads the file.
const followInterval = 500 * time.Millisecond

// tail prints the last lines, or the lines from a number on ("-n +2"), and with -f also added ones.
func tail(ctx context.Context, c call) error {
	set := c.flags()
	number := set.StringP("lines", "n", "10", "")
	follows := set.BoolP("follow", "f", false, "")
	if err := set.Parse(c.args[1:]); err != nil {
		return err
	}
	count, err := strconv.Atoi(*number)
	if err != nil {
		return err
	}
	err = c.read(set.Args(), func(_ string, content io.Reader) error {
		text, err := io.ReadAll(content)
		lines := strings.SplitAfter(string(text), "\n")
		if lines[len(lines)-1] == "" {
			lines = lines[:len(lines)-1]
		}
		if strings.HasPrefix(*number, "+") {
			lines = lines[min(len(lines), max(count-1, 0)):]
		} else {
			lines = lines[max(0, len(lines)-max(count, -count)):]
		}
		_, writeErr := io.WriteString(c.out, strings.Join(lines, ""))
		return errors.Join(err, writeErr)
	})
	if err != nil || !*follows || set.NArg() == 0 {
		return err
	}
	return c.follow(ctx, c.path(set.Arg(0)))
}

func (c call) follow(ctx context.Context, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if path != os.DevNull {
		if _, err := f.Seek(0, io.SeekEnd); err != nil {
			return err
		}
	}
	for {
		if _, err := io.Copy(c.out, f); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(followInterval):
		}
	}
}
