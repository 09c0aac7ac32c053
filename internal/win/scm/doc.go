// Package scm is the service control manager (SCM) of Windows as such: connections to it, services that are opened for reading,
// their processes, the watch that tells when one of them changed, and how a program of ours runs as a service.
//
// What a service of ours must be, and how it is started, stopped and deleted, is not here but in internal/win.
package scm
