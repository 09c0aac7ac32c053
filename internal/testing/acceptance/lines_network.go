package acceptance

// networkLines returns the lines about networks.
func networkLines() []Line {
	return []Line{
		{
			ID: "firewall", Title: "Firewall",
			Text: "Wine has the COM objects without content. The tests use a stand-in of `hnetcfg.dll` that stores rules in the " +
				"registry (`lab/windows/shims/hnetcfg.c`), and a stand-in of the service. It was not tested that a rule accepts " +
				"packets, or how a group policy affects it. According to its documentation, Windows returns address ranges with " +
				"masks instead of prefixes; other forms are accepted as well. Hosts of the lab have no firewall and report that.",
			Claim:   "rules that WICD sets are read back as declared",
			Changes: "temporarily adds two firewall rules of group OpenShift managed, for ports on which nothing listens",
			Try:     tryFirewall,
		},
		{
			ID: "routes", Title: "Routes",
			Text: "Wine has no call that adds one and reports no changes. Reading routes was tested; adding them and the " +
				"notification follow the documentation and were simulated.",
			Claim:   "a route is added only once, and Windows reports its removal",
			Changes: "temporarily adds a route to 203.0.113.10/32 (a network for documentation)",
			Try:     tryRoutes,
		},
		{
			ID: "hns", Title: "Host Network Service",
			Text: "it is the lab's, with hcsshim's calls above it. Not tested were: what a stopped service answers " +
				"on Windows (0x6ba, 0x6be, 0x6d9 or 0x426, which are all treated as no answer); how long a new network " +
				"takes to get its addresses, whether one without them gets them when it is created again (only the " +
				"simulated service was tested), and how long connections are interrupted; that Windows accepts " +
				"hundreds of remote subnets in one request (a rejected batch is split in halves), attaches an " +
				"endpoint by the namespace `HostDefault`, or returns adapter, port and host route as they were " +
				"requested. Two programs that create the same name at the same moment can both succeed.",
			Claim: "the networks of the overlay are created as requested, with 300 remote subnets, survive a restart of the service, and the machine " +
				"recovers its address when they are deleted",
			Changes: "with --network-cut-allowed: creates two overlay networks, an endpoint and load balancers, restarts service hns, and deletes everything",
			Needs:   NetworkCut,
			Try:     tryHNS,
		},
		aclLine(),
		{
			ID: "load-balancers", Title: "Load balancers and routes in Windows",
			Text: "how Windows forwards packets from pods to Services, and packet loss without direct server return " +
				"(reported for Windows Server 2019), can only be tested on Windows. On hosts of the lab, pods " +
				"reach Services as kube-proxy wrote them, through Linux' kernel, and resolve names with glibc and the " +
				"DNS settings of their endpoints. kube-proxy is configured for direct server return.",
			Reason: "it requires a cluster and pods; step traffic of --join tests a Service of two pods",
		},
		{
			ID: "hybrid-overlay", Title: "Hybrid overlay",
			Text: "the workarounds in OVN-Kubernetes show that the first network cuts connections and leaves routes behind. " +
				"According to the documentation of its API, Windows returns port, adapter and subnet of a network as they were " +
				"requested. A network that `hybrid-overlay-node` created itself is not compared with the request until the " +
				"program restarts. After a restart of Windows, the program adds persistent routes that Windows keeps for the " +
				"adapter below the virtual one. It was not tested that `netsh interface ipv4 show route store=persistent` lists " +
				"these, with the same columns in all languages, that `route delete` removes them there, or that a route of " +
				"`route -p` is listed there or in the registry. A persistent route without a gateway is not added: the log names " +
				"it.",
			Reason: "it requires a cluster; --join --network ovn creates its networks",
		},
	}
}

func aclLine() Line {
	return Line{
		ID: "acl", Title: "Rules of endpoints",
		Text: "NetworkPolicies become rules (ACLs) of the Host Network Service. What the product assumes of them is what others have " +
			"published (`internal/shared/hns/acls.go`), and the lab's service does the same: the rule with the lowest priority number " +
			"decides, replies pass, a direction with rules is closed for what no rule allows, and rules see the address behind a " +
			"Service. The product does not depend on the order of rules within a priority, nor on whether rules for one direction " +
			"close the other: it writes no such rules. Not tested were also: from which address a node reaches its pods, and what a " +
			"write does to open connections. The probe has one endpoint like that of a pod, whose program runs in its network " +
			"compartment, and the machine as the other side; it never ran on Windows, where entering the compartment may fail. Then " +
			"it only writes rules and reads them back.",
		Claim: "rules are returned as written, the lowest priority number decides, replies pass, rules see the address behind a Service, and the machine " +
			"reaches the pod from an address that the product allows",
		Changes: "with --network-cut-allowed: creates two overlay networks, two endpoints with rules, a network namespace, a load balancer and a firewall rule " +
			"for two ports of the network, and deletes everything",
		Needs: NetworkCut,
		Try:   tryACLs,
	}
}
