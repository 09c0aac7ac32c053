package acceptance

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// checksums lists the files of a join as sha256sum prints them.
const checksums = "SHA256SUMS"

// neededBytes is the free space required on drive C: for the files of a join, their unpacked content, and an image.
const neededBytes = 6 << 30

// refuseJoin returns an error if this machine cannot become a node temporarily, else the address at which the operator reaches it. It changes
// nothing.
func (s *session) refuseJoin(ctx context.Context, o JoinOptions, r Report) (netip.Addr, error) {
	got, err := s.containers(ctx)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if got != wicdapi.FeatureEnabled {
		return netip.Addr{}, fmt.Errorf("%w: feature %s of Windows is %s, and pods need it: install it with \"Install-WindowsFeature Containers -Restart\" "+
			"in PowerShell, and start this program again, or let it do both with --restart-allowed", ErrRefused, desired.ContainersFeature, got)
	}
	return s.refuseUnsuitable(ctx, o, r)
}

// refuseUnsuitable checks everything except the feature.
func (s *session) refuseUnsuitable(ctx context.Context, o JoinOptions, r Report) (netip.Addr, error) {
	refused := func(format string, values ...any) (netip.Addr, error) {
		return netip.Addr{}, fmt.Errorf("%w: %w", ErrRefused, fmt.Errorf(format, values...))
	}
	if reason := s.restartReasons(r); len(reason) > 0 && !s.Wine {
		return refused("Windows waits for a restart (%s): restart it first", strings.Join(reason, ", "))
	}
	for _, folder := range []string{desired.Root, desired.Logs, desired.ContainerdData} {
		if s.Host.Disk.Exists(folder) {
			return refused("folder %s exists, and a join would change it: use a machine without it", folder)
		}
	}
	services, err := s.Host.Services.List(ctx, []string{desired.ContainerdService})
	if err != nil {
		return refused("listing services: %w", err)
	}
	if len(services) > 0 {
		return refused("service %s exists, and a join would replace it: use a machine without containerd", desired.ContainerdService)
	}
	if free := s.facts.FreeBytes; free < neededBytes {
		return refused("drive C: has %d MB free, and a join needs %d MB", free>>20, uint64(neededBytes)>>20)
	}
	if o.User == "" || strings.ContainsAny(o.User, " \t\r\n,=") {
		return refused("--user is %q, want the name of an administrator of this machine, without white space", o.User)
	}
	if _, err := readChecksums(o.Files); err != nil {
		return refused("reading the files for a join: %w (make acceptance JOIN=1 builds them)", err)
	}
	address, found := s.joinAddress()
	if !found {
		return refused("no network interface that is up has an IPv4 address")
	}
	return address, nil
}

// restartReasons returns the reasons for which Windows waits for a restart. Files pending deletion do not count: programs leave some at each start,
// and Windows deletes them at the next one.
func (s *session) restartReasons(r Report) []string {
	renamed, known := r.renamesWithTarget()
	return slices.DeleteFunc(slices.Clone(s.facts.PendingReboot), func(reason string) bool {
		return known && renamed == 0 && strings.Contains(reason, "PendingFileRenameOperations")
	})
}

// joinAddress returns an IPv4 address of the machine that others can reach, preferably that of a default route.
func (s *session) joinAddress() (netip.Addr, bool) {
	if a, found := s.address(); found {
		return a, true
	}
	for _, i := range s.facts.Interfaces {
		for _, p := range i.Addresses {
			if a := p.Addr(); a.Is4() && !a.IsLoopback() && !a.IsLinkLocalUnicast() {
				return a, true
			}
		}
	}
	return netip.Addr{}, false
}

// freePort returns an unused port of 127.0.0.1.
func freePort(ctx context.Context) (int, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("finding a free port: %w", err)
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// maxChecksums is the maximum size of the list, in bytes. A real one has a few thousand.
const maxChecksums = 1 << 20

// readChecksums reads the list of files in a folder: path with slashes -> hexadecimal SHA-256.
func readChecksums(folder string) (map[string]string, error) {
	f, err := os.Open(filepath.Join(folder, checksums))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sums, err := parseChecksums(io.LimitReader(f, maxChecksums))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", f.Name(), err)
	}
	for _, name := range []string{controlPlaneProgram, operatorProgram, sshProgram, setupProgram, "payload/payload.json", "deploy/kustomization.yaml"} {
		if sums[name] == "" {
			return nil, fmt.Errorf("%s does not list %s", f.Name(), name)
		}
	}
	return sums, nil
}

func parseChecksums(r io.Reader) (map[string]string, error) {
	line := regexp.MustCompile(`^([0-9a-f]{64}) [ *]([A-Za-z0-9._/-]+)$`)
	sums := map[string]string{}
	in := bufio.NewScanner(r)
	for in.Scan() {
		m := line.FindStringSubmatch(strings.TrimSuffix(in.Text(), "\r"))
		if m == nil || !filepath.IsLocal(filepath.FromSlash(m[2])) {
			return nil, fmt.Errorf("%.100q is not a checksum with a path", in.Text())
		}
		sums[m[2]] = m[1]
	}
	return sums, in.Err()
}

// copyChecked copies a file and verifies its SHA-256.
func copyChecked(from, to, want string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	target, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o700)
	if err != nil {
		return err
	}
	hash := sha256.New()
	_, err = io.Copy(io.MultiWriter(target, hash), source)
	if err = errors.Join(err, target.Close()); err != nil {
		return err
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != want {
		return fmt.Errorf("%s has SHA-256 %s, and %s names %s: copy it again", from, got, checksums, want)
	}
	return nil
}
