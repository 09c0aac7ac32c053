//go:build linux

package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"

	"github.com/google/uuid"
)

// machineHive is the text file in which Wine stores HKEY_LOCAL_MACHINE. While Wine does not run, no other program writes it.
const machineHive = prefix + "/system.reg"

// The values that identify a host and a boot. Each occurs once in the file.
var (
	bootID     = regexp.MustCompile(`(?m)^"BootId"=dword:([0-9a-f]{8})$`)
	lastConfig = regexp.MustCompile(`(?m)^"LastConfig"="([^"]*)"$`)
	machineID  = regexp.MustCompile(`(?m)^"MachineGuid"="([^"]*)"$`)
	hostName   = regexp.MustCompile(`(?m)^"Hostname"="([^"]*)"$`)
)

// prepareRegistry changes the registry as Windows does when it starts: it sets a new boot ID, completes updates and, on the
// first boot, sets new IDs of the host. It returns the name of the host: the one in its specification on the first boot, and
// afterwards the one in the registry.
func (h host) prepareRegistry() (name string, err error) {
	raw, err := os.ReadFile(machineHive)
	if err != nil {
		return "", fmt.Errorf("reading the registry: %w", err)
	}
	text := string(raw)
	if !h.booted() {
		name = h.spec.Name
		text, err = identify(text)
		if err != nil {
			return "", err
		}
	} else if name, err = value(text, hostName); err != nil {
		return "", err
	}
	last, err := value(text, bootID)
	if err != nil {
		return "", err
	}
	number, err := strconv.ParseUint(last, 16, 32)
	if err != nil {
		return "", fmt.Errorf("parsing the boot ID: %w", err)
	}
	if text, err = replace(text, bootID, fmt.Sprintf("%08x", number+1)); err != nil {
		return "", err
	}
	text = completeUpdates(text)
	temporary := machineHive + ".new"
	if err := os.WriteFile(temporary, []byte(text), 0o644); err != nil {
		return "", fmt.Errorf("writing the registry: %w", err)
	}
	if err := os.Rename(temporary, machineHive); err != nil {
		return "", fmt.Errorf("replacing the registry: %w", err)
	}
	if err := h.folder.WriteFile(bootedMarker, nil, 0o600); err != nil {
		return "", fmt.Errorf("writing the boot marker: %w", err)
	}
	return name, nil
}

const bootedMarker = "booted"

func (h host) booted() bool {
	_, err := h.folder.Stat(bootedMarker)
	return err == nil
}

// identify replaces the IDs of the template by new ones.
func identify(text string) (string, error) {
	text, err := replace(text, lastConfig, "{"+uuid.NewString()+"}")
	if err != nil {
		return "", err
	}
	return replace(text, machineID, uuid.NewString())
}

// value returns the group of a pattern's only match.
func value(text string, pattern *regexp.Regexp) (string, error) {
	found := pattern.FindAllStringSubmatch(text, 2)
	if len(found) != 1 {
		return "", fmt.Errorf("found %s %d times in the registry, want once", pattern, len(found))
	}
	return found[0][1], nil
}

// replace replaces the group of a pattern's only match.
func replace(text string, pattern *regexp.Regexp, with string) (string, error) {
	if _, err := value(text, pattern); err != nil {
		return "", err
	}
	at := pattern.FindStringSubmatchIndex(text)
	return text[:at[2]] + with + text[at[3]:], nil
}
