// The command writes the files of a release. "make release" runs it.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/windows-machine-config/wmco/release/artifacts"
)

func main() {
	set := flag.NewFlagSet("release", flag.ExitOnError)
	var s artifacts.Source
	set.StringVar(&s.Version, "version", "", "semantic `version` of the release, without v")
	set.StringVar(&s.Layout, "image", "../_image", "`folder` with the image that make image wrote")
	set.StringVar(&s.OLM, "olm", "../_olm", "`folder` with the bundle and the catalog that make catalog wrote")
	set.StringVar(&s.Plugin, "plugin", "../_plugin", "`folder` with kubectl windows that make plugin wrote")
	set.StringVar(&s.Repository, "repository", "ghcr.io/windows-machine-config/wmco", "`repository` that the image is published in")
	set.StringVar(&s.Deploy, "deploy", "../deploy", "`folder` with the manifests")
	set.StringVar(&s.Changelog, "changelog", "../CHANGELOG.md", "`file` with the changes of each version")
	out := set.String("out", "../_release", "`folder` for the release, which is replaced")
	_ = set.Parse(os.Args[1:]) // prints the error and exits
	names, err := artifacts.Write(*out, s)
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
	for _, name := range names {
		fmt.Println(filepath.Join(*out, name))
	}
}
