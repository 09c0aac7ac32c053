// Package tlsprofile translates the TLS security profile of an OpenShift cluster for servers written in Go: the kubelet,
// windows_exporter and the operator. A profile is a minimum: these servers never offer less than TLS 1.2 with forward secrecy and
// authenticated encryption, which all their clients support.
package tlsprofile

import "slices"

// Profile is spec.tlsSecurityProfile of the APIServer cluster (config.openshift.io/v1, types_tlssecurityprofile.go).
type Profile struct {
	// Type is Old, Intermediate, Modern or Custom; empty means Intermediate, OpenShift's default.
	Type   string  `json:"type"`
	Custom *Custom `json:"custom"`
}

// Custom are the settings of type Custom.
type Custom struct {
	// Ciphers are OpenSSL or IANA names.
	Ciphers []string `json:"ciphers"`
	// MinTLSVersion is VersionTLS10 to VersionTLS13.
	MinTLSVersion string `json:"minTLSVersion"`
}

// TLS versions, by the names of OpenShift, the kubelet and crypto/tls.
const (
	TLS12 = "VersionTLS12"
	TLS13 = "VersionTLS13"
)

// Server is what a server offers.
type Server struct {
	// MinVersion is TLS12 or TLS13.
	MinVersion string
	// CipherSuites are those of TLS 1.2, by the names of crypto/tls; none with TLS13, whose suites cannot be configured in Go.
	CipherSuites []string
}

type suite struct{ openSSL, iana string }

// suites returns those of Mozilla's profile Intermediate for TLS 1.2 (https://ssl-config.mozilla.org/guidelines/5.8.json).
func suites() []suite {
	return []suite{
		{"ECDHE-ECDSA-AES128-GCM-SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"},
		{"ECDHE-RSA-AES128-GCM-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"},
		{"ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"},
		{"ECDHE-RSA-AES256-GCM-SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"},
		{"ECDHE-ECDSA-CHACHA20-POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"},
		{"ECDHE-RSA-CHACHA20-POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"},
	}
}

// Server returns what servers offer with this profile. Old is treated as Intermediate, an unknown type as Modern.
func (p Profile) Server() Server {
	switch p.Type {
	case "", "Old", "Intermediate":
		return custom(Custom{Ciphers: names(suites())})
	case "Custom":
		if p.Custom != nil {
			return custom(*p.Custom)
		}
	}
	return Server{MinVersion: TLS13}
}

// custom ignores ciphers that are not in suites, which OpenShift permits. net/http serves TLS 1.2 only with one of the suites that
// HTTP/2 requires (RFC 9113, section 9.2.2), and does not start otherwise: without one, only TLS 1.3 remains.
func custom(c Custom) Server {
	switch c.MinTLSVersion {
	case "", "VersionTLS10", "VersionTLS11", TLS12:
	default:
		return Server{MinVersion: TLS13}
	}
	s := Server{MinVersion: TLS12}
	for _, known := range suites() {
		if slices.Contains(c.Ciphers, known.openSSL) || slices.Contains(c.Ciphers, known.iana) {
			s.CipherSuites = append(s.CipherSuites, known.iana)
		}
	}
	for _, required := range suites()[:2] {
		if slices.Contains(s.CipherSuites, required.iana) {
			return s
		}
	}
	return Server{MinVersion: TLS13}
}

func names(all []suite) []string {
	var list []string
	for _, s := range all {
		list = append(list, s.iana)
	}
	return list
}
