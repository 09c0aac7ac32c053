// The command builds the Helm chart of deploy/. "make chart" runs it.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/windows-machine-config/wmco/release/chart"
)

func main() {
	set := flag.NewFlagSet("chart", flag.ExitOnError)
	var s chart.Source
	set.StringVar(&s.Deploy, "deploy", "../deploy", "`folder` with the manifests")
	set.StringVar(&s.Version, "version", "0.0.0-devel", "semantic `version` of chart and operator, without v")
	set.StringVar(&s.Image, "image", "", "the operator's `image`, as repository:tag, repository@digest or repository:tag@digest; that of the manifests by default")
	out := set.String("out", "../_chart", "`folder` for the chart and its archive")
	_ = set.Parse(os.Args[1:]) // prints the error and exits
	archive, err := chart.Write(*out, s)
	if err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
	fmt.Println(archive)
}
