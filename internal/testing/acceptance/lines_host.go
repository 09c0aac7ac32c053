package acceptance

// featureLines returns the lines about Windows itself and its protection.
func featureLines() []Line {
	return []Line{
		{
			ID: "features", Title: "Windows features",
			Text: "`DismApi.dll` is a stand-in whose features are registry values. The structures of the real library are taken " +
				"from its documentation. It is unknown how long real DISM takes to enable the feature Containers, whether that " +
				"can be canceled, and what remains if its process is ended.",
			Claim:   "WICD enables a feature through DISM, and DISM reports it as enabled",
			Changes: "enables the feature TelnetClient for some seconds",
			Try:     tryFeature,
		},
		{
			ID: "hostname", Title: "Host names",
			Text:    "Wine returns a new name at once. According to its documentation, Windows returns the old one until it restarts.",
			Claim:   "Windows returns its old name until it restarts",
			Changes: "sets another host name, and restores the old one before a restart",
			Try:     tryHostname,
		},
		{
			ID: "restarts", Title: "Restarts",
			Text: "hosts of the lab run the lab's own `shutdown.exe`. The exit codes of Windows' own when a restart is in progress " +
				"(1115) or scheduled (1190) are taken from the documentation.",
			Claim:   "`shutdown.exe` exits with 1190 when a restart is scheduled",
			Changes: "schedules a restart in ten years and cancels it",
			Try:     tryRestart,
		},
		{
			ID: "event-logs", Title: "Event logs",
			Text: "Wine keeps no events (`EvtQuery` returns none), so there are no copies of event logs on hosts of the lab. " +
				"Windows' event API is used as documented, events are read from the XML of its " +
				"schema, and the copies were tested with simulated logs.",
			Claim: "WICD reads the events that a program writes, newest first, and recognizes channels that do not exist",
			Tests: []string{
				"TestEventLogsKeepTheContract/NewerEventsAreRead",
				"TestEventLogsKeepTheContract/NewestEventsAreReadFirst",
				"TestEventLogsKeepTheContract/AbsentChannelIsReported",
			},
		},
		{
			ID: "defender", Title: "Microsoft Defender",
			Text: "Wine has none. Its class `MSFT_MpPreference` and methods `Add` and `Remove` are used as documented; what " +
				"Defender does was simulated. Connecting to WMI, reading an instance, calling a method with parameters, and " +
				"lists of strings in both directions were tested with other classes of Wine (`StdRegProv`), and a boolean with " +
				"`Win32_OperatingSystem`. Not tested: passing a list to a method, the permissions that WMI requires " +
				"(`CoSetProxyBlanket` has no effect on Wine), and which errors policies and tamper protection cause. How much " +
				"faster pulls become is unknown.",
			Claim:   "an exclusion takes effect when WICD adds it and ends when WICD removes it; Defender reports whether real-time protection is on",
			Changes: "temporarily adds the exclusion C:\\ProgramData\\wmco-acceptance\\excluded",
			Try:     tryDefender,
		},
	}
}

// healthLines returns the lines about the Windows health that WICD reports on the Node.
func healthLines() []Line {
	return []Line{
		{
			ID: "node-problems", Title: "Windows problems",
			Text: "the commit charge is read with the documented call; Wine returns the memory that Linux uses. A Host Compute " +
				"Service that hangs or fails was simulated, and so was a wrong clock.",
			Claim: "memory that a program commits but does not use is counted",
			Tests: []string{"TestMemoryKeepsTheContract/LimitExceedsCommittedMemory", "TestMemoryKeepsTheContract/CommittedMemoryIsCounted"},
		},
		{
			ID: "gmsa", Title: "Group Managed Service Accounts",
			Text: "the domain of a host is read with the documented call, and the plugins of Container Credential Guard from the " +
				"documented keys of the registry. Wine can join no domain, and no container had such an account. It was not " +
				"tested that pods reach file shares by name with the value that a join sets.",
			Reason: "it requires an Active Directory domain",
		},
	}
}

