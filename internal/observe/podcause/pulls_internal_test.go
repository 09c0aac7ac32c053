package podcause

import (
	"slices"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/api"
)

// TestImageNamesDoNotDetermineCause expects signatures that no image name can contain: messages quote the name, which a user chooses.
func TestImageNamesDoNotDetermineCause(t *testing.T) {
	const inNames = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:@"
	for _, s := range append(startSignatures(), pullSignatures()...) {
		for _, text := range s.texts {
			if strings.Trim(text, inNames) == "" && !strings.Contains(text, "//") {
				t.Errorf("%q of %s may be a part of an image's name", text, s.reason)
			}
		}
	}
}

// TestPullCausesArePodReasons expects all reasons in api.PodReasons, because others are not reported.
func TestPullCausesArePodReasons(t *testing.T) {
	for _, s := range append(startSignatures(), pullSignatures()...) {
		if s.reason != "" && !slices.Contains(api.PodReasons(), s.reason) {
			t.Errorf("%s is no reason of a pod", s.reason)
		}
	}
}
