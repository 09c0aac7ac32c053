package main

import (
	"cmp"
	"runtime/debug"
)

// version is that of the git tag this was built at, or what Go makes of the tag before and the commit.
func version() string {
	info, known := debug.ReadBuildInfo()
	if !known {
		return "unknown"
	}
	return cmp.Or(info.Main.Version, "unknown")
}
