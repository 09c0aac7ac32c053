//go:build linux

package pagetest

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/cluster/manifest"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// Cluster is a control plane with a static fleet.
type Cluster struct {
	*lab.ControlPlane
	// Client is the client of a cluster administrator.
	Client client.WithWatch

	stop context.CancelFunc
}

// OpenCluster starts a control plane, and creates a fleet of hosts.
func OpenCluster(ctx context.Context, hosts int, progress io.Writer) (*Cluster, error) {
	control, err := lab.StartControlPlane(ctx, lab.ControlPlaneOptions{Progress: progress})
	if err != nil {
		return nil, err
	}
	c := &Cluster{ControlPlane: control}
	ctx, c.stop = context.WithCancel(ctx)
	if err := c.fill(ctx, hosts); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) fill(ctx context.Context, hosts int) error {
	root, err := testenv.Repository(ctx)
	if err != nil {
		return err
	}
	if err := manifest.Apply(ctx, c.RESTConfig(), filepath.Join(root, "deploy")); err != nil {
		return err
	}
	if c.Client, err = testenv.NewClient(c.RESTConfig()); err != nil {
		return err
	}
	go c.renew(ctx)
	if err := Fill(ctx, c.Client, hosts); err != nil {
		return err
	}
	return c.readyOperator(ctx)
}

// readyOperator reports the operator's pod as Ready, in place of a kubelet.
func (c *Cluster) readyOperator(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lab.Timeout(time.Minute))
	defer cancel()
	return lab.Until(ctx, 200*time.Millisecond, "the operator's pod", func(ctx context.Context) error {
		var pods corev1.PodList
		if err := c.Client.List(ctx, &pods, client.InNamespace(api.DefaultNamespace)); err != nil {
			return err
		}
		if len(pods.Items) == 0 {
			return errors.New("the pod does not exist yet")
		}
		p := &pods.Items[0]
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour))}}
		return c.Client.Status().Update(ctx, p)
	}, nil)
}

// renewers is the number of Leases that are renewed concurrently.
const renewers = 8

// renew renews the Leases of nodes in place of their kubelets. Otherwise the node controller would report all nodes as unreachable.
func (c *Cluster) renew(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		var nodes corev1.NodeList
		_ = c.Client.List(ctx, &nodes) // retried in the next round
		var all errgroup.Group
		all.SetLimit(renewers)
		for _, n := range nodes.Items {
			all.Go(func() error { return c.renewOne(ctx, n.Name) })
		}
		_ = all.Wait() // failures are retried in the next round
	}, 10*time.Second)
}

// renewOne renews the Lease of one node, or creates it.
func (c *Cluster) renewOne(ctx context.Context, node string) error {
	now := metav1.NewMicroTime(time.Now())
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: node}}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"renewTime":"`+now.UTC().Format(metav1.RFC3339Micro)+`"}}`))
	if err := c.Client.Patch(ctx, lease, patch); !apierrors.IsNotFound(err) {
		return err
	}
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: new(node), LeaseDurationSeconds: new(int32(40)), RenewTime: &now}
	return c.Client.Create(ctx, lease)
}

// As returns a client configuration that impersonates a user.
func (c *Cluster) As(user string, groups ...string) *rest.Config {
	config := rest.CopyConfig(c.RESTConfig())
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	return config
}

// Change sets condition Ready of a host to False.
func (c *Cluster) Change(ctx context.Context, i int, message string) error {
	var o v1alpha1.WindowsInstance
	if err := c.Client.Get(ctx, types.NamespacedName{Namespace: api.DefaultNamespace, Name: HostName(i)}, &o); err != nil {
		return err
	}
	meta.SetStatusCondition(&o.Status.Conditions, metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionFalse, Reason: api.ReasonDiskTooSmall, Message: message})
	return c.Client.Status().Update(ctx, &o)
}

// Close stops everything.
func (c *Cluster) Close() {
	c.stop()
	c.Stop()
}
