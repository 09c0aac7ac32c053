package host

import "strings"

// IsRelative tells whether a Windows path stays below the folder it is used in.
func IsRelative(path string) bool {
	for segment := range strings.SplitSeq(path, `\`) {
		if strings.Trim(segment, ". ") == "" || strings.ContainsAny(segment, `/:*?"<>|`) {
			return false
		}
	}
	return true
}
