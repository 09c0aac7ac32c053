package main

import (
	"regexp"
	"testing"

	"github.com/windows-machine-config/wmco/internal/operator/lifecycle"
	"github.com/windows-machine-config/wmco/payload/build"
)

func TestEachKubeletHasOpenShiftVersion(t *testing.T) {
	for _, minor := range build.Minors() {
		if lifecycle.OpenShiftOf(minor) == "" {
			t.Errorf("no version of OpenShift for Kubernetes %s", minor)
		}
	}
}

func TestSupportPageListsEndOfSupport(t *testing.T) {
	files, err := support("../..")
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]string{
		"Kubernetes": `(?m)^\| 1\.37 \|.*\[\d{4}-\d\d-\d\d\]`, "OpenShift": `(?m)^\| 1\.33 \| 4\.20 .*\]\(https://access\.redhat\.com`,
		"Windows": `(?m)^\| 10\.0\.\d+ \| Windows Server 2025 \| \[\d{4}`, "containerd": `containerd gets fixes until\n\[\d{4}-\d\d-\d\d\]\(https`,
	} {
		if !regexp.MustCompile(row).Match(files["docs/support.md"]) {
			t.Errorf("%s: nothing on the page matches %s", name, row)
		}
	}
}
