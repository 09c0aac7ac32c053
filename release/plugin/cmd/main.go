// The command packs kubectl windows for all platforms, with krew's manifest. "make plugin" runs it.
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/windows-machine-config/wmco/release/archive"
	"github.com/windows-machine-config/wmco/release/plugin"
)

func main() {
	set := flag.NewFlagSet("plugin", flag.ExitOnError)
	var s plugin.Source
	set.StringVar(&s.Version, "version", "", "semantic `version` of the release, without v")
	set.StringVar(&s.Programs, "programs", "../bin", "`folder` with the program for each platform")
	set.StringVar(&s.License, "license", "../LICENSE", "`file` with the license")
	set.StringVar(&s.Downloads, "downloads", "", "`URL` of the folder that the archives are published in")
	out := set.String("out", "../_plugin", "`folder` for the archives, which is replaced")
	_ = set.Parse(os.Args[1:]) // prints the error and exits
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
	if err := archive.WriteFolder(out, files); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Println(filepath.Join(out, name))
	}
	return nil
}
