// Command hostcompute is vmcompute.dll and, by forwarding, computenetwork.dll: the calls of Windows' services for
// containers and their networks, as hcsshim makes them (internal/vmcompute, internal/wclayer, hcn), answered in the
// process that makes them. It is built as a C library with mingw. What the calls mean is in packages hcs and hns; here
// are handles, processes, jobs and callbacks.
//
// A compute system is a named job with ordinary processes in it, so that it ends as on Windows when the last handle to
// it is closed, whoever held it. Processes see the drive C: of the host; see Inside in package hcs.
package main
