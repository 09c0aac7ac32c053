package cli

import (
	"reflect"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// TestEachSettingHasEffect expects the effect of a change of each field of WindowsConfig, except rollout, which the plan follows.
func TestEachSettingHasEffect(t *testing.T) {
	effects, spec := settingEffects(), reflect.TypeFor[v1alpha1.WindowsConfigSpec]()
	for i := range spec.NumField() {
		name, _, _ := strings.Cut(spec.Field(i).Tag.Get("json"), ",")
		if effects[name] == "" && name != "rollout" {
			t.Errorf("kubectl windows plan -f says nothing about a change of spec.%s", name)
		}
		delete(effects, name)
	}
	for name := range effects {
		t.Errorf("spec.%s does not exist", name)
	}
}
