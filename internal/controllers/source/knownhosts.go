package source

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/kube"
	"github.com/windows-machine-config/wmco/internal/remote"
)

// knownHosts is ConfigMap windows-known-hosts.
type knownHosts struct {
	remote.KnownHosts
	// unreadable says why nothing of it can be read; nil when it can, or is not there.
	unreadable error
}

// knownHosts reads the keys that hosts of entries have to show, and tells what is wrong with them.
func (c *configMaps) knownHosts(ctx context.Context) (knownHosts, error) {
	name := types.NamespacedName{Namespace: c.Namespace, Name: api.KnownHostsConfigMap}
	var cm corev1.ConfigMap
	if err := c.Client.Get(ctx, name, &cm); client.IgnoreNotFound(err) != nil {
		return knownHosts{}, fmt.Errorf("reading ConfigMap %s: %w", name, err)
	}
	known := readKnownHosts(&cm)
	told := kube.Event{Object: &cm, Type: corev1.EventTypeWarning, Reason: api.EventInstanceInvalid, Action: hostKeyInvalid}
	switch faults := len(known.Lines); {
	case known.unreadable != nil:
		c.Events.Emit(told, "%v", known.unreadable)
	case faults > 0:
		c.Events.Emit(told, "%d lines cannot be used; %v", faults, known.Lines[0])
	}
	return known, nil
}

func readKnownHosts(cm *corev1.ConfigMap) knownHosts {
	if _, binary := cm.BinaryData[api.KnownHostsKey]; binary {
		return knownHosts{unreadable: fmt.Errorf("key %s is in binaryData, because it is no text in UTF-8; save the file as UTF-8 and make the ConfigMap of it again",
			api.KnownHostsKey)}
	}
	text, there := cm.Data[api.KnownHostsKey]
	if !there && cm.UID != "" {
		return knownHosts{unreadable: fmt.Errorf("there is no key %s, which has to hold the host keys", api.KnownHostsKey)}
	}
	return knownHosts{KnownHosts: remote.ParseKnownHosts(text)}
}

// vouchFor gives entries the keys of their hosts. It leaves out those whose keys somebody wrote down in a way that cannot be read: they must
// not be taken at their word.
func (k knownHosts) vouchFor(entries []entry) (good []entry, faults []fault) {
	for _, e := range entries {
		err := k.Faults[e.instanceName()]
		if k.unreadable != nil {
			err = errors.New("nothing of it can be read")
		}
		if err != nil {
			faults = append(faults, fault{e.key, hostKeyInvalid, fmt.Sprintf("its host key in ConfigMap %s: %v", api.KnownHostsConfigMap, err)})
			continue
		}
		if key := k.Keys[e.instanceName()]; key != nil {
			e.hostKey = remote.FormatHostKey(key)
		}
		good = append(good, e)
	}
	return good, faults
}

// isHostKey says whether spec.hostKey of an instance has a key already, or none is wanted.
func isHostKey(has, wanted string) bool {
	if wanted == "" {
		return true
	}
	key, err := remote.ParseHostKey(has)
	return err == nil && remote.FormatHostKey(key) == wanted
}
