package main

import (
	"net"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/windows-machine-config/wmco/internal/operator/lease"
)

// leaseTimeout limits a request for the Lease. It is half of the time in which a renewal must succeed (leader election's RenewDeadline).
const leaseTimeout = 5 * time.Second

// newLock returns the lock for leader election: the Lease in the operator's namespace, unless another operator runs in the cluster.
func newLock(config *rest.Config, namespace string) (*lease.Lock, error) {
	clients, err := kubernetes.NewForConfig(leaseConfig(config))
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	leaseLock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: lease.Name},
		Client:     clients.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
	}
	return lease.New(leaseLock, lease.Cluster{Clients: clients}, namespace), nil
}

// leaseConfig returns a configuration with connections of its own for the Lease, so that the operator's other requests cannot delay its renewal.
func leaseConfig(config *rest.Config) *rest.Config {
	lease := rest.CopyConfig(config)
	lease.Timeout = leaseTimeout
	lease.Dial = (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext // without it, client-go shares connections
	return lease
}
