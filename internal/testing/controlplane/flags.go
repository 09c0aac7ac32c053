package controlplane

import (
	"net"
	"path/filepath"
	"strconv"
	"strings"
)

// Programs, as in the first argument of lab/cluster/controlplane.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
)

// The cluster's range of Service addresses, a common one, and its first address, that of Service "kubernetes", with its name. Pods on Windows
// resolve only its full name, which kubeadm also uses as the token issuer.
const (
	ServiceNetwork  = "10.96.0.0/16"
	ServiceOfTheAPI = "10.96.0.1"
	nameOfTheAPI    = "kubernetes.default.svc.cluster.local"
)

// Config is a control plane. One CA signs all certificates but that for aggregated APIs, and all are verified. Node and RBAC authorize requests,
// NodeRestriction is enabled, and certificate requests are signed once approved; nothing approves them.
type Config struct {
	// Folder holds the Files of NewCredentials and etcd's data. Only administrators may read it.
	Folder string
	// Address and Port are where the API server listens; Address is an IP address.
	Address string
	Port    int
	// EtcdPort is etcd's port on loopback.
	EtcdPort int
	// PodNetwork is the range of pod addresses. Each node gets a /24 of it. If it is empty, nodes get none, because the network divides its
	// range itself.
	PodNetwork string
	// AuditPolicy makes the API server write audit.log into the folder; empty disables it.
	AuditPolicy string
	// ServiceNetwork6 is the IPv6 range of Services; empty for an IPv4-only cluster.
	ServiceNetwork6 string
}

// URL returns the URL of the API server.
func (c Config) URL() string {
	return "https://" + net.JoinHostPort(c.Address, strconv.Itoa(c.Port))
}

// Flags returns the command line of a program, without its name.
func (c Config) Flags(program string) []string {
	switch program {
	case Etcd:
		return c.etcd()
	case APIServer:
		return c.apiServer()
	case ControllerManager:
		return c.controllerManager()
	case Scheduler:
		return []string{"--kubeconfig=" + c.path("scheduler.conf"), "--leader-elect=false", "--secure-port=0"}
	}
	return nil
}

func (c Config) path(name string) string { return filepath.Join(c.Folder, name) }

func (c Config) etcdURL() string { return "https://127.0.0.1:" + strconv.Itoa(c.EtcdPort) }

func (c Config) etcd() []string {
	return []string{
		"--data-dir=" + c.path("etcd"),
		"--listen-client-urls=" + c.etcdURL(),
		"--advertise-client-urls=" + c.etcdURL(),
		"--listen-peer-urls=http://127.0.0.1:0", // it has no peers
		"--client-cert-auth",
		"--trusted-ca-file=" + c.path("ca.crt"),
		"--cert-file=" + c.path("etcd.crt"),
		"--key-file=" + c.path("etcd.key"),
		"--quota-backend-bytes=" + strconv.Itoa(8<<30), // OpenShift's; etcd's own default is 2 GiB
		"--unsafe-no-fsync",                            // the data are needed only until the machine restarts
		"--log-level=warn",
	}
}

func (c Config) apiServer() []string {
	flags := []string{
		"--etcd-servers=" + c.etcdURL(),
		"--etcd-cafile=" + c.path("ca.crt"),
		"--etcd-certfile=" + c.path("apiserver-client.crt"),
		"--etcd-keyfile=" + c.path("apiserver-client.key"),
		"--bind-address=" + c.Address,
		"--advertise-address=" + c.Address,
		"--secure-port=" + strconv.Itoa(c.Port),
		"--tls-cert-file=" + c.path("apiserver.crt"),
		"--tls-private-key-file=" + c.path("apiserver.key"),
		"--client-ca-file=" + c.path("ca.crt"),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--enable-bootstrap-token-auth",
		"--service-account-issuer=https://" + nameOfTheAPI,
		"--service-account-key-file=" + c.path("service-accounts.key"),
		"--service-account-signing-key-file=" + c.path("service-accounts.key"),
		"--service-cluster-ip-range=" + strings.TrimSuffix(ServiceNetwork+","+c.ServiceNetwork6, ","),
		// No kube-proxy runs next to the API server, so it calls webhooks at the endpoints of their Services.
		"--enable-aggregator-routing",
		// Only the hosts themselves resolve their names. The API server verifies their serving certificates.
		"--kubelet-preferred-address-types=InternalIP",
		"--kubelet-certificate-authority=" + c.path("ca.crt"),
		"--kubelet-client-certificate=" + c.path("apiserver-client.crt"),
		"--kubelet-client-key=" + c.path("apiserver-client.key"),
		// The servers of aggregated APIs trust the user name that the API server forwards.
		"--requestheader-client-ca-file=" + c.path(frontProxyCA+".crt"),
		"--requestheader-allowed-names=" + frontProxy,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + c.path(frontProxy+".crt"),
		"--proxy-client-key-file=" + c.path(frontProxy+".key"),
		"--allow-privileged",
		"--profiling=false",
	}
	if c.AuditPolicy != "" {
		flags = append(flags,
			"--audit-policy-file="+c.path("audit.yaml"),
			"--audit-log-path="+c.path("audit.log"),
			"--audit-log-maxsize=100000") // megabytes, before the log is rotated
	}
	if net.ParseIP(c.Address).IsLoopback() {
		// A loopback address is not valid as an endpoint of the Service "kubernetes".
		flags = append(flags, "--endpoint-reconciler-type=none")
	}
	return flags
}

func (c Config) controllerManager() []string {
	flags := []string{
		"--kubeconfig=" + c.path("controller-manager.conf"),
		"--use-service-account-credentials",
		// Every controller requests its own token at startup; with the default of 20 requests per second, that takes five seconds.
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
		"--service-account-private-key-file=" + c.path("service-accounts.key"),
		"--root-ca-file=" + c.path("ca.crt"),
		"--cluster-signing-cert-file=" + c.path("ca.crt"),
		"--cluster-signing-key-file=" + c.path("ca.key"),
		"--controllers=*,bootstrapsigner,tokencleaner",
		"--service-cluster-ip-range=" + ServiceNetwork,
		"--leader-elect=false",
		"--secure-port=0",
		// The controller manager creates this folder; the default is /usr/libexec/kubernetes/kubelet-plugins, on Windows on drive C:.
		"--flex-volume-plugin-dir=" + c.path("volumeplugins"),
	}
	if c.PodNetwork != "" {
		flags = append(flags, "--allocate-node-cidrs", "--cluster-cidr="+c.PodNetwork)
	}
	return flags
}
