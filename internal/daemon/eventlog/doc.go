// Package eventlog copies events of Windows to files, in bounds, so that the kubelet serves them with the other logs of the node.
package eventlog
