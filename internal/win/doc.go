// Package win is Windows itself behind the ports of internal/daemon: what it says about itself, its features,
// its rights on files, its restart, its environment, the certificates it trusts, and its service control manager (SCM).
//
// It is the only package that calls Windows, and it does so through the system's DLLs: no PowerShell, and no text
// meant for people is read, so that the language of the host does not matter. The one program it runs is shutdown.exe.
// The contract tests of internal/sim hold for it as for the simulated Windows; docs/limitations.md says what of it
// can only be seen on a real Windows.
package win
