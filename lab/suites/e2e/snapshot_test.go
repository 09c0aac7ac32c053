//go:build linux

package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/windows-machine-config/wmco/lab"
)

// snapshot is the state of a host: the state of each service, the content of each file and each value of the machine's registry.
type snapshot map[string]string

// registryDump is the file to which a host exports its registry.
const registryDump = `C:\lab\registry.reg`

// takeSnapshot reads the state of a host.
func takeSnapshot(t *testing.T, host *lab.Host) snapshot {
	t.Helper()
	s := snapshot{}
	services, err := host.Services(t.Context())
	must(t, err)
	for _, service := range services {
		s["service "+service.Name] = service.Command
	}
	result, err := host.Exec(t.Context(), "reg.exe export HKLM "+registryDump+" /y")
	if err != nil || result.ExitCode != 0 {
		t.Fatalf("exporting the registry of %s: %+v, %v", host.Name(), result, err)
	}
	dump, err := host.ReadFile(registryDump)
	must(t, err)
	s.addRegistry(dump)
	root, err := host.Path(`C:\`)
	must(t, err)
	must(t, s.addFiles(root))
	return s
}

// addRegistry adds the values of an export: UTF-16 with a key in brackets before its values.
func (s snapshot) addRegistry(dump []byte) {
	units := make([]uint16, 0, len(dump)/2)
	for i := 2; i+1 < len(dump); i += 2 { // after the byte order mark
		units = append(units, uint16(dump[i])|uint16(dump[i+1])<<8)
	}
	text := strings.ReplaceAll(string(utf16.Decode(units)), "\\\r\n", "") // long values continue on the next line
	key := ""
	for line := range strings.SplitSeq(text, "\r\n") {
		if strings.HasPrefix(line, "[") {
			key = strings.Trim(line, "[]")
			s["registry "+key] = "key"
			continue
		}
		if name, value, ok := strings.Cut(line, "="); ok {
			s["registry "+key+` `+name] = value
		}
	}
}

// addFiles adds the files below a folder. For Windows' own files it uses only the size.
func (s snapshot) addFiles(root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := `C:` + strings.ReplaceAll(strings.TrimPrefix(path, root), "/", `\`)
		if name == `C:\lab` {
			return fs.SkipDir // the lab's own files
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		got := info.Mode().Type().String()
		if info.Mode().IsRegular() {
			got = fmt.Sprint(info.Size())
			if !strings.HasPrefix(name, `C:\windows\`) {
				content, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				sum := sha256.Sum256(content)
				got += " " + hex.EncodeToString(sum[:])
			}
		}
		s["file "+name] = got
		return nil
	})
}

// compare returns the differences, except the journal and logs, the files that the event named as remaining, and values that Windows
// itself changes.
func (s snapshot) compare(now snapshot, remains string) (differences []string) {
	all := maps.Clone(s)
	maps.Copy(all, now)
	for _, what := range slices.Sorted(maps.Keys(all)) {
		before, got := s[what], now[what]
		if before == got || mayDiffer(what) || strings.HasPrefix(what, "file ") && strings.Contains(remains, strings.TrimPrefix(what, "file ")) {
			continue
		}
		differences = append(differences, fmt.Sprintf("%s: got %.200q, want %.200q", what, got, before))
	}
	return differences
}

func mayDiffer(what string) bool {
	for _, part := range []string{
		`file C:\var\log\`, `file C:\k\state\journal`, // remain for support
		`file C:\users\Public\containerd`, // services on Wine use this folder instead of C:\ProgramData
		`registry HKEY_LOCAL_MACHINE\Software\Microsoft\SystemCertificates\`,
		`registry HKEY_LOCAL_MACHINE\Software\Wow6432Node\Microsoft\SystemCertificates\`,                             // Wine fills the stores at their first use
		`registry HKEY_LOCAL_MACHINE\System\CurrentControlSet\Control\ServiceCurrent `,                               // the number of started services
		`registry HKEY_LOCAL_MACHINE\System\CurrentControlSet\Control\Video\`,                                        // Wine searches for a screen
		`registry HKEY_LOCAL_MACHINE\System\CurrentControlSet\Control\Class\{4D36E968-E325-11CE-BFC1-08002BE10318}\`, // and at its start again
	} {
		if strings.HasPrefix(what, part) {
			return true
		}
	}
	if strings.HasPrefix(what, `registry `) && strings.Contains(what, `\CurrentVersion\Fonts `) {
		return true // Wine lists the machine's fonts under four keys when it starts
	}
	return slices.Contains([]string{`file C:\var`, `file C:\var\log`, `file C:\k`, `file C:\k\state`}, what) // the folders above
}
