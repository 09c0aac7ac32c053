package join_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/payload"
	payloads "github.com/windows-machine-config/wmco/payload/build"
)

// freshHost has no WICD. It runs wicd-setup if the file has the operator's content.
type freshHost struct {
	noFiles
	good     string // wicd-setup
	content  string // existing file in its place; empty if there is none
	refuses  bool   // no program runs on it
	unpacked bool   // WICD is on the host
	answers  wicdapi.Error
	sent     int
}

// Put behaves like remote.Host: a file of the right size is kept.
func (h *freshHost) Put(_ context.Context, _ string, r io.Reader, size int64) error {
	if h.content != "" && int64(len(h.content)) == size {
		return nil
	}
	b, err := io.ReadAll(r)
	if err == nil && int64(len(b)) != size {
		err = errors.New("another size")
	}
	if size > 0 {
		h.sent++
	}
	h.content = string(b)
	return err
}

func (h *freshHost) Close() error { return nil }

func (h *freshHost) Run(_ context.Context, command string, stdin io.Reader, stdout io.Writer) error {
	if h.unpacked && strings.HasSuffix(command, " "+wicdapi.CommandRestart) {
		wicdapi.NewSession(stdin, stdout).End(wicdapi.RestartResult{BootID: "7"}, nil)
		return nil
	}
	if !strings.Contains(command, "-setup.exe") || h.refuses {
		_, _ = io.WriteString(stdout, "'wicd' is not recognized as an internal or external command\r\n")
		return exitCode(1)
	}
	s := wicdapi.NewSession(stdin, stdout)
	switch {
	case h.content == h.good:
		h.unpacked = true
		s.End(wicdapi.Facts{Program: hashOf("WICD"), Host: wicdapi.HostFacts{Hostname: "win-1", BootID: "7"}}, nil)
		return nil
	case h.answers.Code != "":
		s.End(nil, &h.answers)
	default:
		_, _ = io.WriteString(stdout, "This program cannot be run in DOS mode.\r\n")
	}
	return exitCode(1)
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// payloadOfWICD returns a payload with WICD only, and its manifest.
func payloadOfWICD(t *testing.T) (*payload.Payload, payload.Manifest) {
	t.Helper()
	folder := t.TempDir()
	manifest, err := payloads.Write(t.Context(), folder, payloads.Set{
		Files: []payloads.Content{{Path: payload.WICD, Component: "wicd", Version: "devel", Group: payload.Base, Open: payloads.Bytes([]byte("WICD"))}},
		Stub:  payloads.Bytes([]byte("stub")),
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := payload.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	return p, manifest
}

func TestDamagedSetupIsResent(t *testing.T) {
	p, manifest := payloadOfWICD(t)
	setup, err := p.Setup()
	if err != nil {
		t.Fatal(err)
	}
	defer setup.Close()
	b, err := io.ReadAll(setup)
	if err != nil {
		t.Fatal(err)
	}
	good := string(b)
	damaged := strings.Repeat("?", len(good))
	for name, test := range map[string]struct {
		host  freshHost
		sent  int
		works bool
	}{
		"missing program":                             {freshHost{}, 1, true},
		"complete program":                            {freshHost{content: good}, 0, true},
		"truncated program":                           {freshHost{content: good[:9]}, 1, true},
		"program does not run":                        {freshHost{content: damaged}, 1, true},
		"payload in the program is damaged":           {freshHost{content: damaged, answers: wicdapi.Error{Code: wicdapi.CodeSetupFailed, Message: "damaged"}}, 1, true},
		"another failure":                             {freshHost{content: damaged, answers: wicdapi.Error{Code: wicdapi.CodeFailed, Message: "no DISM"}}, 0, false},
		"no program runs":                             {freshHost{refuses: true}, 1, false},
		"no program runs and the program is complete": {freshHost{refuses: true, content: good}, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			host := test.host
			host.good = good
			visit := &join.Visit{Host: reached{&host}, Payload: p, Content: manifest, Observer: unobserved{}, Now: time.Now}
			// The host has restarted since, so Restart visits it without restarting it.
			if err := visit.Restart(t.Context(), "6"); (err == nil) != test.works {
				t.Errorf("the visit ends with %v, want success: %v", err, test.works)
			}
			if host.sent != test.sent {
				t.Errorf("wicd-setup was sent %d times, want %d", host.sent, test.sent)
			}
		})
	}
}
