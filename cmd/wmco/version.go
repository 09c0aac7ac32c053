package main

import (
	"runtime/debug"
	"strings"
)

// unstamped is the version of a build that does not know its commit, as that of `go run` or of the lab.
const unstamped = "0.0.0-devel"

// version is the operator's semantic version: that of the git tag it was built at, or what Go makes of the tag before and the commit.
func version() string {
	info, _ := debug.ReadBuildInfo()
	return versionOf(info)
}

// versionOf takes the version out of build information. ConfigMaps and nodes have it in names and annotations: a + becomes a dot.
func versionOf(info *debug.BuildInfo) string {
	if info == nil || !strings.HasPrefix(info.Main.Version, "v") {
		return unstamped
	}
	return strings.ReplaceAll(strings.TrimPrefix(info.Main.Version, "v"), "+", ".")
}
