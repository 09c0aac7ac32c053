package storytest

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
)

// The rules.
const (
	attackIdentity = "identity" // no host gets a certificate for another's name or address
	attackNodes    = "nodes"    // the operator leaves others' Nodes alone, and honest nodes in service
	attackSecrets  = "secrets"  // nothing that the operator writes or logs contains a secret
	attackTokens   = "tokens"   // a token goes only to the host of the instance it was created for
	attackDials    = "dials"    // the operator connects only to hosts
	attackJoins    = "joins"    // honest hosts become Ready nodes, and stay Ready
	attackEnds     = "ends"     // all work ends
	attackSizes    = "sizes"    // stored and written data is small, and valid for the API server
	attackWrites   = "writes"   // the operator does not write in a loop
)

const (
	// worksFor is the maximum time for one pass of a controller. The deadlines of a join's steps add up to less.
	worksFor = 2 * time.Hour
	// writesAnHour is the maximum number of unprovoked writes to one object, keptBytes the maximum size of attackers' objects in the cache.
	writesAnHour, eventsAnHour, keptBytes = 400, 4000, 32 << 20
	maxInstance                           = 64 << 10
)

// tokenLike gives a story's token the form of an API server's token.
func tokenLike(token string) string {
	_, rest, _ := strings.Cut(token, ".")
	claims, _, _ := strings.Cut(rest, ".")
	return "eyJhbGciOiJSUzI1NiJ9." + claims + ".c2lnbmF0dXJlLW9mLXRoZS1BUEktc2VydmVy"
}

// secretIn returns a secret that the text contains, or "".
func (w *attackWorld) secretIn(text string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, token := range w.tokens {
		if strings.Contains(text, token) {
			return token
		}
	}
	if strings.Contains(text, "PRIVATE KEY") {
		return "a private key"
	}
	return ""
}

// checkWritten checks an object that the operator has written.
func (w *attackWorld) checkWritten(o client.Object) {
	kind := w.cache.kind(o)
	name := kind + "/" + o.GetName()
	w.mu.Lock()
	w.writes[name]++
	w.mu.Unlock()
	if kind == "Secret" {
		return
	}
	text, err := json.Marshal(o)
	w.must(err)
	if secret := w.secretIn(string(text)); secret != "" && kind != "Node" {
		w.breach(attackSecrets, "%s has %s: %s", name, secret, text)
	}
	switch o := o.(type) {
	case *v1alpha1.WindowsInstance:
		w.checkInstance(o, len(text))
	case *corev1.Node:
		for key, value := range o.Labels {
			if faults := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...); len(faults) > 0 {
				w.breach(attackSizes, "label %q=%q of Node %s: %v", key, value, o.Name, faults)
			}
		}
	}
}

