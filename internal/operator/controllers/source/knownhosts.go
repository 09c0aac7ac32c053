package source

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/remote"
)

type knownHosts struct {
	remote.KnownHosts
	// unreadable is why the ConfigMap cannot be read; nil if it can, or does not exist.
	unreadable error
	version    string
	found      map[string]foundKey // by name, so that hashed names are compared once
}

// maxCachedKeys is how many host keys are remembered.
const maxCachedKeys = 1 << 16

// foundKey is the key that a host must show, in the format of spec.hostKey, or why it cannot be determined.
type foundKey struct {
	key string
	err error
}

// knownHosts reads the keys that hosts of entries must show, and records an event for lines that cannot be used.
func (c *configMaps) knownHosts(ctx context.Context) (*knownHosts, error) {
	name := types.NamespacedName{Namespace: c.Namespace, Name: api.KnownHostsConfigMap}
	var cm corev1.ConfigMap
	if err := c.Client.Get(ctx, name, &cm); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading ConfigMap %s: %w", name, err)
	}
	if version := string(cm.UID) + "/" + cm.ResourceVersion; c.known == nil || c.known.version != version {
		c.known = readKnownHosts(&cm)
		c.known.version = version
	}
	reported := kube.Event{Object: &cm, Type: corev1.EventTypeWarning, Reason: api.EventInstanceInvalid, Action: hostKeyInvalid}
	switch faults := len(c.known.Faults); {
	case c.known.unreadable != nil:
		c.Events.Emit(reported, "%v", c.known.unreadable)
	case c.known.Nameless != nil:
		c.Events.Emit(reported, "%d lines are invalid; %v: this line may apply to any host, so no entry without a line of its own becomes an instance; correct or delete the line",
			faults, c.known.Nameless)
	case faults > 0:
		c.Events.Emit(reported, "%d lines are invalid; %v", faults, c.known.Faults[0])
	}
	return c.known, nil
}

func readKnownHosts(cm *corev1.ConfigMap) *knownHosts {
	if _, binary := cm.BinaryData[api.KnownHostsKey]; binary {
		return &knownHosts{unreadable: fmt.Errorf("key %s is in binaryData because it is not UTF-8 text; save the file as UTF-8 and create the ConfigMap from it again",
			api.KnownHostsKey)}
	}
	text, exists := cm.Data[api.KnownHostsKey]
	if !exists && cm.UID != "" {
		return &knownHosts{unreadable: fmt.Errorf("key %s, which must contain the host keys, is missing", api.KnownHostsKey)}
	}
	return &knownHosts{KnownHosts: remote.ParseKnownHosts(text), found: map[string]foundKey{}}
}

// keyOf returns the key of a host by its name or address; empty if none is listed.
func (k *knownHosts) keyOf(host string) (string, error) {
	if k.unreadable != nil {
		return "", errors.New("the ConfigMap cannot be parsed")
	}
	f, known := k.found[host]
	if !known {
		var key ssh.PublicKey
		if key, f.err = k.Find(host); key != nil {
			f.key = remote.FormatHostKey(key)
		}
		if len(k.found) == maxCachedKeys { // entries come and go
			clear(k.found)
		}
		k.found[host] = f
	}
	return f.key, f.err
}

// setHostKeys sets the host keys of entries. It drops entries whose key is or may be in an invalid line: these hosts must not be trusted on first use.
func (k *knownHosts) setHostKeys(entries []entry) (good []entry, faults []fault) {
	for _, e := range entries {
		var err error
		if e.hostKey, err = k.keyOf(e.instanceName()); err != nil {
			faults = append(faults, hostKeyFault(e, err))
			continue
		}
		good = append(good, e)
	}
	return good, faults
}

func hostKeyFault(e entry, err error) fault {
	return fault{e.key, hostKeyInvalid, fmt.Sprintf("host key in ConfigMap %s: %v", api.KnownHostsConfigMap, err)}
}

// hasHostKey reports whether spec.hostKey of an instance already is the wanted key, or none is wanted.
func hasHostKey(existing, wanted string) bool {
	if wanted == "" {
		return true
	}
	key, err := remote.ParseHostKey(existing)
	return err == nil && remote.FormatHostKey(key) == wanted
}
