//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

const (
	// silentNames are entries whose DNS never answers, at silentDNS. goodAddress is for documentation (RFC 5737).
	silentNames = 6400
	silentDNS   = "127.77.0.53"
	goodAddress = "192.0.2.77"
)

// measureNames measures how long an address waits to become an instance, when it is added to many names whose DNS does not answer.
func (f fleet) measureNames(ctx context.Context) error {
	silent, err := net.ListenPacket("udp", silentDNS+":53")
	if err != nil {
		return err
	}
	defer silent.Close()
	resolver, err := os.CreateTemp("", "wmco-resolv-")
	if err != nil {
		return err
	}
	defer os.Remove(resolver.Name())
	if _, err := fmt.Fprintf(resolver, "nameserver %s\n", silentDNS); err != nil {
		return err
	}
	if err := resolver.Close(); err != nil {
		return err
	}
	f.Operator.Kill()
	back := f.Operator.ResolveWith(resolver.Name())
	defer back()
	if err := f.Operator.Start(); err != nil {
		return err
	}
	entries := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: api.InstancesConfigMap}, Data: map[string]string{}}
	for n := range silentNames {
		entries.Data[fmt.Sprintf("silent-%d.example", n)] = "username=Administrator"
	}
	if err := f.Client.Create(ctx, entries); err != nil {
		return err
	}
	seconds, err := f.addGoodAddress(ctx, entries)
	if err != nil {
		return err
	}
	f.number("names.good_address_seconds", seconds, "s")
	if err := f.Client.Delete(ctx, entries); err != nil {
		return err
	}
	return f.until(ctx, "the instance is gone", func(ctx context.Context) (bool, error) {
		found, err := f.hasInstance(ctx, goodAddress)
		return !found, err
	})
}

// addGoodAddress adds the address as soon as the names are resolved.
func (f fleet) addGoodAddress(ctx context.Context, entries *corev1.ConfigMap) (seconds float64, err error) {
	const ready = "192.0.2.78" // an address that shows that the operator works
	for _, address := range []string{ready, goodAddress} {
		former := entries.DeepCopy()
		entries.Data[address] = "username=Administrator"
		began := time.Now()
		if err := f.Client.Patch(ctx, entries, client.MergeFrom(former)); err != nil {
			return 0, err
		}
		if err := f.until(ctx, address+" is an instance", func(ctx context.Context) (bool, error) { return f.hasInstance(ctx, address) }); err != nil {
			return 0, err
		}
		seconds = time.Since(began).Seconds()
	}
	return seconds, nil
}

func (f fleet) hasInstance(ctx context.Context, name string) (bool, error) {
	err := f.Client.Get(ctx, client.ObjectKey{Namespace: api.DefaultNamespace, Name: name}, &v1alpha1.WindowsInstance{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}
