// Package sim is a simulated Windows, and simulated Windows hosts that are reached over real SSH, for tests, benchmarks
// and demonstrations. WICD runs in them as it runs on Windows: the same code, behind the same ports.
//
// Windows is the computer: services, features, settings, restarts, power cuts; its drive C: is a folder of this machine.
// Host adds what makes a computer reachable: an address, an SSH server, a home folder. A simulated kubelet registers a
// real Node. Contract tests, in package contract, hold for Windows and for the real one alike.
package sim
