package hostspec

import (
	"os"
	"path/filepath"
	"strings"
)

// OnDrive returns the path on this machine of a file of Windows, whether it exists or not. c is the folder of drive C:. As on
// Windows, names are not case-sensitive; an exact match wins.
func OnDrive(c, path string) string {
	path = strings.ReplaceAll(strings.TrimPrefix(path, `\\?\`), `\`, "/")
	if len(path) > 1 && path[1] == ':' {
		path = path[2:]
	}
	at := c
	for name := range strings.SplitSeq(strings.TrimPrefix(filepath.Clean("/"+path), "/"), "/") {
		at = filepath.Join(at, entry(at, name))
	}
	return at
}

func entry(dir, name string) string {
	if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
		return name
	}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if strings.EqualFold(e.Name(), name) {
			return e.Name()
		}
	}
	return name
}
