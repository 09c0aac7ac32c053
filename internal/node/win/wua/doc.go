// Package wua reads what the Windows Update Agent of this host knows, by its COM interface
// (https://learn.microsoft.com/windows/win32/wua_sdk/portal-client). It searches only in the agent's own data store, never at a server, and changes
// nothing. The interface is called in a process of its own: an agent that hangs is left behind with it, as are the threads and memory of COM.
package wua

// Command is the first argument of a process that asks the agent for its parent. Each program that uses Agent must call Answer in it before it does
// anything else.
const Command = "windows-updates"
