// The command packs kubectl windows for all platforms, with krew's manifest. "make plugin" runs it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/windows-machine-config/wmco/release/plugin"
)

func main() {
	set := flag.NewFlagSet("plugin", flag.ContinueOnError)
	var s plugin.Source
	set.StringVar(&s.Version, "version", "", "semantic `version` of the release, without v")
	set.StringVar(&s.Programs, "programs", "../bin", "`folder` with the program for each platform")
	set.StringVar(&s.License, "license", "../LICENSE", "`file` with the license")
	set.StringVar(&s.Downloads, "downloads", "", "`URL` of the folder that the archives are published in")
	out := set.String("out", "../_plugin", "`folder` for the archives, which is replaced")
	if err := set.Parse(os.Args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		os.Exit(2) // Parse has said why
	}
	if err := write(*out, s); err != nil {
		fmt.Fprintln(os.Stderr, "plugin:", err)
		os.Exit(1)
	}
}

func write(out string, s plugin.Source) error {
	files, err := plugin.Files(s)
	if err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(out), os.MkdirAll(out, 0o755)); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := os.WriteFile(filepath.Join(out, name), files[name], 0o644); err != nil {
			return err
		}
		fmt.Println(filepath.Join(out, name))
	}
	return nil
}
