package instance

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/cluster"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// leave removes the host from the cluster: first the operator's services and files on the host, then the Node, then the finalizer of the instance. A
// host that cannot be reached is released after leaveTimeout, or when the user requests it.
func (m *maintenance) leave(ctx context.Context) (time.Duration, error) {
	late := m.elapsed(leaveTimeout) > leaveTimeout
	if remaining := m.retries.Remaining(m.id()); remaining > 0 && !m.released() {
		return remaining, nil
	}
	if err := m.cleanOrRelease(ctx, late); err != nil {
		return m.retryLater(ctx, err), nil
	}
	err := m.deleteNode(ctx)
	switch {
	case apierrors.IsForbidden(err): // a retry would hold the instance forever
		m.emitForeignNode(m.view, "Leave", err)
		m.current().Message = err.Error()
		err = m.status.write(ctx)
	case err != nil && !apierrors.IsConflict(err):
		m.current().Message = err.Error()
	}
	if err != nil {
		return 0, err
	}
	id := m.id()
	if err := m.removeFinalizer(ctx); err != nil {
		return 0, err
	}
	m.forget(id)
	m.Fleet.Done(id)
	m.hasLeft = true
	return 0, nil
}

// cleanOrRelease removes everything the operator installed from the host. If that is impossible, it releases the host as it is, once the user requests that
// or the time has passed.
func (m *maintenance) cleanOrRelease(ctx context.Context, late bool) error {
	reason := "requested by annotation " + api.AnnotationRelease
	if !m.released() {
		remains, err := m.clean(ctx)
		if err == nil {
			m.Events.Emit(kube.Event{Object: m.view.Instance, Type: corev1.EventTypeNormal, Reason: api.EventHostLeft, Action: "Leave"},
				"the host has left the cluster%s", listed("; these remain: ", remains))
			return nil
		}
		if !late {
			return err
		}
		reason = err.Error()
	}
	m.Events.Emit(kube.Event{Object: m.view.Instance, Type: corev1.EventTypeWarning, Reason: api.EventHostReleased, Action: "Leave"},
		"the host was removed without cleanup; these remain: services (those with a description that begins with %q), C:\\k, C:\\var and running containers; %s",
		api.ServiceDescription, reason)
	return nil
}

// clean has WICD remove everything the operator installed from the host and returns what remains.
func (m *maintenance) clean(ctx context.Context) (remains []string, err error) {
	if m.view.KeyFault != nil {
		return nil, m.view.KeyFault
	}
	id, err := cluster.ID(ctx, m.Live)
	if err != nil {
		return nil, err
	}
	result, err := m.visit("leaving").Leave(ctx, id)
	if failed := wicdapi.Failed(err); failed != nil && failed.Code == wicdapi.CodeOtherCluster {
		return []string{"everything (the host now belongs to another cluster)"}, nil
	}
	return result.Remains, err
}

// released reports whether the user releases the host as it is.
func (m *maintenance) released() bool {
	return m.view.Instance.Annotations[api.AnnotationRelease] == "true"
}

// deleteNode deletes the host's Node, and no other of that name.
func (m *maintenance) deleteNode(ctx context.Context) error {
	if m.view.Node == nil {
		return nil
	}
	err := m.Client.Delete(ctx, m.view.Node, client.Preconditions{UID: &m.view.Node.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting Node %s: %w", m.view.Node.Name, err)
	}
	return nil
}

func (m *maintenance) removeFinalizer(ctx context.Context) error {
	instance := m.view.Instance.DeepCopy()
	if !controllerutil.RemoveFinalizer(instance, api.Finalizer) {
		return nil
	}
	if err := client.IgnoreNotFound(m.Client.Patch(ctx, instance, client.MergeFrom(m.view.Instance))); err != nil {
		return fmt.Errorf("removing finalizer from WindowsInstance %s: %w", instance.Name, err)
	}
	return nil
}

// listed returns before and the joined list, or "" for an empty list.
func listed(before string, list []string) string {
	if len(list) == 0 {
		return ""
	}
	return before + strings.Join(list, ", ")
}
