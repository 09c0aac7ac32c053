// Package win is Windows itself behind the ports of internal/daemon: what it says about itself, its features,
// its rights on files, its restart, its environment, the certificates it trusts, its services, and its networks.
//
// Two packages below it know nothing of the daemon, so that hybrid-overlay-node can use them, too: scm, the service control
// manager as such, and network, the Host Network Service and routes. Nothing else calls Windows, and these do so through the
// system's DLLs: no PowerShell, and no text meant for people is read, so that the language of the host does not matter. The
// programs that they run are shutdown.exe, and this one again, which asks DISM for them and can be ended.
// The contract tests of internal/sim hold for it as for the simulated Windows; docs/limitations.md says what of it
// can only be seen on a real Windows.
package win
