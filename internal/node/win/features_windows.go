package win

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/node/win/subprocess"
	"github.com/windows-machine-config/wmco/internal/node/win/wua"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

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

// updateAgent is the Windows Update Agent, and DISM for what the agent cannot do.
type updateAgent struct{ wua.Agent }

// Uninstall implements hostapi.UpdateAgent.
func (updateAgent) Uninstall(ctx context.Context, build, revision int) (reboot bool, err error) {
	name := fmt.Sprintf("%d.%d", build, revision)
	answer, err := runDISM(ctx, dismRemove, name)
	if err != nil {
		return false, fmt.Errorf("removing the cumulative update with revision %s: %w", name, err)
	}
	return answer.Reboot, nil
}

// Requests to a DISM process.
const (
	dismState  = "state"
	dismEnable = "enable"
	dismRemove = "remove"
)

// dismAnswer is the result of DISM, as one line of JSON.
type dismAnswer struct {
	State  wicdapi.FeatureState `json:"state,omitempty"`
	Reboot bool                 `json:"reboot,omitempty"`
	// Call and Code are those of a hostapi.FeatureError; Error is any other error. Unknown means that this Windows does not have the feature, the update, or DISM.
	Call    string `json:"call,omitempty"`
	Code    uint32 `json:"code,omitempty"`
	Error   string `json:"error,omitempty"`
	Unknown bool   `json:"unknown,omitempty"`
}

// maxDISMAnswer is more than the size of an answer, in bytes.
const maxDISMAnswer = 64 << 10

// runDISM calls DISM in another process. When ctx ends, the process cancels the call.
func runDISM(ctx context.Context, what, feature string) (answer dismAnswer, err error) {
	output, err := subprocess.Call{What: "running DISM", Arguments: []string{dismCommand, what, feature}, MaxOutput: maxDISMAnswer}.Run(ctx)
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal(output, &answer); err != nil {
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
		return fmt.Errorf("this Windows has no such feature or update: %w", hostapi.ErrNotFound)
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

// answer reads the state of a feature, and enables it if requested, or removes an update.
func (d *dism) answer(ctx context.Context, what, feature string, answer *dismAnswer) (err error) {
	if what == dismRemove {
		answer.Reboot, err = d.removeUpdate(ctx, feature)
		return err
	}
	if answer.State, err = d.state(feature); err != nil || what != dismEnable || answer.State == wicdapi.FeatureEnabled {
		return err
	}
	if answer.Reboot = true; answer.State == wicdapi.FeaturePending {
		return nil
	}
	answer.Reboot, err = d.enable(ctx, feature)
	return err
}
