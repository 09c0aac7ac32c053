package build_test

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/payload"
	"github.com/windows-machine-config/wmco/payload/build"
)

func TestExternalFileIsTakenOnlyWithItsChecksum(t *testing.T) {
	const text = "a file from elsewhere"
	sum, zeros := fmt.Sprintf("%x", sha256.Sum256([]byte(text))), strings.Repeat("0", 64)
	entry := func(component, file, version, sum string) string {
		return fmt.Sprintf("files:\n- {component: %q, file: %q, version: %q, sha256: %q}\n", component, file, version, sum)
	}
	good := entry("csi-proxy", "csi.exe", "v1.4.0", sum)
	for name, test := range map[string]struct {
		manifest, wantErr string
	}{
		"the declared file":       {good, ""},
		"in capitals":             {entry("csi-proxy", "csi.exe", "v1.4.0", strings.ToUpper(sum)), ""},
		"another file":            {entry("csi-proxy", "csi.exe", "v1.4.0", zeros), "csi.exe has sha256 " + sum + ", and external.yaml declares " + zeros + " for csi-proxy v1.4.0"},
		"no file":                 {entry("csi-proxy", "other.exe", "v1.4.0", sum), "other.exe"},
		"no checksum":             {entry("csi-proxy", "csi.exe", "v1.4.0", ""), "files[0].sha256"},
		"half a checksum":         {entry("csi-proxy", "csi.exe", "v1.4.0", sum[:63]), "files[0].sha256"},
		"no version":              {entry("csi-proxy", "csi.exe", "", sum), "files[0].version"},
		"a program that is built": {entry("kubelet", "csi.exe", "v1.4.0", sum), `files[0].component is "kubelet"; allowed are csi-proxy`},
		"in another folder":       {entry("csi-proxy", "../csi.exe", "v1.4.0", sum), "files[0].file"},
		"in Windows' way":         {entry("csi-proxy", `a\\csi.exe`, "v1.4.0", sum), "files[0].file"},
		"twice":                   {good + strings.TrimPrefix(good, "files:\n"), "files[1].component"},
		"a field that is unknown": {good + "more: x\n", "more"},
		"no YAML":                 {"{", "external.yaml"},
		"no manifest":             {"", "external.yaml is not there; write it as payload/README.md says"},
	} {
		t.Run(name, func(t *testing.T) {
			root, _ := repository(t)
			o := options(t, root, []build.Component{{Name: "csi-proxy", Path: "csi-proxy.exe", Group: payload.Base, External: true}})
			o.External = t.TempDir()
			writeFile(t, filepath.Join(o.External, "csi.exe"), text)
			if test.manifest != "" {
				writeFile(t, filepath.Join(o.External, build.ExternalManifest), test.manifest)
			}
			m, err := build.Build(t.Context(), o)
			switch {
			case test.wantErr != "":
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Errorf("error is %v, want one with %q", err, test.wantErr)
				}
			case err != nil:
				t.Error(err)
			case len(m.Files) != 1 || m.Files[0].SHA256 != sum || m.Files[0].Version != "v1.4.0" || len(m.Left) > 0:
				t.Errorf("files are %v, left out is %v", m.Files, m.Left)
			}
		})
	}
}

func TestExternalFileThatIsNotGivenIsLeftOut(t *testing.T) {
	root, _ := repository(t)
	o := options(t, root, []build.Component{{Name: "csi-proxy", Path: "csi-proxy.exe", Group: payload.Base, External: true}})
	m, err := build.Build(t.Context(), o)
	if err != nil || len(m.Files) > 0 || len(m.Left) != 1 || m.Left[0].Component != "csi-proxy" || !strings.Contains(m.Left[0].Reason, "EXTERNAL=") {
		t.Errorf("files are %v, left out is %v, error %v", m.Files, m.Left, err)
	}
}
