// Package update installs another version on a host, and rolls back if that does not work. The requester is a part of the daemon and starts
// an update; the updater is a separate service, which outlives the daemon that is replaced.
package update
