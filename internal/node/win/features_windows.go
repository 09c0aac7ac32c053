package win

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// inDISM is an environment variable that marks a process started to call DISM, so that it does not start another one.
const inDISM = "WICD_DISM"

// Feature implements hostapi.System.
func (s *system) Feature(ctx context.Context, name string) (wicdapi.FeatureState, error) {
	answer, err := runDISM(ctx, dismState, name)
	if errors.Is(err, hostapi.ErrNotFound) {
		return wicdapi.FeatureUnknown, nil
	}
	if err != nil {
		return wicdapi.FeatureUnknown, fmt.Errorf("reading the state of Windows feature %s: %w", name, err)
	}
	return answer.State, nil
}

// EnableFeature implements hostapi.System.
func (s *system) EnableFeature(ctx context.Context, name string) (reboot bool, err error) {
	answer, err := runDISM(ctx, dismEnable, name)
	if err != nil {
		return false, fmt.Errorf("enabling Windows feature %s: %w", name, err)
	}
	return answer.Reboot, nil
}

// Requests to a DISM process.
const (
	dismState  = "state"
	dismEnable = "enable"
)

// dismAnswer is the result of DISM, as one line of JSON.
type dismAnswer struct {
	State  wicdapi.FeatureState `json:"state,omitempty"`
	Reboot bool                 `json:"reboot,omitempty"`
	// Call and Code are those of a hostapi.FeatureError; Error is any other error. Unknown means that this Windows does not have the feature, or DISM.
	Call    string `json:"call,omitempty"`
	Code    uint32 `json:"code,omitempty"`
	Error   string `json:"error,omitempty"`
	Unknown bool   `json:"unknown,omitempty"`
}

// runDISM calls DISM in a separate process, because a hanging call can only be stopped by ending its process. When ctx ends, it asks the process to
// cancel, and kills it a moment later.
func runDISM(ctx context.Context, what, feature string) (answer dismAnswer, err error) {
	if os.Getenv(inDISM) != "" {
		return answer, errors.New("this process was started to call DISM, and must not start another process for it")
	}
	program, err := os.Executable()
	if err != nil {
		return answer, err
	}
	var output, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, program, dismCommand, what, feature)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return answer, err
	}
	cmd.Env = append(os.Environ(), inDISM+"=1")
	cmd.Stdout, cmd.Stderr = &output, &stderr
	cmd.Cancel, cmd.WaitDelay = stdin.Close, killedAfter
	cmd.SysProcAttr = &syscall.SysProcAttr{HideWindow: true, CreationFlags: windows.CREATE_NO_WINDOW}
	err = cmd.Run()
	if ctx.Err() != nil {
		return answer, ctx.Err()
	}
	if err != nil {
		return answer, fmt.Errorf("running DISM in another process: %w: %s", err, bytes.TrimSpace(stderr.Bytes()[:min(stderr.Len(), maxStderr)]))
	}
	if err := json.Unmarshal(output.Bytes(), &answer); err != nil {
		return answer, fmt.Errorf("parsing the output of the process that runs DISM: %w", err)
	}
	return answer, answer.err()
}

// err returns the error of DISM.
func (a dismAnswer) err() error {
	switch {
	case a.Call != "":
		return &hostapi.FeatureError{Call: a.Call, Code: a.Code}
	case a.Unknown:
		return fmt.Errorf("this Windows has no such feature: %w", hostapi.ErrNotFound)
	case a.Error != "":
		return errors.New(a.Error)
	}
	return nil
}

// callDISM calls DISM for the parent of this process, writes one line of JSON, and returns the exit code. It cancels when its input ends.
func callDISM(args []string, stdin io.Reader, stdout io.Writer) int {
	if len(args) != 2 {
		return 1
	}
	_ = Contain() // otherwise, processes that DISM starts may outlive a hanging call
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		cancel()
	}()
	var answer dismAnswer
	err := withDISM(ctx, func(d *dism) (err error) { return d.answer(ctx, args[0], args[1], &answer) })
	failed := (*hostapi.FeatureError)(nil)
	switch {
	case errors.As(err, &failed):
		answer.Call, answer.Code = failed.Call, failed.Code
	case errors.Is(err, hostapi.ErrNotFound):
		answer.Unknown = true
	case err != nil:
		answer.Error = err.Error()
	}
	if json.NewEncoder(stdout).Encode(answer) != nil {
		return 1
	}
	return 0
}

// answer reads the state of a feature, and enables it if requested.
func (d *dism) answer(ctx context.Context, what, feature string, answer *dismAnswer) (err error) {
	if answer.State, err = d.state(feature); err != nil || what != dismEnable || answer.State == wicdapi.FeatureEnabled {
		return err
	}
	if answer.Reboot = true; answer.State == wicdapi.FeaturePending {
		return nil
	}
	answer.Reboot, err = d.enable(ctx, feature)
	return err
}
