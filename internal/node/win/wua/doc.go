// Package wua reads what the Windows Update Agent of this host knows, and makes it search, download and install, by its COM interface
// (https://learn.microsoft.com/windows/win32/wua_sdk/portal-client). Only Search and Download make the agent contact a server, the one that the
// host's policies name. The interface is called in a process of its own: an agent that hangs is left behind with it, as are the threads and memory
// of COM.
package wua

// Command is the first argument of a process that asks the agent for its parent. Each program that uses Agent must call Answer with the others before
// it does anything else: none to read, "search", "download" or "install", the last two with IDs of updates.
const Command = "windows-updates"
