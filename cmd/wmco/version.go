package main

import (
	"runtime/debug"
	"strings"
)

// develVersion is the version of builds without VCS information, such as those of `go run` or the lab.
const develVersion = "0.0.0-devel"

// version returns the operator's semantic version: the git tag it was built from, or Go's pseudo-version.
func version() string {
	info, _ := debug.ReadBuildInfo()
	return versionOf(info)
}

// versionOf returns the version in the build information. ConfigMap names and node annotations contain it, so a + becomes a dot.
func versionOf(info *debug.BuildInfo) string {
	if info == nil || !strings.HasPrefix(info.Main.Version, "v") {
		return develVersion
	}
	return strings.ReplaceAll(strings.TrimPrefix(info.Main.Version, "v"), "+", ".")
}
