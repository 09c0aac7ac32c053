// Package daemon is WICD, the program on a Windows host: the commands that the operator calls over SSH (facts, receive, join, leave, status and others) and
// the service that keeps the node as declared (run), whose parts are in the packages below.
//
// It is platform-neutral: Windows is behind the ports of internal/node/hostapi, files behind hostapi.Disk, which maps C:\ to a folder. So the whole daemon
// runs, and is tested, on Linux, too.
package daemon
