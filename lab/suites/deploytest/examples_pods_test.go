//go:build linux

package deploytest

import (
	"fmt"

	"github.com/windows-machine-config/wmco/internal/observe/podrules"
)

// runsOnWindows returns an error if kubectl windows lint finds an error in a pod template.
func runsOnWindows(template map[string]any) error {
	spec, _ := template["spec"].(map[string]any)
	found, err := podrules.Check(spec)
	if err != nil {
		return err
	}
	for _, f := range found {
		if f.Severity == podrules.Error {
			return fmt.Errorf("its pods do not run on Windows nodes: %s: %s", f.Field, f.Message)
		}
	}
	return nil
}
