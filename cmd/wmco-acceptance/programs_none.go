//go:build !acceptance

package main

import "embed"

// embedded returns an empty file system: only make acceptance compiles the programs for probes.
func embedded() (none embed.FS) { return none }
