// Package daemon is WICD, the program on a Windows host: the commands the operator calls over SSH (facts,
// receive, join, leave, status) and the service that keeps the node as it was declared (run), which is made of the parts in
// the packages below.
//
// It is neutral code: Windows is behind the ports of internal/host, files behind host.Disk, which maps C:\ to a
// folder. So the whole daemon runs, and is tested, on Linux as well.
package daemon
