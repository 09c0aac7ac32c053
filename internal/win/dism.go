package win

import "github.com/windows-machine-config/wmco/internal/agent"

// DISMCommand is the first argument of a process that asks DISM for its parent. Each program that uses System of Host hands the others to DISM,
// before it does anything else.
const DISMCommand = "dism"

// What a process can ask DISM.
const (
	dismState  = "state"
	dismEnable = "enable"
)

// dismAnswer is what DISM said, as one line of JSON.
type dismAnswer struct {
	State  agent.FeatureState `json:"state,omitempty"`
	Reboot bool               `json:"reboot,omitempty"`
	// Call and Code are of a host.FeatureError, Error is any other. Unknown says that this Windows does not have the feature, or DISM.
	Call    string `json:"call,omitempty"`
	Code    uint32 `json:"code,omitempty"`
	Error   string `json:"error,omitempty"`
	Unknown bool   `json:"unknown,omitempty"`
}
