//go:build linux

package testenv

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// kubeletPort is the port of the kubelet's API.
const kubeletPort = "10250"

// ServeLogs serves the logs of a simulated host as its kubelet would, until the program ends. The kubelet's serving
// certificate, which it uses, must exist.
func (env *Env) ServeLogs(ctx context.Context, h *sim.Host, at Host) error {
	disk := h.Windows().Disk()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", net.JoinHostPort(at.Address, kubeletPort))
	if err != nil {
		return fmt.Errorf("serving the logs of %s: %w", at.Name, err)
	}
	server := &http.Server{
		Handler:           http.StripPrefix("/logs/", http.FileServer(http.Dir(disk.Local(desired.Logs)))),
		ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			text, err := disk.Read(desired.KubeletServing)
			if err != nil {
				return nil, err
			}
			pair, err := tls.X509KeyPair(text, text)
			return &pair, err
		}},
	}
	go func() { _ = server.ServeTLS(l, "", "") }()
	return nil
}
