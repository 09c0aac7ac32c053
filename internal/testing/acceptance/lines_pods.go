package acceptance

// podLines returns the lines about containers and pods.
func podLines() []Line {
	return []Line{
		{
			ID: "sandbox-image", Title: "Sandbox image",
			Text: "containerd pulled it on Wine, from registries of the tests. Microsoft's registry could not be reached. The " +
				"Windows builds that its pause images support are taken from the change log of `build/pause` in Kubernetes and " +
				"from projects that use them. It is unknown whether `pause:3.9` has layers that are not in registries " +
				"([disconnected.md](disconnected.md)). It was tested on Wine, with stand-ins for Windows' containers, that pods " +
				"keep running while containerd restarts.",
			Claim: "Microsoft's registry has the default sandbox image for this Windows, with all of its layers",
			Try:   trySandboxImage,
		},
		{
			ID: "container-removal", Title: "Removing containers when a host leaves",
			Text: "the functions of `vmcompute.dll` and `computenetwork.dll` are called as hcsshim calls them; the lab has " +
				"stand-ins for both. It is unknown whether Windows can remove a layer without a restart if it was in use when " +
				"containerd stopped; files that cannot be removed are listed.",
			Reason: "it requires containers and their images; step leave of --join tests it",
		},
		{
			ID: "pods", Title: "Pods",
			Text: "containerd, its shim, win-overlay and host-local are the real programs. They run Deployments " +
				"with logs, exec, attach, port-forward, exit codes, stop signals, grace periods and restarts, across " +
				"reboots and power cuts. The container and network services of Windows below them are stand-ins: containers are " +
				"ordinary processes in namespaces and cgroups of Linux without a Windows image, no packet is " +
				"encapsulated, and Linux balances what kube-proxy wrote for Windows (see lab/README.md).",
			Reason: "it requires a cluster; --join tests three pods of one image, and restarts the services below them",
		},
		{
			ID: "hyper-v", Title: "Hyper-V isolation",
			Text: "no pod ever ran with it. What was tested: reading and enabling the feature with the stand-in of `DismApi.dll`, " +
				"what the processor reports with Wine on a virtual machine without nested virtualization, condition, label and " +
				"RuntimeClasses with simulated hosts, and that containerd and its shim accept the configuration and request from " +
				"the stand-in of Windows' container service a virtual machine with the memory and processors of WindowsConfig. " +
				"It is unknown whether Hyper-V runs on a real host after the restart, whether the pause image contains what a " +
				"virtual machine boots from, how much memory its Windows uses, and how networks and volumes work in it.",
			Claim: "WICD reports the same state of feature Microsoft-Hyper-V as dism.exe, and reports Hyper-V as running only if the feature is enabled",
			Try:   tryHyperV,
		},
		{
			ID: "missed-network", Title: "Network configuration missed by containerd",
			Text: "on Wine, containerd missed one on a busy machine; it reports to WICD whether it has a network. According to its " +
				"source (`cni_conf_syncer.go`), it reads the folder again when WICD changes a file in it; the simulated " +
				"containerd does so, but the situation could not be reproduced with the real one.",
			Reason: "the situation could not be reproduced with the real containerd",
		},
	}
}
