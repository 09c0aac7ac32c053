package v1alpha1

// ClusterSpec specifies properties of the cluster that the operator cannot read from it, or reads wrongly.
type ClusterSpec struct {
	// apiServer is where hosts reach the API server: <host>:<port>, or an https URL such as https://api.example.com:6443.
	// Its certificate must be valid for that name or address. By default, the operator reads it on OpenShift from
	// status.apiServerInternalURI of Infrastructure cluster, and elsewhere from ConfigMap kube-public/cluster-info or,
	// without one, from EndpointSlice default/kubernetes; it skips loopback addresses. Before a host joins, WICD tests the
	// address on the host, without a proxy; if the test fails, nothing is installed, and the instance has reason
	// APIServerUnreachable. Nodes keep the address with which they joined.
	// +kubebuilder:validation:MaxLength=270
	// +kubebuilder:validation:Pattern=`^(https://(\[[0-9a-fA-F:.]+\]|[a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?)(:[1-9][0-9]{0,4})?/?|(\[[0-9a-fA-F:.]+\]|[a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?):[1-9][0-9]{0,4})$`
	// +kubebuilder:validation:XValidation:rule=`!self.lowerAscii().matches(r'^(https://)?(127\.[0-9.]*|0\.0\.0\.0|\[::1?\]|(.*\.)?localhost\.?)(:|/|$)')`,message="must not be a loopback address: it means each host itself"
	// +optional
	APIServer string `json:"apiServer,omitempty"`
}

// DNSSpec specifies how pods reach the cluster's DNS.
type DNSSpec struct {
	// domain is the cluster's DNS domain. By default, the operator reads it from clusterDomain in ConfigMap
	// kube-system/kubelet-config, or from networking.dnsDomain in kube-system/kubeadm-config; on OpenShift it is
	// cluster.local. On other clusters it is that of the one name kubernetes.default.svc.<domain> in the certificate of
	// the API server. If none of these contains it, nodes get cluster.local, and condition Degraded reports it. Kubelets
	// restart after a change; existing pods keep the former domain.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +optional
	Domain string `json:"domain,omitempty"`

	// servers are the IPv4 addresses at which pods reach the cluster's DNS. By default, the operator reads them from
	// clusterDNS in ConfigMap kube-system/kubelet-config (it skips link-local addresses, at which only Linux nodes have a
	// cache), or else from Service openshift-dns/dns-default, kube-system/kube-dns, or the one in kube-system with label
	// k8s-app=kube-dns or k8s-app=coredns. If none of these contains an address, hosts do not join (ClusterDNSUnknown).
	// Kubelets restart after a change; existing pods keep the former servers.
	// +kubebuilder:validation:MaxItems=3
	// +kubebuilder:validation:items:MaxLength=15
	// +kubebuilder:validation:items:XValidation:rule="isIP(self) && ip(self).family() == 4 && !ip(self).isLoopback() && !ip(self).isUnspecified() && !ip(self).isLinkLocalUnicast() && !ip(self).isLinkLocalMulticast()",message="must be an IPv4 address such as 10.96.0.10, neither a loopback nor a link-local one"
	// +listType=set
	// +optional
	Servers []string `json:"servers,omitempty"`
}
