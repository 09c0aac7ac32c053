package main

import (
	"net"
	"time"

	"k8s.io/client-go/rest"
)

// leaseConfig is the way to the Lease: on connections of its own, so that whatever else the operator asks or tells at once does not keep
// the Lease from being renewed.
func leaseConfig(config *rest.Config) *rest.Config {
	lease := rest.CopyConfig(config)
	lease.Dial = (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext // client-go shares connections of configurations without one
	return lease
}
