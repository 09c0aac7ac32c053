// Package network accesses Windows' networks: the Host Network Service with the networks and endpoints of pods, the adapters, and the IPv4 routing
// table.
//
// It is separate from internal/node/win because hybrid-overlay-node needs only this package and package scm, and should not contain code that only WICD
// needs.
package network
