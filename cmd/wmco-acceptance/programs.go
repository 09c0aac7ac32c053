//go:build acceptance

package main

import "embed"

// programs holds the programs for probes that hack/acceptance.sh compiled.
//
//go:embed programs
var programs embed.FS

func embedded() embed.FS { return programs }
