// Package eventlog copies Windows events to size-limited files, so that the kubelet serves them with the node's other logs.
package eventlog
