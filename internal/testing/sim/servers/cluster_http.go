package servers

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// ServeHTTP implements http.Handler.
func (c *Cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.counts[r.Method+" "+r.URL.Path]++
	away, token, now := c.away, c.Token, time.Now().Add(c.ahead)
	c.mu.Unlock()
	w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
	known := c.isAuthenticated(r)
	switch {
	case away:
		fail(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
	case !known && r.Header.Get("Authorization") != "Bearer "+token:
		fail(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized)
	case known && c.isForbidden(r):
		fail(w, http.StatusForbidden, metav1.StatusReasonForbidden)
	case r.URL.Query().Get("watch") == "true" || r.URL.Query().Get("watch") == "1":
		c.watch(w, r)
	case r.Method == http.MethodGet:
		c.get(w, r)
	default:
		c.write(w, r)
	}
}

// isAuthenticated reports whether a client has a valid certificate of this cluster. Others are anonymous, as with the real server.
func (c *Cluster) isAuthenticated(r *http.Request) bool {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return false
	}
	c.mu.Lock()
	o := x509.VerifyOptions{Roots: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, CurrentTime: time.Now().Add(c.ahead)}
	c.mu.Unlock()
	o.Roots.AddCert(c.ca)
	_, err := r.TLS.PeerCertificates[0].Verify(o)
	return err == nil
}

func fail(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Reason: reason, Code: int32(code), Message: string(reason),
	})
}

func reply(w http.ResponseWriter, object any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(object)
}

// collections are the supported resources, with the kinds of lists and items.
func collections() map[string]string {
	return map[string]string{
		"nodes": "Node", "certificatesigningrequests": "CertificateSigningRequest", "leases": "Lease",
		"configmaps": "ConfigMap", "secrets": "Secret", "events": "Event", "services": "Service", "endpointslices": "EndpointSlice",
		"windowspolicysets": "WindowsPolicySet",
	}
}

// collection returns the path and kind of a collection; the kind is empty for a single object.
func collection(path string) (kind string) {
	return collections()[path[strings.LastIndexByte(path, '/')+1:]]
}

func versionOf(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if parts[0] == "api" {
		return parts[1]
	}
	return parts[1] + "/" + parts[2]
}

func (c *Cluster) get(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	path := r.URL.Path
	if kind := collection(path); kind != "" {
		items := []any{}
		for _, key := range slices.Sorted(maps.Keys(c.objects)) {
			if belongs(key, path, r) && isLabeled(c.objects[key], r) {
				items = append(items, c.objects[key])
			}
		}
		meta := map[string]any{"resourceVersion": strconv.Itoa(c.version)}
		reply(w, map[string]any{"apiVersion": versionOf(path), "kind": kind + "List", "items": onePage(items, meta, r), "metadata": meta})
		return
	}
	if object, found := c.objects[path]; found {
		reply(w, object)
		return
	}
	fail(w, http.StatusNotFound, metav1.StatusReasonNotFound)
}

// onePage is the requested page of a list. The metadata have the token of the next page and the number of remaining items.
func onePage(items []any, meta map[string]any, r *http.Request) []any {
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	items = items[min(from, len(items)):]
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	if limit == 0 || limit >= len(items) {
		return items
	}
	meta["continue"], meta["remainingItemCount"] = strconv.Itoa(from+limit), len(items)-limit
	return items[:limit]
}

// isLabeled reports whether the labels of an object match the request's selector of labels. Watches do not have one.
func isLabeled(object map[string]any, r *http.Request) bool {
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		return false
	}
	got, _, _ := unstructured.NestedStringMap(object, "metadata", "labels")
	return selector.Matches(labels.Set(got))
}

// belongs reports whether an object is in the collection, of one namespace or of all, and selected by the request's
// metadata.name.
func belongs(object, collection string, r *http.Request) bool {
	parts := strings.Split(object, "/")
	if i := slices.Index(parts, "namespaces"); i >= 0 && !strings.Contains(collection, "/namespaces/") {
		object = strings.Join(slices.Delete(parts, i, i+2), "/")
	}
	name, inside := strings.CutPrefix(object, collection+"/")
	selected, selective := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	return inside && (!selective || name == selected)
}

