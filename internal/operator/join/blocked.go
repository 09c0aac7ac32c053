package join

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/windows-machine-config/wmco/internal/shared/truncate"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// Blocked means that security software, or a policy, does not let the operator's program run on the host.
type Blocked struct {
	// Path is the program's path on the host, and SHA256 the hex hash of its content.
	Path, SHA256 string
	// Why describes the evidence.
	Why string
}

// Error implements error.
func (b *Blocked) Error() string {
	return fmt.Sprintf("security software on the host blocks %s: %s; allow the program with SHA-256 %s, or programs wicd-*.exe in that folder and all "+
		`of C:\k, in its antivirus software and application policies (Defender's ASR rules, AppLocker, App Control)`, b.Path, b.Why, b.SHA256)
}

// blockedBy returns the finding if the host blocks a program that was just sent and failed with err, and nil for other failures.
func (v *Visit) blockedBy(ctx context.Context, name, sha256 string, err error) *Blocked {
	noAnswer := (*wicdapi.NoAnswerError)(nil)
	failed := wicdapi.Failed(err)
	b := &Blocked{Path: name, SHA256: sha256}
	switch {
	case failed != nil && failed.Code == wicdapi.CodeBlocked:
		b.Why = failed.Message
	case !errors.As(err, &noAnswer):
		return nil
	default:
		b.Why = refusal(noAnswer)
	}
	found := true
	lookupErr := v.host.Files(ctx, func(f wicdapi.Files) (err error) {
		if path, err := f.Path(name); err == nil {
			b.Path = truncate.Text(path, truncate.Reported)
		}
		found, err = f.Exists(name)
		return err
	})
	if b.Why == "" && lookupErr == nil && !found {
		b.Why = "the file disappeared right after it was written"
	}
	if b.Why == "" {
		return nil
	}
	return b
}

// refusal returns the error with which Windows refused to start a program; empty for other failures. PowerShell as the shell passes on only the
// English text, not the error number.
func refusal(e *wicdapi.NoAnswerError) string {
	known := []struct {
		code       int
		name, text string
	}{
		{225, "ERROR_VIRUS_INFECTED", "contains a virus"},
		{1260, "ERROR_ACCESS_DISABLED_BY_POLICY", "blocked by group policy"},
		{4551, "ERROR_SYSTEM_INTEGRITY_POLICY_VIOLATION", "policy has blocked this file"},
	}
	var exit interface{ ExitStatus() int }
	status := 0
	if errors.As(e, &exit) {
		status = exit.ExitStatus()
	}
	reported := strings.ToLower(e.Error())
	for _, k := range known {
		if status == k.code || strings.Contains(reported, k.text) {
			return fmt.Sprintf("Windows refuses to run it with error %d (%s)", k.code, k.name)
		}
	}
	return ""
}

func (v *Visit) sendProgram(ctx context.Context) error {
	program, err := v.Payload.Content(v.wicd)
	if err != nil {
		return err
	}
	if err := v.host.Put(ctx, v.programName(), bytes.NewReader(program), int64(len(program))); err != nil {
		return fmt.Errorf("sending WICD: %w", err)
	}
	return nil
}