// fileLines returns the lines about files and certificates.
func fileLines() []Line {
	return []Line{
		{
			ID: "access-rights", Title: "Access control lists",
			Text: "rights are set with the documented calls. Wine does not return them exactly, so the tests check that " +
				"the calls succeed, not what NTFS makes of them.",
			Claim: "folders and files have the rights that were set, and Windows returns them as they were written",
			Tests: []string{
				"TestRightsKeepTheContract/FoldersAreCreatedWithRights",
				"TestRightsKeepTheContract/ProtectSetsExactRights",
				"TestRightsKeepTheContract/ForeignOwnersAreReported",
				"TestRightsKeepTheContract/LinksAreNotFollowed",
				"TestProtectAppliesToFilesCreatedLater",
				"TestProtectRemovesForeignRights",
				"TestRightsAreSpelledAsWindowsDoes",
			},
		},
		{
			ID: "user-folders", Title: "User folders on the host",
			Text: "according to its documentation, Windows does not rename a folder with open files, so services do not use a " +
				"renamed folder. Microseconds pass between the moment when Windows creates the registry key of a new service and " +
				"the moment when WICD restricts it; a user who opens it then can read the service's variables later.",
			Claim:   "Windows does not rename a folder in which a program has a file open",
			Changes: "creates a folder below C:\\ProgramData\\wmco-acceptance",
			Try:     tryRename,
		},
		{
			ID: "certificate-store", Title: "Certificate store",
			Text: "Wine shows that an added root is trusted and a removed one is not. How Windows treats a root " +
				"that is not a CA was not tested. On Wine, a program that has verified a certificate does not " +
				"notice new roots until it restarts; it was not tested that a running containerd does on Windows. " +
				"If it does not pull after a change of `trusted-ca`, restart the service.",
			Claim:   "a process that has already verified certificates trusts a root that is added later",
			Changes: "temporarily adds a root certificate \"WMCO acceptance\"",
			Try:     tryRoot,
		},
		{
			ID: "certificate-lookup", Title: "Verifying certificates without a network",
			Text: "containerd verifies the certificate of WICD's registry, which WICD signed itself, first with the certificates " +
				"of Windows (`CertGetCertificateChain`). Windows may then look for roots on its update service. It is unknown " +
				"how long that takes on a closed network; it could delay each pull from a mirror.",
			Claim: "verifying WICD's own certificate takes less than a second",
			Try:   tryLookup,
		},
	}
}

// loginLines returns the lines about how a host is reached and created.
func loginLines() []Line {
	return []Line{
		{
			ID: "shells", Title: "PowerShell or bash as the host's default shell",
			Text: "command lines are written so that both parse them as cmd.exe does; only cmd.exe (Wine's) was " +
				"run.",
			Claim: "PowerShell, and bash if installed, parse the operator's command lines as cmd.exe does, and pass on input, output and exit codes " +
				"unchanged, except that PowerShell replaces every code other than 0 by 1",
			Changes: "creates a folder below C:\\ProgramData\\wmco-acceptance",
			Try:     tryShells,
		},
		{
			ID: "openssh", Title: "Microsoft's OpenSSH server",
			Text: "hosts of the lab and simulated hosts run another SSH server with the same protocol, and tests give it what " +
				"is known of Microsoft's: commands that keep running without their connection, pipes that are opened for overlapped " +
				"calls, lost input, PowerShell's exit codes. A first contact was made through Debian's OpenSSH server, which " +
				"Microsoft's is derived from.",
			Claim: "Windows' own SSH server replaces a file by SFTP, runs two programs at once, and passes 64 MB to a program and 8 MB back " +
				"unchanged, with each default shell; it returns exit codes, with PowerShell as 0 or 1; a lost connection ends the program's input",
			Changes: "with --login-allowed: temporarily adds an SSH key for administrators and sets each default shell of OpenSSH in turn",
			Needs:   Login,
			Try:     tryOpenSSH,
		},
		{
			ID: "user-data", Title: "User data",
			Text:   "PowerShell's grammar accepts the script. Its effect on each platform is from documentation.",
			Reason: "it requires a cloud that creates the machine",
		},
		{
			ID: "metadata", Title: "Metadata services",
			Text:  "the tests simulate them according to the documentation of AWS and GCP.",
			Claim: "the metadata service of AWS or GCP returns a name for this machine",
			Try:   tryMetadata,
		},
		{
			ID: "authenticode", Title: "Authenticode",
			Text: "the program that carries WICD to a new host (`wicd-<sha>-setup.exe`) has WICD appended, so an " +
				"Authenticode signature would not cover all of it. WICD itself can be signed.",
			Reason: "it requires the publisher's certificate",
		},
	}
}
