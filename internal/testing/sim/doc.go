// Package sim is a simulated Windows, and simulated Windows hosts with real SSH, for tests, benchmarks and demonstrations. WICD runs in them with the
// same code as on Windows, using the same ports.
//
// Windows is the computer: services, features, settings, restarts, power cuts; its drive C: is a folder of this machine. Host
// adds an address, an SSH server and a home folder. A simulated kubelet registers a real Node. The contract tests of package
// contract check the simulated and the real Windows.
package sim
