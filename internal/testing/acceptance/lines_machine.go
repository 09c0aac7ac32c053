package acceptance

// machineLines returns the lines about the requirements on a machine, which take a moment each.
func machineLines() []Line {
	return []Line{
		{
			ID: "revision", Title: "Revision of Windows",
			Text: "which updates of a build the networks of pods need, and which revisions have a known defect of them, is from the documents of " +
				"others ([support.md](support.md)). No Windows without these updates was tried.",
			Claim: "this Windows has the updates that networks of pods need, and none of the known defects",
			Try:   tryRevision,
		},
		{
			ID: "adapter", Title: "Adapter of the host",
			Text: "what the first network does to an adapter with a static address, with several addresses, with a number behind its name, " +
				"in a team or on a switch of Hyper-V was read of in reports of others, and never seen.",
			Claim: "the adapter with the address of the machine is one that networks of pods were made on before: hardware, an address of DHCP, a plain name",
			Try:   tryAdapter,
		},
		{
			ID: "antivirus", Title: "Antivirus software",
			Text: "Wine has none. The program that carries WICD to a new host is not signed, and unpacks another one beside itself; " +
				"what Defender, attack surface reduction, Windows Defender Application Control or another antivirus make of that is unknown.",
			Claim:   "a program of the operator's in the home folder of the user runs, also the one that it unpacks, and both are still there afterwards",
			Changes: "copies a program of the operator's into the home folder of the user for half a minute, and starts it",
			Try:     tryAntivirus,
		},
	}
}
