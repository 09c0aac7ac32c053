package acceptance

// networkLines returns the lines about networks.
func networkLines() []Line {
	return []Line{
		{
			ID: "firewall", Title: "Firewall",
			Text: "Wine has the COM objects without content. The tests use a stand-in of `hnetcfg.dll` that stores " +
				"rules in the registry (`lab/windows/shims/hnetcfg.c`), and a stand-in of the service. It was not tested " +
				"that a rule accepts packets, or what a group policy does to it. How Windows returns address " +
				"ranges is from its documentation: it writes prefixes as masks; other forms are read, too. Hosts " +
				"of the lab have no firewall and say so.",
			Claim:   "rules that WICD sets are as declared when it reads them again",
			Changes: "adds two firewall rules of group OpenShift managed for a moment; they let in nothing that listens",
			Try:     tryFirewall,
		},
		{
			ID: "routes", Title: "Routes",
			Text: "Wine has no call that adds one and reports no changes. Reading routes was tested; adding them " +
				"and the notification are from documentation and a simulation.",
			Claim:   "a route is added once, and Windows reports when it is removed",
			Changes: "adds a route to 203.0.113.10/32 (a network for documentation) for a moment",
			Try:     tryRoutes,
		},
		{
			ID: "hns", Title: "Host Network Service",
			Text: "it is the lab's, with hcsshim's calls above it. Not tested were: what a stopped service answers " +
				"on Windows (0x6ba, 0x6be, 0x6d9 or 0x426, which all count as no answer); how long a new network " +
				"takes to get its addresses, whether one without them gets them when it is created again (only the " +
				"simulated service was asked), and how long connections are cut meanwhile; that Windows accepts " +
				"hundreds of remote subnets in one request (a rejected batch is split in halves), attaches an " +
				"endpoint by the namespace `HostDefault`, or returns adapter, port and host route as they were " +
				"requested. Two programs that create the same name at the same moment can both succeed.",
			Claim: "the networks of the overlay are made as asked for, with 300 remote subnets, stay when the service restarts, and the machine " +
				"has its address again when they are deleted",
			Changes: "with --network-cut-allowed: makes two overlay networks, an endpoint and load balancers, restarts service hns, and deletes all again",
			Needs:   NetworkCut,
			Try:     tryHNS,
		},
		{
			ID: "load-balancers", Title: "Load balancers and routes in Windows",
			Text: "how Windows forwards packets from pods to Services, and packet loss without direct server return " +
				"(reported for Windows Server 2019), can only be tested on Windows. On hosts of the lab, pods " +
				"reach Services as kube-proxy wrote them, by Linux' kernel, and resolve names by glibc, with the " +
				"DNS settings of their endpoints. kube-proxy is configured for direct server return.",
			Reason: "it takes a cluster and pods; step traffic of --join tries a Service of two pods",
		},
		{
			ID: "hybrid-overlay", Title: "Hybrid overlay",
			Text: "that the first network cuts connections and leaves routes behind is known from the workarounds " +
				"in OVN-Kubernetes. That Windows returns port, adapter and subnet of a network as they were " +
				"requested is from the documentation of its API. A network that `hybrid-overlay-node` created " +
				"itself is not compared with that until the program restarts. After a restart of Windows, the " +
				"program adds persistent routes that Windows keeps for the adapter below the virtual one. It " +
				"is an assumption, which was not tested, that `netsh interface ipv4 show route store=persistent` " +
				"lists these, with the same columns in all languages, that `route delete` removes them there, and " +
				"that a route of `route -p` is listed there or in the registry. A persistent route without a gateway is not added: the log names it.",
			Reason: "it takes a cluster; --join --network ovn makes its networks",
		},
	}
}
