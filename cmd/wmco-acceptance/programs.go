//go:build acceptance

package main

import "embed"

// programs are what hack/acceptance.sh compiled for probes.
//
//go:embed programs
var programs embed.FS

func embedded() embed.FS { return programs }