// write creates, replaces or patches.
func (c *Cluster) write(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	if r.Method != http.MethodDelete && json.NewDecoder(r.Body).Decode(&body) != nil {
		fail(w, http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	path := strings.TrimSuffix(r.URL.Path, "/status")
	if r.Method == http.MethodPost {
		path += "/" + fmt.Sprint(metaOf(body)["name"])
	}
	before, found := c.objects[path]
	switch {
	case r.Method == http.MethodPost && len(validation.IsDNS1123Subdomain(fmt.Sprint(metaOf(body)["name"]))) > 0:
		fail(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
		return
	case r.Method == http.MethodPost && found:
		fail(w, http.StatusConflict, metav1.StatusReasonAlreadyExists)
		return
	case r.Method != http.MethodPost && !found:
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound)
		return
	case r.Method == http.MethodPost:
		body["apiVersion"], body["kind"] = versionOf(path), collection(r.URL.Path)
		if spec, ok := body["spec"].(map[string]any); ok && body["kind"] == "CertificateSigningRequest" && len(r.TLS.PeerCertificates) > 0 {
			spec["username"] = r.TLS.PeerCertificates[0].Subject.CommonName
		}
		c.put(path, "ADDED", body)
	case r.Method == http.MethodPatch:
		if r.Header.Get("Content-Type") == string(types.StrategicMergePatchType) {
			keepConditions(before, body)
		}
		c.put(path, "MODIFIED", merge(before, body))
	case r.Method == http.MethodDelete:
		delete(c.objects, path)
		c.notify(path, "DELETED", before)
	default:
		c.put(path, "MODIFIED", body)
	}
	c.answer(path)
	reply(w, c.objects[path])
}

func metaOf(object map[string]any) map[string]any {
	m, _ := object["metadata"].(map[string]any)
	return m
}

// put stores an object and notifies watches. The caller holds the lock.
func (c *Cluster) put(path, kind string, object map[string]any) {
	meta := maps.Clone(metaOf(object))
	meta["resourceVersion"] = strconv.Itoa(c.version + 1)
	object["metadata"] = meta
	c.objects[path] = object
	c.notify(path, kind, object)
}

// notify notifies watches. A deleted object is sent in its last state, with the version of the deletion: a watch can continue
// from there.
func (c *Cluster) notify(path, kind string, object map[string]any) {
	c.version++
	if kind == "DELETED" {
		object = merge(object, map[string]any{"metadata": map[string]any{"resourceVersion": strconv.Itoa(c.version)}})
	}
	c.history = append(c.history, change{version: c.version, kind: kind, path: path, object: object})
	close(c.changed)
	c.changed = make(chan struct{})
}

// merge is a JSON merge patch. It changes neither of its arguments.
func merge(object, patch map[string]any) map[string]any {
	out := maps.Clone(object)
	if out == nil {
		out = map[string]any{}
	}
	for key, value := range patch {
		inner, isObject := value.(map[string]any)
		switch {
		case value == nil:
			delete(out, key)
		case isObject:
			before, _ := out[key].(map[string]any)
			out[key] = merge(before, inner)
		default:
			out[key] = value
		}
	}
	return out
}

// keepConditions applies the strategic merge patch of conditions: other types stay, and those of the same type keep their
// position. status.conditions is the only list that the simulation can merge.
func keepConditions(object, patch map[string]any) {
	status, _ := patch["status"].(map[string]any)
	patched, _ := status["conditions"].([]any)
	before, _ := object["status"].(map[string]any)
	merged, _ := before["conditions"].([]any)
	merged = slices.Clone(merged)
	typeOf := func(c any) any { return c.(map[string]any)["type"] }
	for _, c := range patched {
		if i := slices.IndexFunc(merged, func(old any) bool { return typeOf(old) == typeOf(c) }); i >= 0 {
			merged[i] = c
		} else {
			merged = append(merged, c)
		}
	}
	if len(patched) > 0 {
		status["conditions"] = merged
	}
}

// watch sends the events since a version (without one, the existing objects) and new events, until the client disconnects or the request times out.
func (c *Cluster) watch(w http.ResponseWriter, r *http.Request) {
	seen, ok := c.beginWatch(w, r)
	if !ok {
		return
	}
	seconds, _ := strconv.Atoi(r.URL.Query().Get("timeoutSeconds"))
	end := time.NewTimer(time.Duration(max(seconds, 1)) * time.Second)
	defer end.Stop()
	w.Header().Set("Content-Type", "application/json")
	flush := http.NewResponseController(w)
	for {
		c.mu.Lock()
		from, _ := slices.BinarySearchFunc(c.history, seen+1, func(h change, v int) int { return h.version - v })
		events, changed := c.history[from:], c.changed
		seen = c.version
		c.mu.Unlock()
		for _, n := range events {
			if belongs(n.path, r.URL.Path, r) {
				_ = json.NewEncoder(w).Encode(map[string]any{"type": n.kind, "object": n.object})
			}
		}
		if flush.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-end.C:
			return
		case <-changed:
		}
	}
}

// beginWatch starts a watch and returns the version from which it continues. It returns false if the watch is not possible.
func (c *Cluster) beginWatch(w http.ResponseWriter, r *http.Request) (seen int, ok bool) {
	c.mu.Lock()
	expired, listsOnly := c.forgotten, c.listsOnly
	c.mu.Unlock()
	sendsBookmark := r.URL.Query().Get("sendInitialEvents") == "true" // KEP-3157
	seen, err := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	switch {
	case sendsBookmark && listsOnly:
		fail(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
		return 0, false
	case err == nil && !sendsBookmark && seen < expired:
		fail(w, http.StatusGone, metav1.StatusReasonExpired)
		return 0, false
	case err != nil || sendsBookmark:
		seen = c.sendAll(w, r)
	}
	if sendsBookmark {
		_ = json.NewEncoder(w).Encode(map[string]any{"type": "BOOKMARK", "object": map[string]any{
			"apiVersion": versionOf(r.URL.Path), "kind": collection(r.URL.Path), "metadata": map[string]any{
				"resourceVersion": strconv.Itoa(seen), "annotations": map[string]any{metav1.InitialEventsAnnotationKey: "true"},
			},
		}})
	}
	return seen, true
}

// sendAll starts a watch with the existing objects, and returns their version.
func (c *Cluster) sendAll(w http.ResponseWriter, r *http.Request) (version int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	for _, path := range slices.Sorted(maps.Keys(c.objects)) {
		if belongs(path, r.URL.Path, r) {
			_ = json.NewEncoder(w).Encode(map[string]any{"type": "ADDED", "object": c.objects[path]})
		}
	}
	return c.version
}

// answer issues the certificate of an approved request. The caller holds the lock.
func (c *Cluster) answer(path string) {
	var request certificatesv1.CertificateSigningRequest
	b, err := json.Marshal(c.objects[path])
	if err != nil || !strings.Contains(path, "/certificatesigningrequests/") || json.Unmarshal(b, &request) != nil {
		return
	}
	block, _ := pem.Decode(request.Spec.Request)
	if block == nil || len(request.Status.Certificate) > 0 || !c.approve(&request) {
		return
	}
	requested, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return
	}
	life := c.life
	if seconds := request.Spec.ExpirationSeconds; life == 0 && seconds != nil {
		life = time.Duration(*seconds) * time.Second
	}
	if life == 0 {
		life = 30 * 24 * time.Hour
	}
	der, err := c.issue(&x509.Certificate{
		Subject: requested.Subject, DNSNames: requested.DNSNames, IPAddresses: requested.IPAddresses,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, requested.PublicKey, life)
	if err != nil {
		return
	}
	c.put(path, "MODIFIED", merge(c.objects[path], map[string]any{"status": map[string]any{
		"certificate": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		"conditions":  []any{map[string]any{"type": "Approved", "status": "True", "reason": "Simulated"}},
	}}))
}
