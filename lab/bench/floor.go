//go:build linux

package main

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/remote"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// A floor is the shortest possible time on this machine, measured in the same run: machines of one kind differ by half, but the
// ratio of a time to its floor does not.

// measureFloor measures the floor of a join, on a host that has joined: the bytes of the payload over SSH, and the start of containerd
// and the kubelet alone.
func (m *joins) measureFloor(ctx context.Context, h *lab.Host) error {
	transfer, err := m.bareTransfer(ctx, h)
	if err != nil {
		return err
	}
	start, err := m.bareStart(ctx, h)
	if err != nil {
		return err
	}
	m.say("the transfer alone took %.2f s, the start alone %.2f s", transfer, start)
	m.transfers, m.starts = append(m.transfers, transfer), append(m.starts, start)
	return nil
}

func (m *joins) bareTransfer(ctx context.Context, h *lab.Host) (float64, error) {
	key, err := remote.ParsePrivateKey(m.Key)
	if err != nil {
		return 0, err
	}
	hostKey, err := h.HostKey()
	if err != nil {
		return 0, err
	}
	c, err := remote.Dial(ctx, remote.Target{Address: h.Address(), User: testenv.User, Key: key, HostKey: hostKey}, remote.Options{})
	if err != nil {
		return 0, err
	}
	defer c.Close()
	zero, err := os.Open("/dev/zero") // the connection does not compress
	if err != nil {
		return 0, err
	}
	defer zero.Close()
	began := time.Now()
	if err := c.Put(ctx, "floor.bin", io.LimitReader(zero, m.compressedSize()), m.compressedSize()); err != nil {
		return 0, err
	}
	return time.Since(began).Seconds(), nil
}

// bareStart starts the two services while WICD does not run, until the kubelet renews its lease.
func (m *joins) bareStart(ctx context.Context, h *lab.Host) (float64, error) {
	for _, name := range []string{api.WICDService, "kubelet", "containerd"} {
		if err := h.StopService(ctx, name); err != nil {
			return 0, err
		}
	}
	began := time.Now()
	for _, name := range []string{"containerd", "kubelet"} {
		if err := h.StartService(ctx, name); err != nil {
			return 0, err
		}
	}
	err := m.until(ctx, "the kubelet renews its lease", func(ctx context.Context) (bool, error) {
		lease, err := m.Clients.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, h.Name(), metav1.GetOptions{})
		return err == nil && lease.Spec.RenewTime != nil && lease.Spec.RenewTime.After(began), client.IgnoreNotFound(err)
	})
	took := time.Since(began).Seconds()
	return took, errors.Join(err, h.StartService(ctx, api.WICDService))
}

// watchFloor is how long a change of one ConfigMap takes to reach n watchers, each with its own connection like a daemon.
func (c crowd) watchFloor(ctx context.Context, n int) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	maps := c.Clients.CoreV1().ConfigMaps(metav1.NamespaceDefault)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "floor-" + strconv.Itoa(n)}}
	object, err := maps.Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return 0, err
	}
	heard := make(chan error, n)
	for range n {
		if err := c.watchOnce(ctx, object, heard); err != nil {
			return 0, err
		}
	}
	object.Data = map[string]string{"changed": "yes"}
	began := time.Now()
	if _, err := maps.Update(ctx, object, metav1.UpdateOptions{}); err != nil {
		return 0, err
	}
	for range n {
		if err := <-heard; err != nil {
			return 0, err
		}
	}
	return time.Since(began).Seconds(), nil
}

// watchOnce starts a watch, and reports when it received a change.
func (c crowd) watchOnce(ctx context.Context, object *corev1.ConfigMap, heard chan<- error) error {
	config := c.Lab.ControlPlane.RESTConfig()
	config.Dial = (&net.Dialer{}).DialContext // clients with different dialers share no connection
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	w, err := clients.CoreV1().ConfigMaps(object.Namespace).Watch(ctx, metav1.SingleObject(object.ObjectMeta))
	if err != nil {
		return err
	}
	go func() {
		defer w.Stop()
		select {
		case _, open := <-w.ResultChan():
			if !open {
				heard <- io.ErrUnexpectedEOF
				return
			}
			heard <- nil
		case <-ctx.Done():
			heard <- ctx.Err()
		}
	}()
	return nil
}
