package overlay_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/overlay"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// runMain runs the program with flags; it is stopped immediately.
func runMain(t *testing.T, hnsFails error, args ...string) (code int, stdout, stderr string, served bool) {
	t.Helper()
	var out, err strings.Builder
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	code = overlay.Main(ctx, overlay.Call{
		Args: args, Stdout: &out, Stderr: &err,
		HNS:   func() (overlay.HNS, error) { return sim.NewHNS(sim.HNSOptions{}), hnsFails },
		Serve: func(run func(context.Context)) error { served = true; run(ctx); return nil },
	})
	return code, out.String(), err.String(), served
}

func TestFlags(t *testing.T) {
	// The flags that the original operator and this one use.
	usual := func(t *testing.T) []string {
		folder := t.TempDir()
		return []string{"--node", "win-1", "--bootstrap-kubeconfig=" + filepath.Join(folder, "kubeconfig"), "--cert-dir=" + filepath.Join(folder, "config"), "--cert-duration=24h",
			"--logfile", filepath.Join(folder, "log", "hybrid-overlay.log"), "--k8s-apiserver", "https://api-int:6443", "--k8s-cacert", filepath.Join(folder, "ca.crt")}
	}
	for name, test := range map[string]struct {
		args    []string
		code    int
		message string
		served  bool
	}{
		"as usual":       {nil, 0, "", false},
		"as a service":   {[]string{"--windows-service"}, 0, "", true},
		"another port":   {[]string{"--hybrid-overlay-vxlan-port", "9898", "--loglevel", "5", "--interface", "Ethernet 2"}, 0, "", false},
		"port too large": {[]string{"--hybrid-overlay-vxlan-port", "65536"}, 1, "a port from 1 to 65535 is needed", false},
		"no port":        {[]string{"--hybrid-overlay-vxlan-port", "0"}, 1, "a port from 1 to 65535 is needed", false},
		"ranges":         {[]string{"--cluster-subnets", "10.128.0.0/14/23,fd01::/48/64", "--hybrid-overlay-cluster-subnets", "10.132.0.0/14/23"}, 0, "", false},
		"no range":       {[]string{"--cluster-subnets", "10.128.0.0"}, 1, `flag --cluster-subnets: "10.128.0.0" is not a range`, false},
		"no IPv4 range":  {[]string{"--hybrid-overlay-cluster-subnets", "fd01::/48"}, 1, "flag --hybrid-overlay-cluster-subnets: ", false},
		"unknown flag":   {[]string{"--none"}, 1, "flag provided but not defined", false},
		"argument":       {[]string{"start"}, 1, `unexpected argument "start"`, false},
		"no node":        {[]string{"--node", ""}, 1, "flag --node is missing", false},
		"no kubeconfig":  {[]string{"--bootstrap-kubeconfig", "", "--cert-dir", ""}, 1, "flag --cert-dir is missing", false},
	} {
		code, _, stderr, served := runMain(t, nil, append(usual(t), test.args...)...)
		if code != test.code || !strings.Contains(stderr, test.message) || test.message == "" && stderr != "" || served != test.served {
			t.Errorf("%s: exit code %d, served %t, output %q; want %d, %t, %q", name, code, served, stderr, test.code, test.served, test.message)
		}
	}
	if code, stdout, stderr, _ := runMain(t, nil, "--help"); code != 0 || !strings.Contains(stdout, "-bootstrap-kubeconfig") || stderr != "" {
		t.Errorf("--help: exit code %d, %q and %q", code, stdout, stderr)
	}
	if code, _, stderr, _ := runMain(t, errors.New("no HNS here"), usual(t)[:4]...); code != 1 || !strings.Contains(stderr, "no HNS here") {
		t.Errorf("without HNS: exit code %d, output %q", code, stderr)
	}
}

// TestFlagErrorIsWrittenToLogFile: a service has no standard error.
func TestFlagErrorIsWrittenToLogFile(t *testing.T) {
	for name, test := range map[string]struct {
		before, after []string
		message       string
	}{
		"unknown flag before it": {[]string{"--none"}, nil, "flag provided but not defined: -none"},
		"argument before it":     {[]string{"start"}, nil, `unexpected argument \"start\"`},
		"wrong port after it":    {nil, []string{"--hybrid-overlay-vxlan-port=x"}, "invalid value"},
		"wrong range after it":   {nil, []string{"--cluster-subnets", "10.128.0.0"}, "flag --cluster-subnets"},
		"missing flag":           {nil, nil, "flag --node is missing"},
	} {
		for form, flag := range map[string]func(string) []string{
			"two arguments": func(file string) []string { return []string{"--logfile", file} },
			"one argument":  func(file string) []string { return []string{"-logfile=" + file} },
		} {
			t.Run(name+", "+form, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "log", "hybrid-overlay.log")
				code, _, stderr, _ := runMain(t, nil, slices.Concat(test.before, flag(file), test.after)...)
				text, err := os.ReadFile(file)
				if code != 1 || stderr == "" || err != nil || !strings.Contains(string(text), test.message) || strings.Count(string(text), "\n") != 1 {
					t.Errorf("exit code %d, output %q, log %q (%v), want %q", code, stderr, text, err, test.message)
				}
			})
		}
	}
	if code, _, stderr, _ := runMain(t, nil, "--none", "--logfile"); code != 1 || !strings.Contains(stderr, "-none") {
		t.Errorf("without a file: exit code %d, output %q", code, stderr)
	}
}

// TestTruncatedLogContinuesAtStart: WICD rotates logs by copying and truncating the file, which the program has open.
func TestTruncatedLogContinuesAtStart(t *testing.T) {
	folder := t.TempDir()
	name := filepath.Join(folder, "logs", "hybrid-overlay.log")
	args := []string{"--node", "win-1", "--bootstrap-kubeconfig", filepath.Join(folder, "none"), "--cert-dir", folder, "--logfile", name}
	var emptied bool
	code := overlay.Main(t.Context(), overlay.Call{
		Args: append(args, "--windows-service"), Stderr: os.Stderr,
		HNS: func() (overlay.HNS, error) { return sim.NewHNS(sim.HNSOptions{}), nil },
		Serve: func(run func(context.Context)) error {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			run(ctx)
			before, err := os.ReadFile(name)
			if err != nil || len(before) == 0 {
				t.Errorf("the log has %q: %v", before, err)
			}
			emptied = os.Truncate(name, 0) == nil
			run(ctx)
			return nil
		},
	})
	after, err := os.ReadFile(name)
	if code != 0 || !emptied || err != nil || !strings.HasPrefix(string(after), `{"time"`) {
		t.Errorf("exit code %d, emptied %t, the log begins with %.20q: %v", code, emptied, after, err)
	}
}
