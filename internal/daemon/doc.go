// Package daemon is WICD, the program on a Windows host: the commands the operator calls over SSH (facts,
// receive, join, status) and the service that keeps the node as it was declared (run).
//
// It is neutral code: Windows is behind the ports System and Services, files behind Disk, which maps C:\ to a
// folder. So the whole daemon runs, and is tested, on Linux as well.
package daemon
