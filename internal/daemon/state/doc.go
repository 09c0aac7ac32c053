// Package state is what WICD remembers on the host: the record of what the last join asked for, the journal of changes, and the
// locks of those who change the host. Only Administrators can write there.
package state
