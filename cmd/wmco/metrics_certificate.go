package main

import (
	"crypto/tls"
	"errors"
	"io/fs"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"
	certutil "k8s.io/client-go/util/cert"
)

// certificateReadInterval is the minimum time between reads of the files. Connections trigger the reads.
const certificateReadInterval = 10 * time.Second

// servingCertificate is the certificate in a folder, as Kubernetes mounts a Secret of type kubernetes.io/tls. Without files it is a self-signed
// one that clients cannot verify.
type servingCertificate struct {
	dir string
	log logr.Logger

	mu        sync.Mutex
	current   *tls.Certificate
	checkedAt time.Time
	// lastLogged is the message last logged about the files.
	lastLogged string
}

func newServingCertificate(dir string, log logr.Logger) (*servingCertificate, error) {
	cert, key, err := certutil.GenerateSelfSignedCertKeyWithFixtures("localhost", []net.IP{{127, 0, 0, 1}}, nil, "")
	if err != nil {
		return nil, err
	}
	selfSigned, err := tls.X509KeyPair(cert, key)
	return &servingCertificate{dir: dir, log: log, current: &selfSigned}, err
}

// get returns the certificate in the folder, or the previous one if it cannot be read. A Secret may be mounted, and its files may change, while
// the operator runs.
func (c *servingCertificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dir == "" || time.Since(c.checkedAt) < certificateReadInterval {
		return c.current, nil
	}
	c.checkedAt = time.Now()
	read, err := tls.LoadX509KeyPair(filepath.Join(c.dir, "tls.crt"), filepath.Join(c.dir, "tls.key"))
	switch {
	case err == nil:
		c.current = &read
		c.logOnce("Serving metrics with the certificate of the folder", nil)
	case errors.Is(err, fs.ErrNotExist):
		c.logOnce("No certificate for the metrics in the folder", nil)
	default:
		c.logOnce("Reading the certificate for the metrics failed", err)
	}
	return c.current, nil
}

// logOnce logs a message unless it repeats the last one.
func (c *servingCertificate) logOnce(message string, err error) {
	text := message
	if err != nil {
		text += ": " + err.Error()
	}
	if text == c.lastLogged {
		return
	}
	c.lastLogged = text
	if err != nil {
		c.log.Error(err, message, "folder", c.dir)
		return
	}
	c.log.Info(message, "folder", c.dir)
}
