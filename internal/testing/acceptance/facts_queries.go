package acceptance

// Registry keys for PowerShell. servicing is a prefix of several.
const (
	windowsKey = `'HKLM:\SOFTWARE\Microsoft\Windows NT\CurrentVersion'`
	servicing  = `'HKLM:\SOFTWARE\Microsoft\Windows\CurrentVersion\Component Based Servicing\`
)

// windowsQueries returns the queries about the Windows version and its pending operations.
func windowsQueries() []query {
	return []query{
		cmdlet("edition", "Get-ItemProperty -LiteralPath "+windowsKey,
			"ProductName", "EditionID", "InstallationType", "CurrentBuildNumber", "UBR", "DisplayVersion", "BuildLabEx", "InstallDate"),
		program("image-state", `reg.exe query HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Setup\State`),
		program("setup", `reg.exe query HKLM\SYSTEM\Setup`),
		cmdlet("updates", "Get-CimInstance Win32_QuickFixEngineering", "HotFixID", "Description", "InstalledOn"),
		{"pending-renames", pendingRenames},
		cmdlet("restart-signs", "Test-Path -LiteralPath "+servicing+"RebootPending',"+servicing+"RebootInProgress',"+servicing+"PackagesPending',"+
			`'HKLM:\SOFTWARE\Microsoft\Windows\CurrentVersion\WindowsUpdate\Auto Update\RebootRequired'`),
		program("sessions-pending", powerShell+"Get-ItemProperty -LiteralPath "+servicing+"SessionsPending'"),
		cmdlet("servicing-processes", "Get-Process -Name TiWorker,TrustedInstaller,msiexec,wuauclt -ErrorAction SilentlyContinue", "Name", "StartTime"),
		cmdlet("last-start", "Get-CimInstance Win32_OperatingSystem", "LastBootUpTime", "LocalDateTime", "OSLanguage", "Locale", "OperatingSystemSKU"),
		cmdlet("computer", "Get-CimInstance Win32_ComputerSystem",
			"Manufacturer", "Model", "HypervisorPresent", "PartOfDomain", "DomainRole", "NumberOfLogicalProcessors", "TotalPhysicalMemory"),
		cmdlet("firmware", "Get-CimInstance Win32_BIOS", "Manufacturer", "SMBIOSBIOSVersion", "Version", "ReleaseDate"),
		cmdlet("cloud-agents", "Get-Service -Name cloudbase*,WindowsAzure*,RdAgent,AmazonSSM*,Ec2*,GCE*,google*,VMTools,QEMU*,vmic*,xen* -ErrorAction SilentlyContinue",
			"Name", "Status", "StartType"),
		cmdlet("services", "Get-Service -Name hns,vmcompute,sshd,docker,containerd,TrustedInstaller,wuauserv,mpssvc,BFE,Dnscache,SharedAccess,WinDefend,W32Time,"+
			"nvagent,vmms,winnat -ErrorAction SilentlyContinue", "Name", "Status", "StartType"),
		cmdlet("volumes", "Get-Volume", "DriveLetter", "FileSystem", "DriveType", "Size", "SizeRemaining"),
		program("short-names", `fsutil.exe 8dot3name query C:`),
		cmdlet("page-files", "Get-CimInstance Win32_PageFileUsage", "Name", "AllocatedBaseSize", "CurrentUsage"),
		program("time-status", `w32tm.exe /query /status`),
		program("time-zone", `reg.exe query HKLM\SYSTEM\CurrentControlSet\Control\TimeZoneInformation`),
	}
}

// networkQueries returns the queries about adapters, addresses, routes, ports and networks.
func networkQueries() []query {
	return []query{
		cmdlet("adapters", "Get-NetAdapter -IncludeHidden", "Name", "InterfaceDescription", "ifIndex", "InterfaceGuid", "MacAddress", "Status", "LinkSpeed",
			"MtuSize", "Virtual", "DriverProvider", "DriverVersion", "VlanID"),
		cmdlet("addresses", "Get-NetIPAddress", "InterfaceAlias", "InterfaceIndex", "IPAddress", "PrefixLength", "PrefixOrigin", "SuffixOrigin", "AddressState",
			"SkipAsSource", "Store"),
		cmdlet("interfaces", "Get-NetIPInterface -IncludeAllCompartments", "InterfaceAlias", "ifIndex", "AddressFamily", "NlMtu", "InterfaceMetric",
			"AutomaticMetric", "Dhcp", "ConnectionState", "Forwarding", "WeakHostSend", "WeakHostReceive", "CompartmentId"),
		cmdlet("bindings", "Get-NetAdapterBinding -ComponentID ms_tcpip,ms_tcpip6,vms_pp,ms_implat", "Name", "ComponentID", "Enabled"),
		cmdlet("dns-servers", "Get-DnsClientServerAddress", "InterfaceAlias", "AddressFamily", "ServerAddresses"),
		cmdlet("dns-clients", "Get-DnsClient", "InterfaceAlias", "ConnectionSpecificSuffix", "RegisterThisConnectionsAddress", "UseSuffixWhenRegistering"),
		cmdlet("routes", "Get-NetRoute -IncludeAllCompartments", "DestinationPrefix", "NextHop", "RouteMetric", "ifIndex", "Protocol", "Store"),
		cmdlet("persistent-routes", "Get-NetRoute -PolicyStore PersistentStore", "DestinationPrefix", "NextHop", "RouteMetric", "ifIndex"),
		program("excluded-ports-tcp", "netsh.exe interface ipv4 show excludedportrange protocol=tcp"),
		program("excluded-ports-udp", "netsh.exe interface ipv4 show excludedportrange protocol=udp"),
		program("dynamic-ports-tcp", "netsh.exe interface ipv4 show dynamicport tcp"),
		program("dynamic-ports-udp", "netsh.exe interface ipv4 show dynamicport udp"),
		cmdlet("listeners", "Get-NetTCPConnection -State Listen", "LocalPort", "LocalAddress"),
		cmdlet("teams", "Get-NetLbfoTeam", "Name", "TeamingMode", "Status"),
		cmdlet("virtual-switches", "Get-VMSwitch", "Name", "SwitchType", "EmbeddedTeamingEnabled", "AllowManagementOS"),
		cmdlet("firewall-profiles", "Get-NetFirewallProfile", "Name", "Enabled", "DefaultInboundAction", "DefaultOutboundAction", "AllowLocalFirewallRules"),
		cmdlet("network-profiles", "Get-NetConnectionProfile", "InterfaceAlias", "NetworkCategory", "IPv4Connectivity"),
		{"hns", hnsDocuments},
	}
}

// protectionQueries returns the queries about software that monitors programs and files, and about the SSH server.
func protectionQueries() []query {
	return []query{
		cmdlet("sshd", "Get-Item -Path C:\\Windows\\System32\\OpenSSH\\sshd.exe,'C:\\Program Files\\OpenSSH*\\sshd.exe' -ErrorAction SilentlyContinue | ForEach-Object VersionInfo",
			"FileName", "FileVersion", "ProductVersion"),
		program("sshd-shell", `reg.exe query HKLM\SOFTWARE\OpenSSH`),
		{"sshd-config", serverSettings},
		cmdlet("defender", "Get-MpComputerStatus", "AMRunningMode", "AMServiceEnabled", "AntivirusEnabled", "RealTimeProtectionEnabled", "IsTamperProtected",
			"BehaviorMonitorEnabled", "AMProductVersion", "AntivirusSignatureAge"),
		cmdlet("defender-rules", "Get-MpPreference", "AttackSurfaceReductionRules_Ids", "AttackSurfaceReductionRules_Actions", "MAPSReporting", "CloudBlockLevel",
			"PUAProtection", "EnableControlledFolderAccess", "EnableNetworkProtection", "DisableRealtimeMonitoring"),
		program("file-filters", "fltmc.exe filters"),
		cmdlet("device-guard", `Get-CimInstance -Namespace root\Microsoft\Windows\DeviceGuard -ClassName Win32_DeviceGuard`, "VirtualizationBasedSecurityStatus",
			"SecurityServicesConfigured", "SecurityServicesRunning", "CodeIntegrityPolicyEnforcementStatus", "UsermodeCodeIntegrityPolicyEnforcementStatus"),
		cmdlet("applocker", "Get-AppLockerPolicy -Effective | ForEach-Object RuleCollections", "RuleCollectionType", "EnforcementMode", "Count"),
		program("script-policy", powerShell+"Get-ExecutionPolicy -List;$ExecutionContext.SessionState.LanguageMode"),
	}
}
