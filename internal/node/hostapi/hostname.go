package hostapi

import (
	"fmt"
	"strings"
)

// maxHostname is the maximum length of a DNS label.
const maxHostname = 63

// CheckHostname rejects names that are not DNS labels: neither a host nor its node can have them.
func CheckHostname(name string) error {
	const allowed = "abcdefghijklmnopqrstuvwxyz0123456789-"
	isLabel := strings.Trim(strings.ToLower(name), allowed) == "" && strings.Trim(name, "-") == name
	if name == "" || len(name) > maxHostname || !isLabel {
		return fmt.Errorf("%q cannot be a host name: 1 to %d letters, digits and hyphens are allowed, with no hyphen at either end", name, maxHostname)
	}
	return nil
}
