package controllers

import (
	"encoding/base64"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

func named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: name}
}

func TestFailuresSpaceOutAttemptsUpToALimit(t *testing.T) {
	r := retries{chance: rand.N[time.Duration], shortest: 5 * time.Second, longest: time.Minute}
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	atLeast := []time.Duration{5, 10, 20, 40, 60, 60}
	for n, want := range atLeast {
		want *= time.Second
		if wait := r.fail(named("a"), now); wait < want || wait > want+want/5 {
			t.Errorf("failure %d waits %s, want %s and up to a fifth more", n+1, wait, want)
		}
	}
	if until := r.until(named("b")); !until.IsZero() {
		t.Errorf("an instance that did not fail waits until %s", until)
	}
	r.reset(named("a"))
	if wait := r.fail(named("a"), now); wait > 6*time.Second {
		t.Errorf("after a success the first failure waits %s", wait)
	}
}

func TestNoMoreHostsJoinThanThereArePlaces(t *testing.T) {
	var s slots
	first, ok := s.take(2)
	if !ok {
		t.Fatal("the first place is taken")
	}
	if _, ok := s.take(2); !ok || s.free(2) {
		t.Fatal("the second place is taken, or still free")
	}
	if _, ok := s.take(2); ok {
		t.Error("there is a third of two places")
	}
	if _, ok := s.take(3); !ok {
		t.Error("a raised limit gives no place")
	}
	first()
	first()
	if s.taken != 2 {
		t.Errorf("giving one place back twice leaves %d of 3 taken", s.taken)
	}
}

func TestANodeNameBelongsToOneInstance(t *testing.T) {
	var n names
	if _, ok := n.claim("win-1", named("a")); !ok {
		t.Fatal("a free name is taken")
	}
	if _, ok := n.claim("win-1", named("a")); !ok {
		t.Error("the owner cannot claim its name again")
	}
	if holder, ok := n.claim("win-1", named("b")); ok || holder != named("a") {
		t.Errorf("another instance got the name of %s", holder)
	}
	n.release(named("a"))
	if _, ok := n.claim("win-1", named("b")); !ok {
		t.Error("a released name is taken")
	}
}

func TestCredentialIDIsReadFromTheToken(t *testing.T) {
	token := func(claims string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
	}
	if id, err := credentialID(token(`{"jti":"6f0c","sub":"x"}`)); err != nil || id != "6f0c" {
		t.Errorf("got %q, %v", id, err)
	}
	for _, bad := range []string{"", "a.b", "a.!.c", token(`{}`), token(`[`), token(`{"jti":7}`)} {
		if id, err := credentialID(bad); err == nil {
			t.Errorf("token %q has ID %q", bad, id)
		} else if bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("the error repeats the token: %v", err)
		}
	}
}

// A thousand hosts that join must not be six thousand events.
func TestOnlyWhatMattersOfAJoinIsAnEvent(t *testing.T) {
	recorder := &told{}
	i := &v1alpha1.WindowsInstance{}
	for _, reason := range []string{
		v1alpha1.ReasonWaitingForSlot, v1alpha1.ReasonJoining, v1alpha1.ReasonNodeMissing, v1alpha1.ReasonNodeNotReady, v1alpha1.ReasonVersionPending,
		v1alpha1.ReasonReady, v1alpha1.ReasonNodeNotReady, v1alpha1.ReasonReady, v1alpha1.ReasonNodeMissing,
	} {
		s := newStatus(common{recorder: recorder}, i)
		meta.SetStatusCondition(&s.now().Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason})
		s.tellReason()
	}
	want := []string{
		v1alpha1.ReasonJoining, v1alpha1.ReasonReady, v1alpha1.ReasonNodeNotReady, v1alpha1.ReasonReady, v1alpha1.ReasonNodeMissing,
	}
	if len(recorder.events) != len(want) {
		t.Fatalf("%d events, want %d: %q", len(recorder.events), len(want), recorder.events)
	}
	for n, is := range recorder.events {
		if !strings.Contains(is, " "+want[n]+" ") {
			t.Errorf("event %d is %q, want %s", n+1, is, want[n])
		}
	}
}
