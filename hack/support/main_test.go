package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/windows-machine-config/wmco/internal/operator/lifecycle"
	"github.com/windows-machine-config/wmco/payload/build"
)

func TestPageIsThatOfTheCode(t *testing.T) {
	want, err := render("../..")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile("../../docs/support.md"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("docs/support.md is not what the code says (%v): run make generate", err)
	}
}

func TestEachKubeletHasItsOpenShift(t *testing.T) {
	for _, minor := range build.Minors() {
		if lifecycle.OpenShiftOf(minor) == "" {
			t.Errorf("there is no version of OpenShift for Kubernetes %s", minor)
		}
	}
}
