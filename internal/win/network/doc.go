// Package network is what Windows has of networks: its Host Network Service, whose networks and endpoints are those of pods, its
// adapters, and its table of IPv4 routes.
//
// It is apart from internal/win because hybrid-overlay-node needs no more of Windows than this and package scm: so that program does
// not carry what only WICD needs.
package network
