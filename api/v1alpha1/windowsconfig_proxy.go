package v1alpha1

// ProxySpec is the egress proxy.
type ProxySpec struct {
	// httpProxy is the URL of the proxy for HTTP: http://[user:password@]host[:port]. Services receive a change within
	// seconds and restart to apply it; nodes are neither drained nor restarted.
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	HTTPProxy string `json:"httpProxy,omitempty"`

	// httpsProxy is the URL of the proxy for HTTPS.
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	HTTPSProxy string `json:"httpsProxy,omitempty"`

	// noProxy is a comma-separated list of destinations that are reached directly: host names, .domains, addresses, CIDR
	// ranges. The cluster's own addresses and names are added automatically.
	// +kubebuilder:validation:MaxLength=16384
	// +optional
	NoProxy string `json:"noProxy,omitempty"`
}
