package main

import (
	"runtime/debug"
	"testing"
)

func TestVersionIsReadFromTag(t *testing.T) {
	for built, want := range map[string]string{
		"v0.2.0":                               "0.2.0",
		"v1.0.0-rc.1":                          "1.0.0-rc.1",
		"v0.2.0+dirty":                         "0.2.0.dirty",
		"v0.2.1-0.20261123013632-5d4820e1a2b3": "0.2.1-0.20261123013632-5d4820e1a2b3",
		"(devel)":                              "0.0.0-devel",
		"":                                     "0.0.0-devel",
	} {
		if got := versionOf(&debug.BuildInfo{Main: debug.Module{Version: built}}); got != want {
			t.Errorf("build version %q: got %q, want %q", built, got, want)
		}
	}
	if got := versionOf(nil); got != "0.0.0-devel" {
		t.Errorf("without build information: got %q", got)
	}
}
