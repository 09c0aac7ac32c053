package wicdapi

import (
	"encoding/json"
	"fmt"
)

// line is one line of WICD's output; exactly one of its fields is set.
type line struct {
	Step    *Step           `json:"step,omitempty"`
	Missing *[]Missing      `json:"missing,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *Error          `json:"error,omitempty"`
}

// Step is progress of a command.
type Step struct {
	// Name of the step for display: "starting service kubelet".
	Name string `json:"name"`
	// Bytes done of Total, if the step transfers content.
	Bytes int64 `json:"bytes,omitempty"`
	Total int64 `json:"total,omitempty"`
}

// Error is a failure that WICD reports. Code is stable; Message names the object, the value and the remedy.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%s (%s)", e.Message, e.Code) }

// Code distinguishes failures.
type Code string

// Codes of WICD's failures.
const (
	// CodeRequestInvalid means that the request could not be read.
	CodeRequestInvalid Code = "RequestInvalid"
	// CodeInputEnded means that the input ended in the middle of the request or the content: the host's SSH server did not pass on
	// everything.
	CodeInputEnded Code = "InputEnded"
	// CodeContentAltered means that a content does not match its hash. The received bytes are discarded.
	CodeContentAltered Code = "ContentAltered"
	// CodeContentMissing means that a join needs content that is not in the store.
	CodeContentMissing Code = "ContentMissing"
	// CodeServiceConflict means that a service of another program has a name of the operator's services.
	CodeServiceConflict Code = "ServiceConflict"
	// CodeServiceFailed means that a service did not start; the message ends with the end of its log.
	CodeServiceFailed Code = "ServiceFailed"
	// CodeRebootNeeded means that a step needs a restart that the request did not allow.
	CodeRebootNeeded Code = "RebootNeeded"
	// CodeRebootDidNotHelp means that a restart for a cause changed nothing. The host is not restarted for that cause again unless the user
	// requests it.
	CodeRebootDidNotHelp Code = "RebootDidNotHelp"
	// CodeWaitingForSetup means that Windows has not finished its own setup.
	CodeWaitingForSetup Code = "WaitingForWindowsSetup"
	// CodeServicing means that Windows is installing features or updates.
	CodeServicing Code = "WindowsServicing"
	// CodeDISMSilent means that DISM, which reports and enables Windows features, did not respond in time.
	CodeDISMSilent Code = "DISMNotAnswering"
	// CodeOtherCluster means that a host that should leave belongs to another cluster.
	CodeOtherCluster Code = "OtherCluster"
	// CodeBusy means that another join, receive or leave runs on the host.
	CodeBusy Code = "Busy"
	// CodeSetupFailed means that wicd-setup could not unpack WICD.
	CodeSetupFailed Code = "SetupFailed"
	// CodeBlocked means that Windows, because of security software or a policy, did not let wicd-setup start WICD.
	CodeBlocked Code = "Blocked"
	// CodeFailed means any other failure.
	CodeFailed Code = "Failed"
)

// NoAnswerError means that a command wrote no output of WICD: the program does not exist, or another one ran instead.
type NoAnswerError struct {
	Command string
	// Output is the beginning of the output, for messages.
	Output string
	// Err is how the command ended.
	Err error
}

// Error implements error.
func (e *NoAnswerError) Error() string {
	s := fmt.Sprintf("running %q: no answer from WICD", e.Command)
	if e.Output != "" {
		s += fmt.Sprintf(", the host wrote %q", e.Output)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns how the command ended.
func (e *NoAnswerError) Unwrap() error { return e.Err }
