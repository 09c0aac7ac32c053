package agent

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
	// Name of the step, for people: "starting service kubelet".
	Name string `json:"name"`
	// Bytes done of Total, where the step moves content.
	Bytes int64 `json:"bytes,omitempty"`
	Total int64 `json:"total,omitempty"`
}

// Error is a failure that WICD reports. Code is stable; Message says object, value and what to do.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

// Error makes Error an error.
func (e *Error) Error() string { return fmt.Sprintf("%s (%s)", e.Message, e.Code) }

// Code tells failures apart.
type Code string

// The codes of WICD's failures.
const (
	// CodeRequestInvalid means that the request could not be read.
	CodeRequestInvalid Code = "RequestInvalid"
	// CodeInputEnded means that the input ended in the middle of the request, or of the content: the host's SSH server did not hand on what
	// was sent.
	CodeInputEnded Code = "InputEnded"
	// CodeContentAltered means that a content did not have its hash. What was received of it is thrown away.
	CodeContentAltered Code = "ContentAltered"
	// CodeContentMissing means that a join needs a content that is not in the store.
	CodeContentMissing Code = "ContentMissing"
	// CodeServiceConflict means that a service with one of our names is there and not ours.
	CodeServiceConflict Code = "ServiceConflict"
	// CodeServiceFailed means that a service did not start; the message ends with what its log says.
	CodeServiceFailed Code = "ServiceFailed"
	// CodeRebootNeeded means that a step needs a restart which the request did not allow.
	CodeRebootNeeded Code = "RebootNeeded"
	// CodeRebootDidNotHelp means that a restart for a cause changed nothing, and that the host is not restarted for it again unless the
	// user asks.
	CodeRebootDidNotHelp Code = "RebootDidNotHelp"
	// CodeWaitingForSetup means that Windows has not finished its own setup.
	CodeWaitingForSetup Code = "WaitingForWindowsSetup"
	// CodeServicing means that Windows is installing features or updates.
	CodeServicing Code = "WindowsServicing"
	// CodeDISMSilent means that DISM, by which Windows tells and enables features, did not answer in time.
	CodeDISMSilent Code = "DISMNotAnswering"
	// CodeOtherCluster means that a host that is to leave belongs to another cluster.
	CodeOtherCluster Code = "OtherCluster"
	// CodeBusy means that another join, receive or leave runs on the host.
	CodeBusy Code = "Busy"
	// CodeSetupFailed means that wicd-setup could not unpack WICD.
	CodeSetupFailed Code = "SetupFailed"
	// CodeBlocked means that Windows did not let wicd-setup start WICD: security software or a policy is against it.
	CodeBlocked Code = "Blocked"
	// CodeFailed means any other failure.
	CodeFailed Code = "Failed"
)

// NoAnswerError means that a command wrote nothing WICD would write: the program is not there, or something
// else ran instead.
type NoAnswerError struct {
	Command string
	// Output is the beginning of what came back, for people.
	Output string
	// Err is how the command ended.
	Err error
}

// Error makes NoAnswerError an error.
func (e *NoAnswerError) Error() string {
	s := fmt.Sprintf("running %q: no answer of WICD", e.Command)
	if e.Output != "" {
		s += fmt.Sprintf(", the host said %q", e.Output)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns how the command ended.
func (e *NoAnswerError) Unwrap() error { return e.Err }
