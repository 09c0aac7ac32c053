package host

import (
	"fmt"
	"strings"
)

// maxHostname is how many characters a label of DNS has at most.
const maxHostname = 63

// CheckHostname refuses names that a host, or the node on it, cannot have: those that are no label of DNS.
func CheckHostname(name string) error {
	const allowed = "abcdefghijklmnopqrstuvwxyz0123456789-"
	isLabel := strings.Trim(strings.ToLower(name), allowed) == "" && strings.Trim(name, "-") == name
	if name == "" || len(name) > maxHostname || !isLabel {
		return fmt.Errorf("%q cannot be a host name: it has 1 to %d letters, digits and '-', the last not at its ends", name, maxHostname)
	}
	return nil
}
