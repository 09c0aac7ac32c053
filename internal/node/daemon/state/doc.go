// Package state stores WICD's state on the host: the record of the last join's request, the journal of changes, and the locks for changes to the
// host. Only Administrators can write it.
package state
