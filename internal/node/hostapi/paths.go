package hostapi

import "strings"

// IsRelative reports whether a Windows path is relative and stays below its base folder.
func IsRelative(path string) bool {
	for segment := range strings.SplitSeq(path, `\`) {
		if strings.Trim(segment, ". ") == "" || strings.ContainsAny(segment, `/:*?"<>|`) {
			return false
		}
	}
	return true
}
