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

	"github.com/windows-machine-config/wmco/internal/claim"
)

// leaseTimeout limits a call about the Lease. It is half of the time in which a renewal must succeed (leader election's RenewDeadline).
const leaseTimeout = 5 * time.Second

// newLock makes the lock of the leader election: the Lease in the operator's namespace, as long as no other operator works in the cluster.
func newLock(config *rest.Config, namespace string) (*claim.Lock, error) {
	clients, err := kubernetes.NewForConfig(leaseConfig(config))
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	lease := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: claim.LeaseName},
		Client:     clients.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
	}
	return claim.New(lease, claim.Cluster{Clients: clients}, namespace), nil
}

// leaseConfig is the way to the Lease: on connections of its own, so that whatever else the operator asks or tells at once does not keep
// the Lease from being renewed.
func leaseConfig(config *rest.Config) *rest.Config {
	lease := rest.CopyConfig(config)
	lease.Timeout = leaseTimeout
	lease.Dial = (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext // client-go shares connections of configurations without one
	return lease
}
