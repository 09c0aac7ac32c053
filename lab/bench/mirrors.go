//go:build linux

package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/image"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

const (
	// mirroredSource is a registry that does not exist: all its images come from its mirror.
	mirroredSource = "source.example"
	largeImage     = 32 << 20
	smallImage     = 1 << 10
	pullsAtOnce    = 10
	// pairs is the number of pairs of pulls. The first pair is a warm-up.
	pairs = 4*rounds + 1
	// direct and mirrored are the kinds of pulls.
	direct, mirrored = "direct", "mirrored"
)

// measurePulls measures pulls of a Wine host's containerd, directly from a registry and through its mirror configuration.
func measurePulls(ctx context.Context, s *sheet) error {
	if err := errors.Join(lab.CanRunWindows(), lab.CanRunRegistries()); err != nil {
		return fmt.Errorf("a host on Wine and registries are required: %w", err)
	}
	st, err := openStage(ctx, s, testenv.Options{WineHosts: 1})
	if err != nil {
		return err
	}
	defer st.Close()
	p := pulls{stage: st}
	if p.registry, err = st.Lab.StartRegistry(ctx, lab.RegistryOptions{}); err != nil {
		return err
	}
	if err := p.configure(ctx); err != nil {
		return err
	}
	hosts, err := st.newHosts(ctx, 1)
	if err != nil {
		return err
	}
	if _, err := st.join(ctx, hosts); err != nil {
		return err
	}
	p.host = hosts[0]
	return errors.Join(p.measureSmall(ctx), p.measureLarge(ctx), p.measureMemory(ctx))
}

// measureSmall measures the added latency per request, with images so small that their content takes no time.
func (p pulls) measureSmall(ctx context.Context) error {
	var added []float64
	for round := range pairs {
		took, err := p.pair(ctx, round, smallImage)
		if err != nil {
			return err
		}
		requests, err := p.requestsFor(took[mirrored].name)
		if err != nil {
			return err
		}
		added = append(added, 1000*(took[mirrored].seconds-took[direct].seconds)/float64(requests))
	}
	p.number("mirror.first_byte_ms", median(added[1:]), "ms")
	return nil
}

// measureLarge compares the throughput of both kinds of pulls, with images whose content takes most of the time.
func (p pulls) measureLarge(ctx context.Context) error {
	var shares []float64
	for round := range pairs {
		took, err := p.pair(ctx, round, largeImage)
		if err != nil {
			return err
		}
		shares = append(shares, took[direct].seconds/took[mirrored].seconds)
	}
	p.number("mirror.throughput_share", median(shares[1:]), "ratio")
	return nil
}

// pulls measures image pulls of one host.
type pulls struct {
	*stage
	host     *lab.Host
	registry *lab.Registry
}

// configure makes the registry a mirror, with credentials and a CA that hosts trust.
func (p pulls) configure(ctx context.Context) error {
	auths, err := json.Marshal(map[string]any{"auths": map[string]any{p.registry.Host: map[string]string{"username": p.registry.User, "password": p.registry.Password}}})
	if err != nil {
		return err
	}
	meta := metav1.ObjectMeta{Namespace: api.DefaultNamespace}
	secret := &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: auths}}
	trusted := &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{api.TrustedCAKey: string(p.Lab.RegistryCA())}}
	secret.Name, trusted.Name = api.PullSecret, api.TrustedCAConfigMap
	return errors.Join(p.Client.Create(ctx, secret), p.Client.Create(ctx, trusted), p.Change(ctx, func(c *v1alpha1.WindowsConfigSpec) {
		c.Registries.Mirrors = append(c.Registries.Mirrors, v1alpha1.RegistryMirrors{
			Source: mirroredSource, MirrorSourcePolicy: v1alpha1.NeverContactSource, Mirrors: []v1alpha1.RegistryMirror{{Location: p.registry.Host}},
		})
	}))
}

// push pushes an image with random content, and returns its repository and tag.
func (p pulls) push(ctx context.Context, size int) (string, error) {
	content := make([]byte, size)
	_, _ = rand.Read(content)
	name := "team/" + fmt.Sprintf("%x", content[:8])
	i, err := image.New(fmt.Sprintf("10.0.%d.%d", lab.Build, lab.Revision), map[string]string{name + "/base.bin": string(content[:size/2])}, map[string]string{name + "/app.bin": string(content[size/2:])})
	if err != nil {
		return "", err
	}
	return name + ":1", p.registry.Push(ctx, name, "1", i)
}

// pair pulls a new image directly and another through WICD, and returns the time of each by its kind.
func (p pulls) pair(ctx context.Context, round, size int) (took map[string]timed, err error) {
	took = map[string]timed{}
	kinds := []string{direct, mirrored}
	if round%2 == 1 { // alternate the order: the first pull leaves work behind that slows the second
		slices.Reverse(kinds)
	}
	for _, kind := range kinds {
		name, err := p.push(ctx, size)
		if err != nil {
			return nil, err
		}
		time.Sleep(settle) // containerd is still removing the previous image
		seconds, err := p.pull(ctx, map[string]string{direct: p.registry.Host, mirrored: mirroredSource}[kind], name)
		if err != nil {
			return nil, err
		}
		took[kind] = timed{name, seconds}
	}
	return took, nil
}

// timed is the name of a pulled image and the time of its pull.
type timed struct {
	name    string
	seconds float64
}

// requestsFor returns how many requests for an image the registry received from hosts.
func (p pulls) requestsFor(name string) (n int, err error) {
	all, err := p.registry.Requests()
	repository, _, _ := strings.Cut(name, ":")
	for _, r := range all {
		if strings.Contains(r.Path, "/"+repository+"/") && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			n++
		}
	}
	if err == nil && n == 0 {
		err = fmt.Errorf("the registry received no request for %s", name)
	}
	return n, err
}

// pull pulls an image of a registry, and removes it.
func (p pulls) pull(ctx context.Context, registry, name string) (seconds float64, err error) {
	began := time.Now()
	if _, err := p.host.Pull(ctx, registry+"/"+name); err != nil {
		return 0, err
	}
	seconds = time.Since(began).Seconds()
	return seconds, p.host.RemoveImage(ctx, registry+"/"+name)
}

// measureMemory measures how much WICD's memory grows during concurrent pulls.
func (p pulls) measureMemory(ctx context.Context) error {
	wicd, err := processOf(processes(), "windows-instance-config-daemon.exe", "run")
	if err != nil {
		return err
	}
	var names []string
	for range pullsAtOnce {
		name, err := p.push(ctx, largeImage/2)
		if err != nil {
			return err
		}
		names = append(names, name)
	}
	before, peak := memory(wicd).VmRSS, uint64(0)
	var work errgroup.Group
	for _, name := range names {
		work.Go(func() error {
			_, err := p.host.Pull(ctx, mirroredSource+"/"+name)
			return err
		})
	}
	done := make(chan error, 1)
	go func() { done <- work.Wait() }()
	for isDone := false; !isDone; {
		select {
		case err = <-done:
			isDone = true
		case <-time.After(20 * time.Millisecond):
		}
		peak = max(peak, memory(wicd).VmRSS)
	}
	p.number("mirror.wicd_rss_mb_more", (float64(peak)-float64(before))/1e6, "MB")
	return err
}
