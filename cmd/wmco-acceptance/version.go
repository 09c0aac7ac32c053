package main

import (
	"cmp"
	"runtime/debug"
)

// version returns the git tag this was built from, or the pseudo-version that Go derives from the previous tag and the commit.
func version() string {
	info, known := debug.ReadBuildInfo()
	if !known {
		return "unknown"
	}
	return cmp.Or(info.Main.Version, "unknown")
}
