package acceptance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
)

func tryRevision(_ context.Context, s *session) (string, error) {
	if s.facts.Build == 0 || s.facts.UBR == 0 {
		return "", untriedf("Windows does not tell its revision: %w", s.factsFailure)
	}
	return judgeRevision(s.facts.Build, s.facts.UBR)
}

// judgeRevision compares the revision of a build with the first one that supports pod networks.
func judgeRevision(build, revision int) (string, error) {
	// KB4489899 brings remote subnets of overlays (https://github.com/flannel-io/flannel/pull/1061). KB5012637 is required by the original operator's
	// docs/wmco-prerequisites.md.
	needs := map[int]struct {
		revision int
		update   string
	}{17763: {379, "KB4489899"}, 20348: {681, "KB5012637"}, 26100: {0, ""}}
	n, known := needs[build]
	seen := fmt.Sprintf("build %d, revision %d", build, revision)
	switch {
	case !known:
		return "", untriedf("%s: no release of Windows Server that can be a node has this build", seen)
	case revision < n.revision:
		return "", fmt.Errorf("%s: it needs revision %d (%s) or a later one: install the updates of Windows first", seen, n.revision, n.update)
	}
	return seen, nil
}

// adapterState is PowerShell's output for the adapter with the machine's address. The numbers are those of the CIM classes.
type adapterState struct {
	Alias             string `json:"-"`
	HardwareInterface bool
	Virtual           bool
	Description       string `json:"InterfaceDescription"`
	DHCP              int    `json:"Dhcp"` // MSFT_NetIPInterface: 0 disabled, 1 enabled
	MTU               int    `json:"NlMtu"`
	Addresses         int    `json:"-"`
}

func tryAdapter(ctx context.Context, s *session) (string, error) {
	for _, i := range s.facts.Interfaces {
		if !i.DefaultRoute {
			continue
		}
		state := adapterState{Alias: i.Name}
		for _, a := range i.Addresses {
			if a.Addr().Is4() {
				state.Addresses++
			}
		}
		number := fmt.Sprint(i.Index)
		for _, command := range []string{
			"Get-NetAdapter -IncludeHidden -InterfaceIndex " + number + " | Select-Object HardwareInterface,Virtual,InterfaceDescription",
			"Get-NetIPInterface -AddressFamily IPv4 -InterfaceIndex " + number + " | Select-Object Dhcp,NlMtu",
		} {
			output, err := s.powerShell(ctx, command+" | ConvertTo-Json -Compress")
			if err == nil {
				err = json.Unmarshal([]byte(output), &state)
			}
			if err != nil {
				return "", untriedf("PowerShell does not tell of adapter %q: %w", i.Name, err)
			}
		}
		return judgeAdapter(state)
	}
	return "", untriedf("no interface has a default route")
}

// judgeAdapter lists what is unusual about the adapter. It refutes the claim that this machine is like those on which such networks were created
// before.
func judgeAdapter(a adapterState) (string, error) {
	seen := fmt.Sprintf("adapter %q, %s, DHCP: %v, MTU %d, IPv4 addresses: %d", a.Alias, a.Description, a.DHCP == 1, a.MTU, a.Addresses)
	var reason []string
	if !a.HardwareInterface {
		reason = append(reason, "it has no hardware: a team, a switch of Hyper-V, or an adapter of another network")
	}
	if regexp.MustCompile(`(?i)^vEthernet `).MatchString(a.Alias) {
		reason = append(reason, "it is the host's side of a virtual switch, which others made")
	}
	if a.DHCP == 0 {
		reason = append(reason, "its address is static, which the first network may take away")
	}
	if a.Addresses > 1 {
		reason = append(reason, "it has several IPv4 addresses")
	}
	if len(reason) > 0 {
		return "", fmt.Errorf("%s: %s", seen, strings.Join(reason, "; "))
	}
	return seen, nil
}

// scanPatience is how long antivirus software may take to remove a program.
const scanPatience = 30 * time.Second

func tryAntivirus(ctx context.Context, s *session) (string, error) {
	home, err := s.home()
	if err != nil {
		return "", untriedf("%w", err)
	}
	file := filepath.Join(home, "wicd-0123456789abcdef-setup.exe")
	source, arguments := filepath.Join(filepath.Dir(s.Program), "join", filepath.FromSlash(setupProgram)), []string{"version"}
	if _, err := os.Stat(source); err != nil { // only make acceptance JOIN=1 builds it
		source, arguments = s.Program, []string{EchoCommand}
	}
	before := s.detections(ctx)
	if err := s.change(change{Kind: kindBrought}, func() error { return copyFile(source, file) }); err != nil {
		return "", fmt.Errorf("it cannot be copied: %w", err)
	}
	began := time.Now()
	command := exec.CommandContext(ctx, file, arguments...)
	command.Dir = home
	_, err = outputOf(command)
	ran := time.Since(began)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = nil // the program was started
	}
	if err != nil {
		return "", fmt.Errorf("it is not started: %w", err)
	}
	patience := scanPatience
	if s.Wine {
		patience = time.Second
	}
	if err := backoff.Sleep(ctx, patience); err != nil {
		return "", untriedf("%w", err)
	}
	if _, err := os.Stat(file); err != nil {
		return "", fmt.Errorf("it is gone %.0f s later: %w", patience.Seconds(), err)
	}
	after := s.detections(ctx)
	seen := fmt.Sprintf("%s ran for %.1f s; detections of Defender before and after: %s, %s", filepath.Base(source), ran.Seconds(), before, after)
	if before != after {
		return "", errors.New(seen)
	}
	return seen, nil
}

// detections returns how many threats Defender has detected, or that the number is unknown.
func (s *session) detections(ctx context.Context) string {
	if count, err := s.powerShell(ctx, "@(Get-MpThreatDetection).Count"); err == nil && count != "" {
		return count
	}
	return "unknown"
}
