// Package win implements the ports of internal/node/hostapi with the real Windows: its facts, its features, its rights on files, its restart, its
// environment, the certificates it trusts, its services, and its networks.
//
// The packages below do not depend on the daemon, so that hybrid-overlay-node can use them, too: scm, the service control manager; network, the Host
// Network Service and routes; pipe, wua, the Windows Update Agent, and subprocess. No other package calls Windows. They use the system's DLLs: no
// PowerShell, and no text meant for people is parsed, so that the language of the host does not matter. The only programs that they run themselves are
// shutdown.exe, netsh.exe for what no call returns, and this program, which calls DISM and the agent in processes that can be ended. The contract tests of internal/testing/sim apply to the real and the simulated Windows;
// docs/limitations.md lists what can only be seen on a real Windows.
package win
