package join

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
)

// CloudTimeout is how long a cloud's controller may take to initialize a node before this is reported as a problem. Working controllers take seconds.
const CloudTimeout = 5 * time.Minute

// waitForCloud reports that a node waits for its cloud, and a problem after CloudTimeout. It returns when to check again.
func (c conditions) waitForCloud(node *corev1.Node, now time.Time) (again time.Duration) {
	since := c.waitsForCloudSince(node, now)
	remaining := since.Add(CloudTimeout).Sub(now)
	reason, kubelet := api.ReasonWaitingForCloud, ""
	if ready := nodestate.Ready(node); ready == nil {
		kubelet = "; its kubelet has not reported yet"
	} else if ready.Status != corev1.ConditionTrue {
		kubelet = "; its kubelet reports: " + ready.Message
	}
	message := fmt.Sprintf("node %s has been waiting since %s for its cloud's controller to initialize it, and gets no pods until then (taint %s)%s",
		node.Name, since.UTC().Format(time.RFC3339), api.TaintUninitialized, kubelet)
	if remaining <= 0 {
		reason, remaining = api.ReasonCloudNotInitialized, 0
		message += "; see the log of the cloud-controller-manager, which finds the machine by the Node's name or spec.providerID (" +
			providerID(node) + "); if the cluster has no cloud-controller-manager, set spec.cloudProvider of WindowsConfig to None and remove the taint"
	}
	c.setFalse(api.ConditionNodeReady, reason, message)
	return remaining
}

func providerID(node *corev1.Node) string {
	if node.Spec.ProviderID == "" {
		return "not set"
	}
	return fmt.Sprintf("%q", node.Spec.ProviderID)
}

// waitsForCloudSince returns the start of the wait: the node's creation, or the time at which a node in service was given the taint.
func (c conditions) waitsForCloudSince(node *corev1.Node, now time.Time) time.Time {
	previous := meta.FindStatusCondition(c.status.Conditions, api.ConditionNodeReady)
	switch {
	case previous == nil:
		return node.CreationTimestamp.Time
	case previous.Status == "True":
		return now
	}
	return nodestate.Later(node.CreationTimestamp.Time, previous.LastTransitionTime.Time)
}
