package instance

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
)

// TestUnknownMaintenanceStepIsAnError has a status that a later version of the operator wrote.
func TestUnknownMaintenanceStepIsAnError(t *testing.T) {
	i := controllertest.Instance("win-1", "User", "", "10.0.0.1")
	i.Status.Maintenance = &v1alpha1.Maintenance{Action: v1alpha1.ActionLeave, Step: "Later"}
	c := newTestInstances(fake.NewClientBuilder().WithScheme(controllertest.Scheme(t)).Build())
	m := &maintenance{Controller: c, view: &view{}, status: c.newStatus(i)}
	m.view.Instance = i
	if _, err := m.step(t.Context()); err == nil || !strings.Contains(err.Error(), `"Later"`) {
		t.Errorf("got error %v, want one that names the step", err)
	}
}
