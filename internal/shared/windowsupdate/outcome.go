package windowsupdate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/internal/shared/strictjson"
)

// MaxSelected limits the updates of one download or installation.
const MaxSelected = 32

// CallBusy and CodeInProgress are the failure of an installation while another one is in progress (WU_E_OPERATIONINPROGRESS).
const (
	CallBusy       = "IUpdateInstaller.IsBusy"
	CodeInProgress = 0x80240009
)

// codeNotAllowed is another code of a busy agent (WU_E_INSTALL_NOT_ALLOWED).
const codeNotAllowed = 0x80240016

// IsBusy reports whether the agent was busy with another installation.
func (f Failure) IsBusy() bool { return f.Code == CodeInProgress || f.Code == codeNotAllowed }

// Outcome is what a download or an installation did.
type Outcome struct {
	// Results are the results of the updates that the agent found, in no order.
	Results []UpdateResult `json:"results,omitempty"`
	// Restart is true if the installation takes effect with a restart (IInstallationResult.RebootRequired).
	Restart bool `json:"restart,omitempty"`
	// RestartFirst is true if nothing was installed, because an earlier installation waits for a restart
	// (IUpdateInstaller.RebootRequiredBeforeInstallation).
	RestartFirst bool `json:"restartFirst,omitempty"`
	// Failure is why nothing was done; nil if something was.
	Failure *Failure `json:"failure,omitempty"`
}

// UpdateResult is the result of one update.
type UpdateResult struct {
	// ID is the update's GUID in lower case.
	ID     string `json:"id"`
	Result Result `json:"result"`
	// Code is the HRESULT; 0 if all is well.
	Code uint32 `json:"code,omitempty"`
}

// ParseOutcome reads the JSON of an outcome from a process that may be damaged. Unknown fields and further values are errors; all values are within
// the bounds.
func ParseOutcome(b []byte) (Outcome, error) {
	if len(b) > MaxBytes {
		return Outcome{}, fmt.Errorf("the outcome has %d bytes; at most %d are allowed", len(b), MaxBytes)
	}
	var o Outcome
	if err := strictjson.Unmarshal(b, &o); err != nil {
		return Outcome{}, fmt.Errorf("parsing the outcome of an update operation: %w", err)
	}
	return o.Bounded(), nil
}

// Bounded returns the outcome within its bounds. It is idempotent.
func (o Outcome) Bounded() Outcome {
	o.Results = slices.Clone(o.Results[:min(len(o.Results), MaxSelected)])
	for i, r := range o.Results {
		if !IsID(r.ID) {
			o.Results[i].ID = ""
		}
		o.Results[i].Result = r.Result.known()
	}
	if o.Failure != nil {
		o.Failure = &Failure{Call: line(o.Failure.Call, maxCall), Code: o.Failure.Code}
	}
	return o
}

// CheckIDs rejects IDs that cannot be those of one download or installation: none, more than MaxSelected, or one that is no GUID in lower case.
func CheckIDs(ids []string) error {
	if len(ids) == 0 || len(ids) > MaxSelected {
		return fmt.Errorf("%d updates are selected; 1 to %d are allowed", len(ids), MaxSelected)
	}
	for _, id := range ids {
		if !IsID(id) {
			return fmt.Errorf("%.64q is not an update ID; it must be a GUID in lower case, without braces", id)
		}
	}
	return nil
}

// Of returns the result of an update. One that the agent did not find has none.
func (o Outcome) Of(id string) (UpdateResult, bool) {
	i := slices.IndexFunc(o.Results, func(r UpdateResult) bool { return r.ID == id })
	if i < 0 {
		return UpdateResult{}, false
	}
	return o.Results[i], true
}

// Succeeded reports whether the update was downloaded or installed.
func (r UpdateResult) Succeeded() bool {
	return r.Result == ResultSucceeded || r.Result == ResultPartial
}

// String describes the result in words.
func (r UpdateResult) String() string {
	text := strings.ToLower(string(r.Result))
	if r.Code != 0 {
		text += " with " + Describe(r.Code)
	}
	return text
}

// IsID reports whether a text is the GUID of an update in lower case.
func IsID(text string) bool { return guid.MatchString(text) }

func (r Result) known() Result {
	if !slices.Contains([]Result{ResultInProgress, ResultSucceeded, ResultPartial, ResultFailed, ResultAborted}, r) {
		return ResultUnknown
	}
	return r
}
