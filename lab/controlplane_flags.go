//go:build linux

package lab

import (
	"net"
	"strconv"
)

func (cp *ControlPlane) etcdFlags() []string {
	return []string{
		"--data-dir=" + cp.path("etcd"),
		"--listen-client-urls=" + cp.etcd,
		"--advertise-client-urls=" + cp.etcd,
		"--listen-peer-urls=http://127.0.0.1:0", // it has no peers
		"--client-cert-auth",
		"--trusted-ca-file=" + cp.path("ca.crt"),
		"--cert-file=" + cp.path("etcd.crt"),
		"--key-file=" + cp.path("etcd.key"),
		"--unsafe-no-fsync", // the data are needed only until the machine restarts
		"--log-level=warn",
	}
}

func (cp *ControlPlane) apiServerFlags() []string {
	flags := []string{
		"--etcd-servers=" + cp.etcd,
		"--etcd-cafile=" + cp.path("ca.crt"),
		"--etcd-certfile=" + cp.path("apiserver-client.crt"),
		"--etcd-keyfile=" + cp.path("apiserver-client.key"),
		"--bind-address=" + cp.address,
		"--advertise-address=" + cp.address,
		"--secure-port=" + strconv.Itoa(cp.port),
		"--tls-cert-file=" + cp.path("apiserver.crt"),
		"--tls-private-key-file=" + cp.path("apiserver.key"),
		"--client-ca-file=" + cp.path("ca.crt"),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--enable-bootstrap-token-auth",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + cp.path("service-accounts.key"),
		"--service-account-signing-key-file=" + cp.path("service-accounts.key"),
		"--service-cluster-ip-range=" + ServiceNetwork,
		// Only the hosts themselves resolve their names. Their serving certificates are verified.
		"--kubelet-preferred-address-types=InternalIP",
		"--kubelet-certificate-authority=" + cp.path("ca.crt"),
		"--kubelet-client-certificate=" + cp.path("apiserver-client.crt"),
		"--kubelet-client-key=" + cp.path("apiserver-client.key"),
		"--allow-privileged",
		"--profiling=false",
		"--audit-policy-file=" + cp.path("audit.yaml"),
		"--audit-log-path=" + cp.path("audit.log"),
		"--audit-log-maxsize=100000", // megabytes, before the log is rotated
	}
	if net.ParseIP(cp.address).IsLoopback() {
		// A loopback address is not valid as an endpoint of the Service "kubernetes".
		flags = append(flags, "--endpoint-reconciler-type=none")
	}
	return flags
}

func (cp *ControlPlane) controllerManagerFlags() []string {
	return []string{
		"--kubeconfig=" + cp.path("controller-manager.conf"),
		"--use-service-account-credentials",
		// Every controller gets its own token when it starts; with the default of 20 requests a second that takes five seconds.
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
		"--service-account-private-key-file=" + cp.path("service-accounts.key"),
		"--root-ca-file=" + cp.path("ca.crt"),
		"--cluster-signing-cert-file=" + cp.path("ca.crt"),
		"--cluster-signing-key-file=" + cp.path("ca.key"),
		"--controllers=*,bootstrapsigner,tokencleaner",
		"--allocate-node-cidrs",
		"--cluster-cidr=" + cp.pods,
		"--service-cluster-ip-range=" + ServiceNetwork,
		"--leader-elect=false",
		"--secure-port=0",
	}
}

func (cp *ControlPlane) schedulerFlags() []string {
	return []string{
		"--kubeconfig=" + cp.path("scheduler.conf"),
		"--leader-elect=false",
		"--secure-port=0",
	}
}
