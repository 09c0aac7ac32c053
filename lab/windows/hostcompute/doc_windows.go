// Command hostcompute is vmcompute.dll and, by forwarding, computenetwork.dll: the calls of Windows' services for containers and
// their networks that hcsshim makes (internal/vmcompute, internal/wclayer, hcn), handled in the calling process. It is built as a
// C library with mingw. Packages hcs and hns implement the calls; here are handles, processes, jobs and callbacks.
//
// A compute system is a named job with ordinary processes, so that, as on Windows, it ends when its last handle is closed in any
// process. Processes see a drive C: of the container, which the host's reaper mounts.
package main
