package ovn

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Guard decides who may write which annotations through nodes/status.
type Guard struct {
	// HybridOverlay lets nodes write the addresses of the hybrid overlay's gateway.
	HybridOverlay bool
	// Users may also write the annotations of nodes.
	Users []string
}

// nodeKeys returns the annotations that only a node's own program may write.
func (g Guard) nodeKeys() []string {
	keys := []string{
		"bridge-egress-ips", "gateway-mtu-support", "host-cidrs", "l3-gateway-config", "layer2-topology-version", "node-chassis-id",
		"node-encap-ips", "node-ingress-snat-exclude-subnets", "node-masquerade-subnet", "node-mgmt-port", "node-mgmt-port-mac-addresses",
		"node-primary-ifaddr", "primary-dpu-host-addr", "secondary-host-egress-ips", "vteps", "zone-name",
	}
	for i, key := range keys {
		keys[i] = "k8s.ovn.org/" + key
	}
	if g.HybridOverlay {
		keys = append(keys, GatewayMACAnnotation, GatewayIPAnnotation)
	}
	return keys
}

// Admit returns an error if a user is not permitted to make a change.
func (g Guard) Admit(user string, before, after *corev1.Node) error {
	var others, own []string
	for _, key := range changedKeys(before.Annotations, after.Annotations) {
		if slices.Contains(g.nodeKeys(), key) {
			own = append(own, key)
		} else {
			others = append(others, key)
		}
	}
	node, isNode := strings.CutPrefix(user, UserPrefix)
	if !isNode {
		if len(own) == 0 {
			return nil
		}
		if !slices.Contains(g.Users, user) {
			return fmt.Errorf("%s may not write %v, only node %s may", user, own, after.Name)
		}
		node = after.Name
	}
	for _, key := range own {
		if err := checkValue(key, node, before.Annotations, after.Annotations); err != nil {
			return err
		}
	}
	if !isNode {
		return nil
	}
	switch {
	case node != after.Name:
		return fmt.Errorf("node %s may not write Node %s", node, after.Name)
	case len(others) > 0:
		return fmt.Errorf("node %s may not write %v", node, others)
	case !equalExceptAnnotations(before, after):
		return fmt.Errorf("node %s may write annotations only", node)
	}
	return nil
}

// checkValue checks the value of an annotation. Only the values of two annotations are restricted.
func checkValue(key, node string, before, after map[string]string) error {
	old, previous := before[key]
	value, ok := after[key]
	switch {
	case key == chassisAnnotation && previous:
		return fmt.Errorf("%s %q cannot be changed", key, old)
	case key == zoneAnnotation && (!ok || value != node):
		return fmt.Errorf("%s of node %s must be %q", key, node, node)
	}
	return nil
}

func changedKeys(before, after map[string]string) (keys []string) {
	for key, old := range before {
		if value, ok := after[key]; !ok || value != old {
			keys = append(keys, key)
		}
	}
	for key := range after {
		if _, previous := before[key]; !previous {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func equalExceptAnnotations(before, after *corev1.Node) bool {
	bare := func(n *corev1.Node) metav1.ObjectMeta {
		meta := n.ObjectMeta
		meta.Annotations, meta.ManagedFields = nil, nil
		return meta
	}
	return equality.Semantic.DeepEqual(bare(before), bare(after)) && equality.Semantic.DeepEqual(before.Status, after.Status)
}

// ServeHTTP handles an AdmissionReview of the API server.
func (g Guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 8<<20)).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, "not an AdmissionReview", http.StatusBadRequest)
		return
	}
	response := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	var before, after corev1.Node
	err := json.Unmarshal(review.Request.OldObject.Raw, &before)
	if err == nil {
		err = json.Unmarshal(review.Request.Object.Raw, &after)
	}
	if err == nil {
		err = g.Admit(review.Request.UserInfo.Username, &before, &after)
	}
	if err != nil {
		response.Allowed, response.Result = false, &metav1.Status{Code: http.StatusForbidden, Message: err.Error()}
	}
	review.Request, review.Response = nil, response
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(&review)
}
