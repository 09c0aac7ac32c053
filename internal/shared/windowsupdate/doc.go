// Package windowsupdate describes what the Windows Update Agent of a host knows: pending updates, installed ones, and its last search. A process of
// WICD that asks the agent, WICD and kubectl windows exchange it as JSON. It does no I/O.
package windowsupdate
