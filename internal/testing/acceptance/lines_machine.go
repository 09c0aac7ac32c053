package acceptance

// machineLines returns the lines about the requirements on a machine. Each takes only a moment.
func machineLines() []Line {
	return []Line{
		{
			ID: "revision", Title: "Windows revision",
			Text: "the updates that pod networks need, and the revisions with known defects, are taken from the documents of other " +
				"projects ([support.md](support.md)). No Windows without these updates was tested.",
			Claim: "this Windows has the updates that pod networks need, and none of the known defects",
			Try:   tryRevision,
		},
		{
			ID: "updates", Title: "Windows Update Agent",
			Text: "the simulation and a stand-in for Wine have answered with updates ([windows-updates.md](windows-updates.md)), Microsoft's agent has not. " +
				"How long an answer from the agent's data store takes, and whether entries of the history have categories, is unknown.",
			Claim: "the agent answers which updates are pending, its history, its last search, and whether a restart is pending, without a search at its server",
			Try:   tryUpdates,
		},
		{
			ID: "updates-install", Title: "Installation of updates",
			Text: "WICD has the agent search, download and install in a process of a service; Microsoft's agent has not been tried " +
				"([windows-updates.md](windows-updates.md#install-updates)).",
			Claim:   "a process without a desktop has the agent search at its server, and download and install definitions of Microsoft Defender; then they are no longer pending",
			Changes: "with --updates-allowed: searches for updates at the server of the host, and installs pending definitions of Microsoft Defender, which stay",
			Needs:   Updates,
			Try:     tryUpdatesInstall,
		},
		{
			ID: "adapter", Title: "Network adapter of the host",
			Text: "how the first network affects an adapter with a static address, with several addresses, with a number after its name, " +
				"in a team or on a Hyper-V switch is known only from reports in other projects.",
			Claim: "the adapter with the machine's address is of a kind that pod networks were created on before: hardware, a DHCP address, a plain name",
			Try:   tryAdapter,
		},
		{
			ID: "antivirus", Title: "Antivirus software",
			Text: "Wine has none. The program that installs WICD on a new host is not signed, and unpacks another program next to itself; " +
				"how Defender, attack surface reduction, Windows Defender Application Control or another antivirus react is unknown.",
			Claim:   "the operator's program in the user's home folder and the program that it unpacks run, and both still exist afterwards",
			Changes: "copies a program of the operator into the user's home folder for half a minute, and starts it",
			Try:     tryAntivirus,
		},
	}
}
