package update

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// Many clients can annotate a Node. The host changes its version only by an order that the operator signed, and applies each order once.

// orderFile has the last applied order, and orderCopy is its copy: after a power failure, a disk may have lost data that it reported as
// written.
const (
	orderFile = desired.State + `\version-order.json`
	orderCopy = desired.State + `\version-order.copy.json`
)

var (
	errNoOrder  = errors.New("annotation " + api.AnnotationVersionOrder + " is missing: the operator did not order this version")
	errOldOrder = errors.New("annotation " + api.AnnotationVersionOrder + " has an order that is not newer than the last one applied")
)

// announcement is the version in the Node's annotations.
type announcement struct{ version, order, uid string }

func announcementOf(node *corev1.Node) announcement {
	return announcement{node.Annotations[api.AnnotationDesiredVersion], node.Annotations[api.AnnotationVersionOrder], string(node.UID)}
}

// appliedOrder is the content of orderFile. Each Node has its own serials, because a deleted Node does not return.
type appliedOrder struct {
	UID    string `json:"uid"`
	Serial int64  `json:"serial"`
}

func (o appliedOrder) exceeds(last appliedOrder) bool {
	return o.UID != last.UID || o.Serial > last.Serial
}

// readAppliedOrder returns the later one of file and copy. If their Nodes differ, the file's is the later one.
func readAppliedOrder(d hostapi.Disk) (last appliedOrder, err error) {
	var copied appliedOrder
	found, err := state.ReadJSON(d, orderFile, &last)
	if err != nil {
		return appliedOrder{}, err
	}
	copyFound, err := state.ReadJSON(d, orderCopy, &copied)
	if err != nil {
		return appliedOrder{}, err
	}
	if copyFound && (!found || copied.UID == last.UID && copied.Serial > last.Serial) {
		return copied, nil
	}
	return last, nil
}

// remember stores an applied order: it and older ones are rejected from then on.
func (r *Requester) remember(o appliedOrder) error {
	if o.Serial == 0 {
		return nil
	}
	last, err := readAppliedOrder(r.Host.Disk)
	if err != nil || !o.exceeds(last) {
		return err
	}
	for _, name := range []string{orderFile, orderCopy} {
		if err := state.WriteJSON(r.Host.Disk, name, o); err != nil {
			return err
		}
	}
	return nil
}

// ordered returns the Node's order for the version, or an error if it is not valid.
func (r *Requester) ordered(reported announcement) (appliedOrder, error) {
	if reported.order == "" {
		return appliedOrder{}, errNoOrder
	}
	order := desired.VersionOrder{Cluster: r.Record.Cluster, Node: r.Record.Node, UID: reported.uid, Version: reported.version}
	serial, err := order.Verify(reported.order, r.Record.Desired.SigningKey)
	if err != nil {
		return appliedOrder{}, fmt.Errorf("annotation %s is not a valid order of the operator: %w", api.AnnotationVersionOrder, err)
	}
	return appliedOrder{UID: reported.uid, Serial: serial}, nil
}

// checkOrder returns the order to go to another version. If there is none, that is reported and the node keeps its version.
func (r *Requester) checkOrder(reported announcement) (o appliedOrder, found bool, err error) {
	last, err := readAppliedOrder(r.Host.Disk)
	if err != nil {
		return appliedOrder{}, false, err
	}
	o, reason := r.ordered(reported)
	if reason == nil && !o.exceeds(last) {
		reason = errOldOrder
	}
	if reason == nil {
		return o, true, nil
	}
	message := fmt.Sprintf("the node keeps version %s although annotation %s requests %.128q: %v", r.Record.Desired.Version, api.AnnotationDesiredVersion, reported.version, reason)
	if r.refusal.Report(message) {
		r.Log.Warn("Version refused", "error", message)
	}
	return appliedOrder{}, false, nil
}

// recordOwn stores an order for the host's own version: it needs no action, but older ones are rejected from then on.
func (r *Requester) recordOwn(reported announcement) error {
	o, err := r.ordered(reported)
	if err != nil {
		return nil // an invalid one needs no action
	}
	return r.remember(o)
}