// isReason reports whether the API server accepts text as the reason of a condition.
func isReason(text string) bool {
	return len(text) <= 1024 && regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`).MatchString(text)
}

func (w *attackWorld) checkInstance(i *v1alpha1.WindowsInstance, size int) {
	if size > maxInstance {
		w.breach(attackSizes, "WindowsInstance %s has %d bytes", i.Name, size)
	}
	for _, c := range i.Status.Conditions {
		if !isReason(c.Reason) || len(c.Message) > 32768 {
			w.breach(attackSizes, "WindowsInstance %s: condition %s has reason %q and %d bytes of message", i.Name, c.Type, c.Reason, len(c.Message))
		}
	}
	ref := i.Status.NodeRef
	if ref == nil || ref.UID == "" {
		return
	}
	w.mu.Lock()
	owner := w.owners[ref.UID]
	w.mu.Unlock()
	host := ""
	for _, h := range w.honest {
		if h.instanceName() == i.Name {
			host = h.name
		}
	}
	for _, l := range w.hostileHosts {
		if l.place == i.Name {
			host = l.name
		}
	}
	if owner != host {
		w.breach(attackNodes, "WindowsInstance %s claims Node %s, which %s registered", i.Name, ref.Name, owner)
	}
}

// ownerOf returns the host that registered the current Node of that name.
func (w *attackWorld) ownerOf(name string) (owner string, node *corev1.Node) {
	w.cache.mu.Lock()
	o, found := w.cache.objects["Node"][client.ObjectKey{Name: name}]
	w.cache.mu.Unlock()
	if !found {
		return "", nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.owners[o.GetUID()], o.(*corev1.Node)
}

func (w *attackWorld) isHonest(owner string) bool {
	for _, h := range w.honest {
		if h.name == owner {
			return true
		}
	}
	return false
}

func (w *attackWorld) checkDeletes(o client.Object) {
	switch o.(type) {
	case *corev1.Node:
		if owner, _ := w.ownerOf(o.GetName()); owner == "others" || w.isHonest(owner) {
			w.breach(attackNodes, "the operator deletes Node %s of %s", o.GetName(), owner)
		}
	case *v1alpha1.WindowsInstance:
		for _, h := range w.honest {
			if h.instanceName() == o.GetName() {
				w.breach(attackNodes, "the operator deletes WindowsInstance %s", o.GetName())
			}
		}
	}
}

func (w *attackWorld) checkPatches(o client.Object, p client.Patch) {
	changed, isNode := o.(*corev1.Node)
	if !isNode {
		return
	}
	owner, before := w.ownerOf(o.GetName())
	text, err := p.Data(o)
	if secret := w.secretIn(string(text)); secret != "" {
		w.breach(attackSecrets, "the operator writes %s into Node %s: %s", secret, o.GetName(), text)
	}
	switch {
	case err != nil || before == nil:
	case owner == "others":
		w.breach(attackNodes, "the operator changes Node %s of another machine: %s", o.GetName(), text)
	case w.isHonest(owner) && (changed.Spec.Unschedulable || changed.Labels[corev1.LabelOSStable] != "windows"):
		w.breach(attackNodes, "the operator takes Node %s of an honest host out of service: %s", o.GetName(), text)
	}
}

// checkSentToken checks that a token goes to the host of the instance it was created for.
func (w *attackWorld) checkSentToken(target, host, token string) {
	for _, i := range w.allInstances() {
		if i.Status.BootstrapCredentialID != tokenID(token) {
			continue
		}
		if i.Spec.Address != target {
			w.breach(attackTokens, "%s, reached at %s, gets the token of WindowsInstance %s", host, target, i.Name)
		}
		return
	}
	w.breach(attackTokens, "%s, reached at %s, gets a token that no WindowsInstance has", host, target)
}

// checkDialed checks that the operator does not connect to the cluster's own addresses, unless the host must prove its key.
func (w *attackWorld) checkDialed(place, address string, isProven bool) {
	for _, no := range []string{linuxAddress, "10.3.0.5", "10.96.", "127.", "169.254.", "::1"} {
		if strings.HasPrefix(address, no) && !isProven {
			w.breach(attackDials, "the operator connects to %s, for %s", address, place)
		}
	}
}

// sameEvent is the time within which similar events are one event of the API server, with an increased count.
const sameEvent = 6 * time.Minute

// checkEvent checks an event, and reports whether the API server records it as a new one.
func (w *attackWorld) checkEvent(about client.Object, reason, action, text string) bool {
	if secret := w.secretIn(text); secret != "" {
		w.breach(attackSecrets, "event %s of %s has %s: %s", reason, about.GetName(), secret, text)
	}
	if len(text) > 1024 {
		w.breach(attackSizes, "event %s of %s has %d bytes", reason, about.GetName(), len(text))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	key := w.cache.kind(about) + " " + about.GetName() + " " + reason + " " + action
	if last, reported := w.seenEvents[key]; reported && time.Since(last) < sameEvent {
		return false
	}
	w.seenEvents[key] = time.Now()
	w.events++
	return true
}

// note counts writes by attackers, which the operator may answer with its own.
func (w *attackWorld) note(object string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changes[object]++
}

// checkNow checks the rules that must hold after each tick.
func (w *attackWorld) checkNow() {
	if text := w.logs.take(); w.secretIn(text) != "" {
		secret := w.secretIn(text)
		for line := range strings.Lines(text) {
			if strings.Contains(line, secret) {
				w.breach(attackSecrets, "the log has %s: %s", secret, line)
			}
		}
	}
	for _, h := range w.honest {
		late := h.lacks()
		switch {
		case late == "":
			if !h.isReady {
				w.record("%s is a Ready node", h.name)
			}
			h.isReady, h.missedAt = true, time.Time{}
		case h.isReady && h.missedAt.IsZero():
			h.missedAt = time.Now()
		case h.isReady && time.Since(h.missedAt) > missesFor:
			w.breach(attackJoins, "for %s, a host has no node: %s", time.Since(h.missedAt), late)
		case h.isKnown && h.announced && time.Since(h.announceAt) > joinTimeout:
			w.breach(attackJoins, "%s after it was announced: %s", time.Since(h.announceAt), late)
		}
	}
	w.mu.Lock()
	slow := ""
	for name, j := range w.jobs {
		if j.running && time.Since(j.since) > worksFor {
			slow = name
		}
	}
	w.mu.Unlock()
	if slow != "" {
		w.breach(attackEnds, "%s is worked on for longer than %s", slow, worksFor)
	}
}

// checkAtTheEnd checks the totals: writes, events, cached bytes and remaining instances.
func (w *attackWorld) checkAtTheEnd() {
	hours := time.Since(w.began).Hours()
	w.mu.Lock()
	writes, changes, events := w.writes, w.changes, w.events
	w.mu.Unlock()
	for _, l := range w.hostileHosts {
		changes["WindowsInstance/"+l.place] += changes["Node/"+l.identity]
	}
	most := ""
	for name, n := range writes {
		if most == "" || n > writes[most] {
			most = name
		}
		if float64(n) > writesAnHour*hours+float64(4*changes[name]) {
			w.breach(attackWrites, "the operator has written %s %d times in %.1f hours, and others have changed it %d times", name, n, hours, changes[name])
		}
	}
	w.record("%d events; at most %d writes in %.1f hours, of %s, which others changed %d times", events, writes[most], hours, most, changes[most])
	if float64(events) > eventsAnHour*hours {
		w.breach(attackWrites, "%d events in %.1f hours", events, hours)
	}
	kept := 0
	for _, kind := range w.kinds() {
		for _, o := range w.cache.sorted(w.cache.kind(kind)) {
			copied := o.DeepCopyObject().(client.Object)
			w.keep(copied)
			kept += kube.Memory(copied)
		}
	}
	if kept > keptBytes {
		w.breach(attackSizes, "the cache holds %d bytes of attackers' objects", kept)
	}
	for _, i := range w.allInstances() {
		if !w.isAnnounced(i.Name) {
			w.breach(attackIdentity, "WindowsInstance %s has no host at %s", i.Name, i.Spec.Address)
		}
	}
	if os.Getenv("WMCO_CHAOS_SEED") != "" {
		w.t.Log(strings.Join(w.lines, "\n"))
	}
}

func (w *attackWorld) isAnnounced(instance string) bool {
	for _, h := range w.honest {
		if h.instanceName() == instance {
			return true
		}
	}
	for _, l := range w.hostileHosts {
		if l.place == instance {
			return true
		}
	}
	return false
}
