package join

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// Begin resets the status for a join that starts now. The failure of the last attempt stays visible until this attempt replaces it.
func Begin(st *v1alpha1.WindowsInstanceStatus, generation int64) {
	set := conditions{st, generation}
	if !failedBefore(st) {
		set.setFalse(api.ConditionConfigured, api.ReasonJoining, "joining; status.steps shows the progress")
		set.summarize()
	}
	st.Steps = nil
	for _, name := range StepNames() {
		st.Steps = append(st.Steps, v1alpha1.StepStatus{Name: name, State: v1alpha1.StepWaiting})
	}
}

func failedBefore(st *v1alpha1.WindowsInstanceStatus) bool {
	return slices.ContainsFunc(st.Steps, func(s v1alpha1.StepStatus) bool { return s.State == v1alpha1.StepFailed })
}

// Track records the progress of a step in the status. When the step is done, it returns how long the step took.
func Track(st *v1alpha1.WindowsInstanceStatus, p Progress, now time.Time) (took time.Duration, done bool) {
	for i := range st.Steps {
		if s := &st.Steps[i]; s.Name == p.Step && s.State != v1alpha1.StepDone {
			return mark(s, p, now)
		}
	}
	return 0, false
}

func mark(s *v1alpha1.StepStatus, p Progress, now time.Time) (took time.Duration, done bool) {
	at := metav1.NewMicroTime(now)
	if s.StartedAt == nil {
		s.StartedAt = &at
	}
	s.State, s.Message = p.State, p.Message
	if p.State != v1alpha1.StepDone {
		return 0, false
	}
	s.FinishedAt = &at
	return now.Sub(s.StartedAt.Time), true
}

// TrackNode returns the progress, as seen on the Node, of the two steps that the host performs on its own. They begin when the host is configured.
func TrackNode(st *v1alpha1.WindowsInstanceStatus, node *corev1.Node, ready bool) []Progress {
	state := map[string]v1alpha1.StepState{}
	for _, s := range st.Steps {
		state[s.Name] = s.State
	}
	if state[StepConfigure] != v1alpha1.StepDone {
		return nil
	}
	var moved []Progress
	move := func(step string, to v1alpha1.StepState, message string) {
		if previous := state[step]; previous != to && previous != v1alpha1.StepDone {
			moved = append(moved, Progress{Step: step, State: to, Message: message})
		}
	}
	if node == nil {
		move(StepRegister, v1alpha1.StepRunning, "the kubelet is requesting its certificate and registering")
		return moved
	}
	if state[StepRegister] == v1alpha1.StepWaiting {
		move(StepRegister, v1alpha1.StepRunning, "")
	}
	move(StepRegister, v1alpha1.StepDone, "")
	if !ready {
		move(StepReady, v1alpha1.StepRunning, "WICD is getting its certificate and writing the network configuration")
		return moved
	}
	move(StepReady, v1alpha1.StepDone, "")
	return moved
}
