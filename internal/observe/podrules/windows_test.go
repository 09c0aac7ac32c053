package podrules

import (
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

func TestImageGenerations(t *testing.T) {
	for image, want := range map[string]string{
		"mcr.microsoft.com/windows/nanoserver:ltsc2022": "ltsc2022", "a:windowsservercore-1809-amd64": "ltsc2019", "registry:5000/a": "", "registry:5000/a:10.0.26100.1": "ltsc2025",
		"a@sha256:1809": "", "a:1.18090": "", "a:ltsc2022@sha256:17763": "ltsc2022", "": "", "a:LTSC2022": "ltsc2022", "a:WindowsServerCore-LTSC2025": "ltsc2025",
		"a:ltsc2019-or-ltsc2022": "ltsc2019 ltsc2022", "1809/a:b": "",
	} {
		var got []string
		for _, r := range windowsbuild.Releases() {
			if isOf(image, r.Tag) {
				got = append(got, r.Tag)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("the tag of %s names %q, want %q", image, got, want)
		}
	}
}
