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
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

func tryRevision(_ context.Context, s *session) (string, error) {
	if s.facts.Build == 0 || s.facts.UBR == 0 {
		return "", untriedErrorf("Windows did not report its revision: %w", s.factsFailure)
	}
	return checkRevision(windowsbuild.Build(s.facts.Build), s.facts.UBR)
}

// checkRevision compares a revision with the operator's own tables for its build.
func checkRevision(build windowsbuild.Build, revision int) (string, error) {
	seen := fmt.Sprintf("build %d, revision %d", build, revision)
	if _, known := windowsbuild.ReleaseOf(build); !known {
		return "", untriedErrorf("%s: no release of Windows Server that can be a node has this build", seen)
	}
	if update, isMissing := windowsbuild.Missing(build, revision); isMissing {
		return "", fmt.Errorf("%s: %s", seen, update.Without(revision))
	}
	if fault, hasFault := windowsbuild.FaultOf(build, revision); hasFault {
		return "", fmt.Errorf("%s: %s", seen, fault.At(revision))
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
				return "", untriedErrorf("reading adapter %q with PowerShell: %w", i.Name, err)
			}
		}
		return checkAdapter(state)
	}
	return "", untriedErrorf("no interface has a default route")
}

// checkAdapter lists what is unusual about the adapter. It refutes the claim that this machine is like those on which pod networks were created
// before.
func checkAdapter(a adapterState) (string, error) {
	seen := fmt.Sprintf("adapter %q, %s, DHCP: %v, MTU %d, IPv4 addresses: %d", a.Alias, a.Description, a.DHCP == 1, a.MTU, a.Addresses)
	var reason []string
	if !a.HardwareInterface {
		reason = append(reason, "it has no hardware: it is a team, a Hyper-V switch, or the adapter of another network")
	}
	if regexp.MustCompile(`(?i)^vEthernet `).MatchString(a.Alias) {
		reason = append(reason, "it is the host's side of an existing virtual switch")
	}
	if a.DHCP == 0 {
		reason = append(reason, "its address is static, and the first network may remove it")
	}
	if a.Addresses > 1 {
		reason = append(reason, "it has several IPv4 addresses")
	}
	if len(reason) > 0 {
		return "", fmt.Errorf("%s: %s", seen, strings.Join(reason, "; "))
	}
	return seen, nil
}

// scanTimeout is how long antivirus software may take to remove a program.
const scanTimeout = 30 * time.Second

// setupName is a name of the program that installs WICD on a new host. WICD's own name has no -setup.
const setupName = "wicd-0123456789abcdef-setup.exe"

func tryAntivirus(ctx context.Context, s *session) (string, error) {
	home, err := s.home()
	if err != nil {
		return "", untriedErrorf("%w", err)
	}
	file := s.Host.Disk.Local(home + `\` + setupName)
	source, arguments := filepath.Join(filepath.Dir(s.Program), "join", filepath.FromSlash(setupProgram)), []string{wicdapi.CommandFacts}
	if _, err := os.Stat(source); err != nil { // only make acceptance JOIN=1 builds it
		source, arguments = s.Program, []string{EchoCommand}
	}
	before := s.detections(ctx)
	if err := s.change(change{Kind: kindPrograms}, func() error { return copyFile(source, file) }); err != nil {
		return "", fmt.Errorf("copying it: %w", err)
	}
	began := time.Now()
	command := exec.CommandContext(ctx, file, arguments...)
	command.Dir = s.Host.Disk.Local(home)
	if output, err := outputOf(command); err != nil { // wicd-setup fails if WICD is blocked
		return "", fmt.Errorf("running it: %w: %s", err, tail(output))
	}
	ran := time.Since(began)
	programs, err := s.copiedPrograms(home)
	if err != nil {
		return "", untriedErrorf("%w", err)
	}
	pause := scanTimeout
	if s.Wine {
		pause = time.Second
	}
	if err := backoff.Sleep(ctx, pause); err != nil {
		return "", untriedErrorf("%w", err)
	}
	for _, name := range append(programs, setupName) {
		if !s.Host.Disk.Exists(home + `\` + name) {
			return "", fmt.Errorf("%s is gone %.0f s later", name, pause.Seconds())
		}
	}
	after := s.detections(ctx)
	seen := fmt.Sprintf("%s ran for %.1f s, with %d programs of the operator in the folder afterwards; detections of Defender before and after: %s, %s",
		filepath.Base(source), ran.Seconds(), len(programs), before, after)
	if before != after {
		return "", errors.New(seen)
	}
	return seen, nil
}

// copiedPrograms returns the names of the operator's programs in a folder.
func (s *session) copiedPrograms(folder string) ([]string, error) {
	program := regexp.MustCompile(`^wicd-[0-9a-f]{16}(-setup)?\.exe$`)
	names, err := s.Host.Disk.List(folder)
	return slices.DeleteFunc(names, func(name string) bool { return !program.MatchString(name) }), err
}

// detections returns how many threats Defender has detected, or that the number is unknown.
func (s *session) detections(ctx context.Context) string {
	if count, err := s.powerShell(ctx, "@(Get-MpThreatDetection).Count"); err == nil && count != "" {
		return count
	}
	return "unknown"
}
