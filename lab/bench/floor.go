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

// A floor is the shortest possible time on this machine, measured in the same run. Times of equal machines differ by up to half; the
// ratio of a time to its floor is stable.

// measureFloor measures the floor of a join on a host that has joined: sending the payload's bytes over SSH, and starting
// containerd and the kubelet without WICD.
func (m *joins) measureFloor(ctx context.Context, h *lab.Host) error {
	transfer, err := m.bareTransfer(ctx, h)
	if err != nil {
		return err
	}
	start, err := m.bareStart(ctx, h)
	if err != nil {
		return err
	}
	m.logf("the floor is %.2f s for the transfer and %.2f s for the start", transfer, start)
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

// bareStart measures the start of the two services while WICD is stopped, until the kubelet renews its lease.
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

// watchFloor measures how long a change of one ConfigMap takes to reach n watchers, each with its own connection, as WICD has.
func (c simulation) watchFloor(ctx context.Context, n int) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	maps := c.Clients.CoreV1().ConfigMaps(metav1.NamespaceDefault)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "floor-" + strconv.Itoa(n)}}
	object, err := maps.Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return 0, err
	}
	received := make(chan error, n)
	for range n {
		if err := c.watchOnce(ctx, object, received); err != nil {
			return 0, err
		}
	}
	object.Data = map[string]string{"changed": "yes"}
	began := time.Now()
	if _, err := maps.Update(ctx, object, metav1.UpdateOptions{}); err != nil {
		return 0, err
	}
	for range n {
		if err := <-received; err != nil {
			return 0, err
		}
	}
	return time.Since(began).Seconds(), nil
}

// watchOnce starts a watch, and sends to received when a change arrives or the watch fails.
func (c simulation) watchOnce(ctx context.Context, object *corev1.ConfigMap, received chan<- error) error {
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
				received <- io.ErrUnexpectedEOF
				return
			}
			received <- nil
		case <-ctx.Done():
			received <- ctx.Err()
		}
	}()
	return nil
}
