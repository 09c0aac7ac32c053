package join

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/platform"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/payload"
)

func (v *Visit) connect(ctx context.Context) error {
	host, err := v.Host.Connect(ctx)
	v.host = host
	if err == nil {
		var version string
		version, v.reached = host.Server()
		v.byFiles = losesInput(version)
	}
	return err
}

func (v *Visit) inspect(ctx context.Context) error {
	at := slices.IndexFunc(v.Content.Files, func(f payload.File) bool { return f.Path == payload.WICD })
	if at < 0 {
		return fmt.Errorf("the payload has no %s; run make payload", payload.WICD)
	}
	v.wicd = v.Content.Files[at]
	err := v.call(ctx, v.program(v.factsCommand()), &v.facts)
	if noAnswer := (*wicdapi.NoAnswerError)(nil); errors.As(err, &noAnswer) || err == nil && v.facts.Program != v.wicd.SHA256 {
		err = v.deliver(ctx)
	}
	if err != nil {
		return err
	}
	if v.facts.Program != v.wicd.SHA256 {
		return fmt.Errorf("the program on the host has hash %.12s, the operator's WICD has %.12s; "+
			"something on the host modifies programs", v.facts.Program, v.wicd.SHA256)
	}
	if v.Hostname != "" {
		v.facts.Host.Hostname = v.Hostname // WICD sets it before the host becomes a node
	}
	v.facts.Platform, v.facts.Reached = v.platform, v.reached
	return nil
}

// factsCommand returns the facts command, with the platform if the node's name depends on it.
func (v *Visit) factsCommand() string {
	if p := v.platform; platform.Of(p).NamesNodes {
		return wicdapi.CommandFacts + " --" + wicdapi.FlagPlatform + "=" + p
	}
	return wicdapi.CommandFacts
}

// deliver sends wicd-setup, which unpacks and runs WICD. If an existing wicd-setup does not work, it is damaged and is sent again, once. Some
// security software treats programs that unpack others as malware; then deliver sends WICD itself.
func (v *Visit) deliver(ctx context.Context) error {
	err := v.deliverSetup(ctx)
	blocked := v.blockedBy(ctx, v.setupName(), v.Payload.Manifest.Setup.SHA256, err)
	if blocked == nil {
		return err
	}
	v.progress(StepInspect, "sending WICD without wicd-setup: "+blocked.Error())
	if err := v.sendProgram(ctx); err != nil {
		return err
	}
	err = v.readFacts(ctx, v.programName())
	if stillBlocked := v.blockedBy(ctx, v.programName(), v.wicd.SHA256, err); stillBlocked != nil {
		return stillBlocked
	}
	return err
}

func (v *Visit) deliverSetup(ctx context.Context) error {
	v.progress(StepInspect, "sending WICD")
	sent, err := v.sendSetup(ctx)
	if err != nil {
		return err
	}
	err = v.readFacts(ctx, v.setupName())
	if sent || !isDamagedSetup(err) {
		return err
	}
	v.progress(StepInspect, "sending WICD again: the program on the host is damaged")
	// A file of the right size is not sent again. An empty file is, even if this transfer is interrupted.
	if err := v.host.Put(ctx, v.setupName(), strings.NewReader(""), 0); err != nil {
		return fmt.Errorf("emptying the damaged %s: %w", v.setupName(), err)
	}
	if _, err := v.sendSetup(ctx); err != nil {
		return err
	}
	return v.readFacts(ctx, v.setupName())
}

// sendSetup sends wicd-setup unless a file of its name and size exists; then sent is false.
func (v *Visit) sendSetup(ctx context.Context) (sent bool, err error) {
	setup, err := v.Payload.Setup()
	if err != nil {
		return false, err
	}
	defer setup.Close()
	content := &readRecorder{Reader: setup}
	if err := v.host.Put(ctx, v.setupName(), content, v.Payload.Manifest.Setup.Size); err != nil {
		return false, fmt.Errorf("sending WICD: %w", err)
	}
	return content.read, nil
}

// readRecorder is a reader that records whether it has been read.
type readRecorder struct {
	io.Reader
	read bool
}

// Read implements io.Reader.
func (n *readRecorder) Read(p []byte) (int, error) {
	n.read = true
	return n.Reader.Read(p)
}

// isDamagedSetup reports whether wicd-setup on the host is damaged: Windows does not run it, or it cannot unpack WICD.
func isDamagedSetup(err error) bool {
	noAnswer, failed := (*wicdapi.NoAnswerError)(nil), wicdapi.Failed(err)
	return errors.As(err, &noAnswer) || failed != nil && failed.Code == wicdapi.CodeSetupFailed
}

// programName and setupName return file names in the home folder of the login user, where Windows lets only that user and administrators write; any
// user could have created C:\k before the first join.
func (v *Visit) programName() string { return fmt.Sprintf("wicd-%.16s.exe", v.wicd.SHA256) }
func (v *Visit) setupName() string   { return fmt.Sprintf("wicd-%.16s-setup.exe", v.wicd.SHA256) }

func (v *Visit) program(command string) string { return v.commandLine(v.programName(), command) }

// commandLine returns the command line for a program in the home folder, where shells start. Doubled backslashes mean the same in cmd.exe, PowerShell
// and bash, whichever is the host's default shell.
func (v *Visit) commandLine(name, command string) string {
	folder := cmp.Or(v.home, `.\`)
	return strings.ReplaceAll(folder, `\`, `\\`) + name + ` ` + command
}

func (v *Visit) call(ctx context.Context, command string, result any) error {
	return v.callWith(ctx, command, nil, result, StepInspect)
}

func (v *Visit) callWith(ctx context.Context, command string, request, result any, step string) error {
	return v.exchange(step, func(r wicdapi.Runner) error { return wicdapi.Call(ctx, r, command, request, result, v.onStep(step)) })
}

func (v *Visit) progress(step, message string) {
	v.Observer.Progress(Progress{Step: step, State: v1alpha1.StepRunning, Message: message})
}

// onStep forwards WICD's progress, at most once a second, because each report becomes a write to the API server.
func (v *Visit) onStep(step string) func(wicdapi.Step) {
	var last time.Time
	return func(s wicdapi.Step) {
		if now := v.Now(); now.Sub(last) >= time.Second {
			last = now
			v.progress(step, describe(s))
		}
	}
}

func describe(s wicdapi.Step) string {
	if s.Total == 0 {
		return s.Name
	}
	return fmt.Sprintf("%s: %.1f of %.1f MB", s.Name, float64(s.Bytes)/1e6, float64(s.Total)/1e6)
}
