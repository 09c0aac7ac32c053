//go:build !acceptance

package main

import "embed"

// embedded is empty: only make acceptance compiles the programs for probes.
func embedded() (none embed.FS) { return none }
