package acceptance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/platform"
	"github.com/windows-machine-config/wmco/internal/shared/platform/metadata"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

const (
	// system32 is the folder of the Windows programs.
	system32 = `C:\Windows\System32\`
	// testFeature is a small feature that every Windows Server has and no other feature depends on.
	testFeature = "TelnetClient"
	// excludedFolder does not exist.
	excludedFolder = Root + `\excluded`
	// testHostname has 15 characters, the maximum of a NetBIOS name.
	testHostname = "wmco-acceptance"
)

// run runs a Windows program and returns its output and exit code.
func (s *session) run(ctx context.Context, command string) (output string, exitCode int, err error) {
	var b bytes.Buffer
	err = s.Host.Programs.Run(ctx, system32+command, nil, &b)
	var exit interface{ ExitCode() int } // *exec.ExitError
	if errors.As(err, &exit) {
		return b.String(), exit.ExitCode(), nil
	}
	return b.String(), 0, err
}

// featureState returns the state of a feature in the words of dism.exe: Enabled, Disabled, Enable Pending.
func (s *session) featureState(ctx context.Context, feature string) (string, error) {
	output, code, err := s.run(ctx, "dism.exe /English /Online /Get-FeatureInfo /FeatureName:"+feature)
	if err != nil {
		return "", err
	}
	m := regexp.MustCompile(`(?m)^State : (.+?)\s*$`).FindStringSubmatch(output)
	if m == nil {
		return "", fmt.Errorf("dism.exe did not report the state of feature %s (exit code %d)", feature, code)
	}
	return m[1], nil
}

func (s *session) disableFeature(ctx context.Context, feature string) error {
	state, err := s.featureState(ctx, feature)
	if err != nil || strings.HasPrefix(state, "Disable") {
		return err
	}
	const takesEffectLater = 3010 // ERROR_SUCCESS_REBOOT_REQUIRED
	output, code, err := s.run(ctx, "dism.exe /English /Online /Disable-Feature /FeatureName:"+feature+" /NoRestart /Quiet")
	if err == nil && code != 0 && code != takesEffectLater {
		err = fmt.Errorf("dism.exe exited with code %d: %s", code, strings.TrimSpace(output))
	}
	return err
}

func tryFeature(ctx context.Context, s *session) (string, error) {
	before, err := s.featureState(ctx, testFeature)
	if err != nil {
		return "", untriedErrorf("%w", err)
	}
	if before != "Disabled" {
		return "", untriedErrorf("feature %s is already %s", testFeature, before)
	}
	began := time.Now()
	var reboot bool
	err = s.change(change{kindFeature, testFeature}, func() error {
		reboot, err = s.Host.System.EnableFeature(ctx, testFeature)
		return err
	})
	if err != nil {
		return "", err
	}
	duration := time.Since(began)
	after, err := s.featureState(ctx, testFeature)
	isEnabled := after == "Enabled" || reboot && after == "Enable Pending"
	if err == nil && !isEnabled {
		err = fmt.Errorf("it is %s afterwards", after)
	}
	return fmt.Sprintf("enabled after %.1f s, needs a restart: %v", duration.Seconds(), reboot), err
}

func tryHyperV(ctx context.Context, s *session) (string, error) {
	state, err := s.featureState(ctx, desired.HyperVFeature)
	if err != nil {
		return "", untriedErrorf("%w", err)
	}
	got, err := s.Host.System.Feature(ctx, desired.HyperVFeature)
	if err != nil {
		return "", untriedErrorf("WICD cannot read the state of the feature: %w", err)
	}
	v := s.facts.Virtualization
	seen := fmt.Sprintf("the feature is %q; the processor supports virtual machines: %v, the hypervisor is %q, and Hyper-V runs: %v",
		state, v.Processor, v.Hypervisor, v.HyperV)
	isEnabled := state == "Enabled"
	switch {
	case isEnabled != (got == wicdapi.FeatureEnabled):
		err = fmt.Errorf("WICD reports the feature as %s", got)
	case v.HyperV && !isEnabled && s.hasVirtualizationBasedSecurity(ctx):
		seen += "; virtualization-based security has started the hypervisor"
	case v.HyperV && !isEnabled:
		err = errors.New("WICD reports that Hyper-V runs, but the feature is not enabled and virtualization-based security is off")
	}
	return seen, err
}

// hasVirtualizationBasedSecurity reports whether Windows uses its hypervisor for its own security. Credential Guard does so by default on Windows
// Server 2025 in a domain (https://learn.microsoft.com/windows/security/identity-protection/credential-guard/).
func (s *session) hasVirtualizationBasedSecurity(ctx context.Context) bool {
	output, err := s.powerShell(ctx, `Get-CimInstance -Namespace root\Microsoft\Windows\DeviceGuard -ClassName Win32_DeviceGuard`+
		" | ForEach-Object VirtualizationBasedSecurityStatus")
	const running = "2"
	if err == nil && output == running {
		return true
	}
	output, err = s.commandOutput(ctx, `reg.exe query HKLM\SYSTEM\CurrentControlSet\Control\DeviceGuard /v EnableVirtualizationBasedSecurity`)
	return err == nil && strings.Contains(output, "0x1")
}

func tryRename(ctx context.Context, s *session) (string, error) {
	folder, err := s.folder(ctx, "rename")
	if err != nil {
		return "", untriedErrorf("%w", err)
	}
	const from, to = `\from`, `\to`
	if _, err := s.Host.Disk.WriteFile(folder+from+`\file`, "open"); err != nil {
		return "", untriedErrorf("%w", err)
	}
	f, err := s.Host.Disk.Open(folder + from + `\file`)
	if err != nil {
		return "", untriedErrorf("%w", err)
	}
	defer f.Close()
	refusal := s.Host.Disk.Rename(folder+from, folder+to)
	if refusal == nil {
		return "", errors.New("Windows renamed the folder")
	}
	return refusal.Error(), nil
}

func tryHostname(ctx context.Context, s *session) (string, error) {
	before := s.facts
	switch err := hostapi.CheckHostname(before.Hostname); {
	case err != nil:
		return "", untriedErrorf("the former name of the machine could not be restored: %w", err)
	case before.Domain != "":
		return "", untriedErrorf("the machine is in a domain, which may reject another name")
	case strings.EqualFold(before.Hostname, testHostname):
		return "", untriedErrorf("the machine already has the name that the probe sets")
	case pendingRename(before.PendingReboot) != "": // it would be lost
		return "", untriedErrorf("another new name is already pending: %s", pendingRename(before.PendingReboot))
	}
	err := s.change(change{kindHostname, before.Hostname}, func() error { return s.Host.NextStart.Rename(ctx, testHostname) })
	if err != nil {
		return "", err
	}
	after, err := s.Host.System.Facts(ctx)
	switch {
	case err != nil:
		return "", untriedErrorf("%w", err)
	case after.Hostname != before.Hostname:
		return "", errors.New("it returns the new name at once")
	case pendingRename(after.PendingReboot) == "":
		return "", errors.New("it returns the old name, but reports no pending restart")
	}
	return "it returns the old name and reports a pending restart", nil
}

// pendingRename returns the pending restart's cause that is a new host name; empty if there is none. Other causes are common on servers.
func pendingRename(causes []string) string {
	if i := slices.IndexFunc(causes, hostapi.IsRenamePending); i >= 0 {
		return causes[i]
	}
	return ""
}

// Exit codes of shutdown.exe.
const (
	shutdownScheduled = 1190 // ERROR_SHUTDOWN_IS_SCHEDULED
	noShutdown        = 1116 // ERROR_NO_SHUTDOWN_IN_PROGRESS
)

func tryRestart(ctx context.Context, s *session) (string, error) {
	if s.Wine {
		return "", untriedErrorf("Wine cannot restart")
	}
	const longest = "shutdown.exe /r /t 315360000 /d p:4:1" // ten years
	restart := change{Kind: kindRestart}
	var first int
	err := s.change(restart, func() (err error) {
		_, first, err = s.run(ctx, longest)
		return err
	})
	if err != nil {
		return "", untriedErrorf("%w", err)
	}
	if first == shutdownScheduled { // another program scheduled it and may still need it
		return "", errors.Join(s.journal.remove(restart), untriedErrorf("a restart is already scheduled"))
	}
	if first != 0 {
		return "", untriedErrorf("shutdown.exe exited with code %d", first)
	}
	_, second, err := s.run(ctx, longest)
	if err == nil && second != shutdownScheduled {
		err = fmt.Errorf("it exited with code %d", second)
	}
	return fmt.Sprintf("exit codes %d and %d", first, second), err
}

func (s *session) cancelRestart(ctx context.Context) error {
	_, code, err := s.run(ctx, "shutdown.exe /a")
	if err == nil && code != 0 && code != noShutdown {
		err = fmt.Errorf("shutdown.exe /a exited with code %d", code)
	}
	return err
}

func tryDefender(ctx context.Context, s *session) (string, error) {
	isExcluded := func() (bool, error) {
		e, err := s.Host.Defender.Exclusions(ctx)
		return slices.ContainsFunc(e.Paths, func(p string) bool { return strings.EqualFold(p, excludedFolder) }), err
	}
	switch excluded, err := isExcluded(); {
	case errors.Is(err, hostapi.ErrNoDefender), errors.Is(err, hostapi.ErrExclusionsHidden):
		return "", untriedErrorf("%w", err)
	case err != nil:
		return "", err
	case excluded:
		return "", untriedErrorf("%s is already excluded", excludedFolder)
	}
	exclusion := desired.Exclusions{Paths: []string{excludedFolder}}
	err := s.change(change{kindExclusion, excludedFolder}, func() error { return s.Host.Defender.Add(ctx, exclusion) })
	if err != nil {
		return "", err
	}
	if excluded, err := isExcluded(); err != nil || !excluded {
		return "", errors.Join(err, errors.New("it was added without an error but is not in force: check for policies and tamper protection"))
	}
	if err := s.Host.Defender.Remove(ctx, exclusion); err != nil {
		return "", err
	}
	if excluded, err := isExcluded(); err != nil || excluded {
		return "", errors.Join(err, errors.New("it was removed without an error but is still in force"))
	}
	scans, err := s.Host.Defender.Scans(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("real-time protection is on: %v", scans), nil
}

func tryMetadata(ctx context.Context, _ *session) (string, error) {
	var failures []error
	for _, cloud := range []string{platform.AWS, platform.GCP} {
		limited, cancel := context.WithTimeout(ctx, 10*time.Second)
		name, err := metadata.Client{}.NodeName(limited, cloud)
		cancel()
		if err == nil && name != "" {
			return fmt.Sprintf("%s returned a name of %d characters", cloud, len(name)), nil
		}
		failures = append(failures, fmt.Errorf("%s: %w", cloud, err))
	}
	return "", untriedErrorf("%w", errors.Join(failures...))
}
