package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
)

// kubeletManagers has the fields of the kubelet's configuration that its CPU and memory managers read.
type kubeletManagers struct {
	FeatureGates        map[string]bool   `json:"featureGates"`
	CPUManagerPolicy    string            `json:"cpuManagerPolicy"`
	MemoryManagerPolicy string            `json:"memoryManagerPolicy"`
	ReservedMemory      []json.RawMessage `json:"reservedMemory"`
	SystemReserved      map[string]string `json:"systemReserved"`
}

// managerState is the content of a state file: the policy, and the reserved part of the machine.
type managerState struct {
	PolicyName string `json:"policyName"`
	Reserved   string `json:"reserved"`
}

// startManagers does what the real managers do at start: a manager stops the kubelet if its state file has another policy or other reservations
// (NewCheckpointState and validateState in pkg/kubelet/cm), and creates the file if there is none.
func (k *kubelet) startManagers(config kubeletManagers) error {
	if !config.FeatureGates["WindowsCPUAndMemoryAffinity"] {
		return nil
	}
	for name, want := range map[string]managerState{
		"cpu_manager_state":    {config.CPUManagerPolicy, config.SystemReserved["cpu"]},
		"memory_manager_state": {config.MemoryManagerPolicy, fmt.Sprintf("%s", config.ReservedMemory)},
	} {
		path := `C:\var\lib\kubelet\` + name
		b, err := k.host.Disk.Read(path)
		if errors.Is(err, fs.ErrNotExist) {
			if b, err = json.Marshal(want); err == nil {
				_, err = k.host.Disk.WriteFile(path, string(b))
			}
		}
		if err != nil {
			return err
		}
		var got managerState
		if err := json.Unmarshal(b, &got); err != nil || got != want {
			return fmt.Errorf("%s is of %+v, configured is %+v; please drain the node and remove the file: %w", path, got, want, errPermanent)
		}
	}
	return nil
}
