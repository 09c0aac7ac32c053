//go:build linux

package testenv

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/cluster/manifest"
)

// linuxNode is the name of the Linux node.
const linuxNode = "linux-1"

// StartDNS starts CoreDNS as the cluster's DNS, and returns when it is ready. It runs on the Linux node, which it starts unless the
// operator already runs there. Pods on Wine hosts reach it through its Service.
func (env *Env) StartDNS(ctx context.Context) error {
	if env.images == nil {
		return errors.New("starting the cluster's DNS: its image needs the registry of Wine hosts")
	}
	root, err := Repository(ctx)
	if err != nil {
		return err
	}
	if err := env.Lab.AddCoreDNS(ctx, env.images); err != nil {
		return fmt.Errorf("pushing the image of CoreDNS: %w", err)
	}
	if env.Pod == nil {
		if _, err := env.Lab.StartLinuxNode(ctx, linuxNode, env.images); err != nil {
			return err
		}
	}
	dir, namespace := "deploy", metav1.NamespaceSystem
	const openshiftDNS = "openshift-dns"
	switch err := env.Client.Get(ctx, types.NamespacedName{Name: openshiftDNS}, &corev1.Namespace{}); {
	case err == nil:
		dir, namespace = "openshift", openshiftDNS
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("checking for OpenShift: %w", err)
	}
	if err := manifest.Apply(ctx, env.Lab.ControlPlane.RESTConfig(), filepath.Join(root, "lab", "cluster", "coredns", dir)); err != nil {
		return fmt.Errorf("installing CoreDNS: %w", err)
	}
	return env.waitForDNS(ctx, namespace)
}

func (env *Env) waitForDNS(ctx context.Context, namespace string) error {
	ctx, cancel := context.WithTimeout(ctx, lab.Timeout(2*time.Minute))
	defer cancel()
	return lab.Until(ctx, 100*time.Millisecond, "CoreDNS", func(ctx context.Context) error {
		var d appsv1.Deployment
		err := env.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: "coredns"}, &d)
		if err == nil && d.Status.ReadyReplicas == 0 {
			err = fmt.Errorf("no pod is ready: %+v", d.Status)
		}
		return err
	}, nil)
}
