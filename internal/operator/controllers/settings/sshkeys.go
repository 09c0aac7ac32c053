package settings

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/sshkey"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// A new SSH key reaches hosts as other settings do: it is published, and WICD authorizes it. Then the operator logs in with it and records that in
// the Node's annotation pub-key-hash; after that, WICD removes the former keys. Until then, both keys work.

// addKeys adds to the settings the SSH key that hosts must authorize, and the previously published keys as retired. Without a usable key, it changes
// nothing. Nodes of other versions get the key, too; their other settings stay. It ignores ConfigMaps that the operator has not signed, so that they
// cannot determine which keys hosts remove.
func (c *Controller) addKeys(ctx context.Context, node *desired.Node, s signer) error {
	configMaps, err := c.readPublished(ctx)
	if err != nil {
		return err
	}
	current, err := sshkey.AuthorizedLines(ctx, c.Client, c.Namespace)
	if err != nil {
		return err
	}
	var own []string
	others := map[*corev1.ConfigMap]desired.Node{}
	var known []string
	for _, cm := range configMaps {
		previous, ok := c.publishedIn(cm, s)
		switch {
		case !ok:
			continue // not signed by the operator, outdated, or written by a newer operator: it stays as it is
		case previous.Version == node.Version:
			own = previous.AuthorizedKeys
		default:
			others[cm] = previous
		}
		known = append(append(known, previous.AuthorizedKeys...), previous.RetiredKeys...)
	}
	usable := len(current) > 0
	if !usable {
		current = own
	}
	slices.Sort(known)
	retired := slices.DeleteFunc(slices.Compact(known), func(key string) bool { return slices.Contains(current, key) })
	node.AuthorizedKeys, node.RetiredKeys = current, retired
	if !usable {
		return nil
	}
	for cm, other := range others {
		if err := c.publishKeys(ctx, cm, other, current, retired, s); err != nil {
			return err
		}
	}
	return nil
}

const configMapsPage = 100

// readPublished reads the ConfigMaps with the name prefix of published settings. It reads only the names of others, which any user of the namespace may
// have created.
func (c *Controller) readPublished(ctx context.Context) (all []*corev1.ConfigMap, err error) {
	var names []string
	for next := ""; ; {
		page := &metav1.PartialObjectMetadataList{}
		page.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
		if err := c.Live.List(ctx, page, client.InNamespace(c.Namespace), client.Limit(configMapsPage), client.Continue(next)); err != nil {
			return nil, fmt.Errorf("listing ConfigMaps: %w", err)
		}
		for i := range page.Items {
			if strings.HasPrefix(page.Items[i].Name, api.ServicesConfigMapPrefix) {
				names = append(names, page.Items[i].Name)
			}
		}
		if next = page.Continue; next == "" {
			break
		}
	}
	for _, name := range names {
		cm := &corev1.ConfigMap{}
		err := c.Live.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, cm)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading ConfigMap %s: %w", name, err)
		}
		all = append(all, cm)
	}
	return all, nil
}

// publishedIn returns the node settings in a ConfigMap. ok is false unless the operator signed it and it contains nothing else.
func (c *Controller) publishedIn(cm *corev1.ConfigMap, s signer) (node desired.Node, ok bool) {
	version, isPublished := strings.CutPrefix(cm.Name, api.ServicesConfigMapPrefix)
	if !isPublished {
		return desired.Node{}, false
	}
	if serial, err := s.verify(cm); err != nil || !c.isCurrentSerial(cm.Name, serial) {
		return desired.Node{}, false
	}
	node, err := desired.FromData(cm.Data)
	if err != nil || node.Version != version {
		return node, false
	}
	encoded, err := node.Data()
	return node, err == nil && maps.Equal(encoded, desired.Unsigned(cm.Data))
}

// publishKeys publishes the key for nodes of another version, in the format that they read. If it does not fit into that format, they do not get it.
func (c *Controller) publishKeys(ctx context.Context, cm *corev1.ConfigMap, node desired.Node, current, retired []string, s signer) error {
	if slices.Equal(node.AuthorizedKeys, current) {
		return nil
	}
	node.AuthorizedKeys, node.RetiredKeys = current, retired
	data, err := node.Data()
	if errors.Is(err, desired.ErrTooLarge) || err == nil && !maps.EqualFunc(data, desired.Unsigned(cm.Data), func(string, string) bool { return true }) {
		c.Events.Emit(kube.Event{Object: cm, Type: corev1.EventTypeWarning, Reason: api.EventSettingsIgnored, Action: "Keys-" + node.Version},
			"nodes of version %s do not get the SSH key: their settings would be too large with it; upgrade them", node.Version)
		return nil
	}
	if err != nil {
		return err
	}
	hash, err := node.Hash()
	if err != nil {
		return err
	}
	return c.publishNode(ctx, node, hash, s, func(context.Context) error { return nil })
}
