// Package update takes a host to another version, and back when that does not work. The requester is a part of the daemon and decides
// that an update begins; the updater is a service of its own, which outlives the daemon that is replaced.
package update
