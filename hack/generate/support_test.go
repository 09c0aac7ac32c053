package main

import (
	"testing"

	"github.com/windows-machine-config/wmco/internal/operator/lifecycle"
	"github.com/windows-machine-config/wmco/payload/build"
)

func TestEachKubeletHasItsOpenShift(t *testing.T) {
	for _, minor := range build.Minors() {
		if lifecycle.OpenShiftOf(minor) == "" {
			t.Errorf("there is no version of OpenShift for Kubernetes %s", minor)
		}
	}
}
