// The command builds the payload: every program of the operator for Windows hosts. "make payload" runs it in the folder of the
// repository, and "make vulncheck-payload" with --programs.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/windows-machine-config/wmco/payload"
	"github.com/windows-machine-config/wmco/payload/build"
)

func main() {
	out := flag.String("out", "_payload", "`folder` to write the payload to")
	only := flag.String("only", "", "comma-separated `names` of the components to build (default: all)")
	version := flag.String("version", "devel", "`version` to record for this repository's own programs")
	programs := flag.Bool("programs", false, "print the paths of the third-party programs, which are built, and write no payload")
	flag.Usage = usage
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o := build.Options{Root: ".", Out: *out, Version: *version, Log: os.Stdout}
	if *programs {
		o.Log = os.Stderr
	}
	if err := run(ctx, o, *only, *programs); err != nil {
		fmt.Fprintf(os.Stderr, "building the payload: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o build.Options, only string, programs bool) error {
	begin := time.Now()
	o.Components = build.Components()
	if only != "" {
		var err error
		if o.Components, err = build.Named(strings.Split(only, ",")...); err != nil {
			return err
		}
	}
	if programs {
		paths, err := build.Programs(ctx, o)
		for _, path := range paths {
			fmt.Println(path)
		}
		return err
	}
	m, err := build.Build(ctx, o)
	if err != nil {
		return err
	}
	return report(os.Stdout, m, fmt.Sprintf("%s is complete after %.1f s", o.Out, time.Since(begin).Seconds()))
}

func usage() {
	w := flag.CommandLine.Output()
	fmt.Fprint(w, "Builds the payload for Windows hosts. Run it in the folder of the repository.\n\nFlags:\n")
	flag.PrintDefaults()
	fmt.Fprint(w, "\nComponents:\n")
	for _, c := range build.Components() {
		fmt.Fprintf(w, "  %-26s %s\n", c.FullName(), c.Path)
	}
}

// report prints the content of the payload.
func report(w io.Writer, m payload.Manifest, headline string) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nFILE\tVERSION\tGROUP\tSIZE\tCOMPRESSED\tSHA256")
	var size, compressed int64
	for _, f := range m.Files {
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%s\n", f.Path, f.Version, f.Group, f.Size, f.Compressed.Size, f.SHA256)
		size, compressed = size+f.Size, compressed+f.Compressed.Size
	}
	fmt.Fprintf(table, "total\t\t\t%d\t%d\n", size, compressed)
	if m.Setup.Path != "" {
		fmt.Fprintf(table, "%s\t%s\t\t%d\t\t%s\n", m.Setup.Path, m.Setup.Version, m.Setup.Size, m.Setup.SHA256)
	}
	fmt.Fprintf(table, "%s: version %s\n", headline, m.Digest)
	return table.Flush()
}
