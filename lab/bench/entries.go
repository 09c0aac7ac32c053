//go:build linux

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// entriesEach is how many entries a set of mirrors has, so that the API server accepts it.
const entriesEach = 1000

// sizes are the numbers of entries that a node must have after a change of them.
func sizes() []int { return []int{1000, 10_000} }

// measureEntries measures how long a change of many mirrors on OpenShift takes until WICD's registry of a node works with it. The node
// is simulated; WICD, the operator and the API server are real.
func measureEntries(ctx context.Context, s *sheet) error {
	if err := lab.PreferMemory(); err != nil {
		return err
	}
	st, err := openStage(ctx, s, testenv.Options{OpenShift: "None"})
	if err != nil {
		return err
	}
	defer st.Close()
	c := crowd{st}
	if err := c.grow(ctx, 1); err != nil {
		return err
	}
	for _, n := range sizes() {
		var seconds []float64
		for round := range rounds + 1 { // the first makes the objects and the host's certificates
			began, mirror := time.Now(), fmt.Sprintf("127.0.0.1:1/round-%d-%d", n, round) // where nothing listens
			if err := c.putEntries(ctx, n, mirror); err != nil {
				return err
			}
			err := c.poll(ctx, pollInterval/5, patience, "the registry of the node has the last entry", func(ctx context.Context) (bool, error) {
				return strings.Contains(askRegistry(ctx, c.Simulated()[0], entry(n-1)), mirror), nil
			})
			if err != nil {
				return err
			}
			seconds = append(seconds, time.Since(began).Seconds())
			s.say("The node had %d entries after %.2f s", n, seconds[round])
			time.Sleep(settle)
		}
		s.number(fmt.Sprintf("mirror.entries_seconds_%d", n), median(seconds[1:]), "s")
	}
	return nil
}

// entry is the source of an entry.
func entry(n int) string { return fmt.Sprintf("source-%d.example", n) }

// putEntries creates or changes sets of mirrors, so that so many sources have one mirror.
func (c crowd) putEntries(ctx context.Context, n int, mirror string) error {
	for set := range n / entriesEach {
		var entries []any
		for i := range entriesEach {
			entries = append(entries, map[string]any{
				"source": entry(set*entriesEach + i), "mirrors": []any{mirror}, "mirrorSourcePolicy": "NeverContactSource",
			})
		}
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "config.openshift.io/v1", "kind": "ImageTagMirrorSet", "metadata": map[string]any{"name": fmt.Sprintf("set-%d", set)},
		}}
		got := object.DeepCopy()
		err := c.Client.Get(ctx, client.ObjectKeyFromObject(object), got)
		object.Object["spec"] = map[string]any{"imageTagMirrors": entries}
		if object.SetResourceVersion(got.GetResourceVersion()); err == nil {
			err = c.Client.Update(ctx, object)
		} else if apierrors.IsNotFound(err) {
			err = c.Client.Create(ctx, object)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// askRegistry requests an image of a source from a host's registry as containerd does, and returns the answer; it is empty until there is a registry.
// The answer names the mirrors that did not have the image.
func askRegistry(ctx context.Context, h *sim.Host, source string) string {
	ca, err := h.Windows().Disk().Read(desired.RegistryCA)
	pair, errPair := h.Windows().Disk().Read(desired.RegistryClient)
	if errors.Join(err, errPair) != nil {
		return ""
	}
	certificate, err := tls.X509KeyPair(pair, pair)
	if err != nil {
		return ""
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{certificate}}, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return h.Windows().DialLoopback(ctx, address)
		},
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+desired.RegistryAddress+"/v2/app/manifests/1?ns="+source, nil)
	if err != nil {
		return ""
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<16))
	return string(text)
}
