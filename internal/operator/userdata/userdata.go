// Package userdata renders the script that a new Machine runs at its first start (on some platforms, at every start) so that the operator can log in.
// The script enables the account, installs and starts the SSH server, adds the public keys and opens the firewall. The package has no side effects.
package userdata

import (
	_ "embed"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	"github.com/windows-machine-config/wmco/internal/shared/platform"
)

//go:embed prepare.ps1
var prepare string

//go:embed aws.ps1
var aws string

// openFirewall is the last step: before it, the host cannot be reached.
const openFirewall = "Open-Firewall"

// Render returns the user data for a platform. keys are authorized_keys lines without options or comment; there are two during a key rotation.
// allowFrom are the address ranges that may connect to the SSH server; none allows all.
func Render(cloud string, keys, allowFrom []string) (string, error) {
	quoted, err := quote(keys)
	if err != nil {
		return "", err
	}
	ranges, err := quoteRanges(allowFrom)
	if err != nil {
		return "", err
	}
	steps, platformSteps := []string{"Enable-Account", "Install-Server", "Add-PublicKeys", "Start-Server"}, ""
	if platform.Of(cloud).RoutesInUserData {
		steps, platformSteps = append(steps, "Set-Routes"), aws
	}
	steps = append(steps, openFirewall) // from here on, the operator may log in and restart the host
	script := strings.NewReplacer(
		"    #KEYS#", "    "+strings.Join(quoted, ",\n    "),
		"    #ALLOWFROM#\n", ranges,
		"#PLATFORM#\n", platformSteps+"\n",
		"#STEPS#", "'"+strings.Join(steps, "', '")+"'",
	).Replace(prepare)
	if platform.Of(cloud).PlainUserData {
		return script, nil // Google's agent runs the plain text, at every start
	}
	// The other agents expect the tags. Agents that support the second one run the script at every start.
	return "<powershell>\n" + script + "</powershell>\n<persist>true</persist>\n", nil
}

func quoteRanges(ranges []string) (string, error) {
	var lines []string
	for _, r := range ranges {
		p, err := netip.ParsePrefix(r)
		if err != nil {
			return "", fmt.Errorf("rendering user data: %q is not an address range", r)
		}
		lines = append(lines, "    '"+p.String()+"'")
	}
	if len(lines) == 0 {
		return "", nil
	}
	return strings.Join(lines, ",\n") + "\n", nil
}

// quote returns the keys as PowerShell string literals. It rejects anything that is not a key, because it could be code.
func quote(keys []string) ([]string, error) {
	if len(keys) == 0 {
		return nil, errors.New("rendering user data: no public key is given, so the operator could not log in to hosts")
	}
	line := regexp.MustCompile(`^[a-z0-9@.-]+ [A-Za-z0-9+/]+={0,2}$`)
	var quoted []string
	for n, key := range keys {
		if !line.MatchString(key) {
			return nil, fmt.Errorf("rendering user data: public key %d is not an algorithm and a key in base64", n+1)
		}
		quoted = append(quoted, "'"+key+"'")
	}
	return quoted, nil
}
