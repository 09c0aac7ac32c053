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

// leaseTimeout limits a request for the Lease. Several fit into lease.RenewDeadline.
const leaseTimeout = 20 * time.Second

// newLock returns the lock for leader election: the Lease in the operator's namespace, unless another operator runs in the cluster.
func newLock(config *rest.Config, namespace, pod string) (*lease.Lock, error) {
	clients, err := kubernetes.NewForConfig(leaseConfig(config))
	if err != nil {
		return nil, err
	}
	identity, err := holder(pod)
	if err != nil {
		return nil, err
	}
	leaseLock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: lease.Name},
		Client:     clients.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}
	return lease.New(leaseLock, lease.Cluster{Clients: clients}, namespace), nil
}

// holder returns the identity that this process has in the Lease. In a pod it is the pod's name, so that the successor of a killed container need
// not wait until the Lease expires, because only one of them runs at a time.
func holder(pod string) (string, error) {
	if pod != "" {
		return pod, nil
	}
	host, err := os.Hostname()
	return host + "_" + string(uuid.NewUUID()), err
}

// leaseConfig returns a configuration with connections of its own for the Lease, so that the operator's other requests cannot delay its renewal.
func leaseConfig(config *rest.Config) *rest.Config {
	lease := rest.CopyConfig(config)
	lease.Timeout = leaseTimeout
	lease.Dial = (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext // without it, client-go shares connections
	return lease
}
