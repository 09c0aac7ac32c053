// Package network has Windows' networks: the Host Network Service with the networks and endpoints of pods, the adapters, and the
// table of IPv4 routes.
//
// It is separate from internal/win because hybrid-overlay-node needs only this and package scm: so that program does not contain
// what only WICD needs.
package network
