package kube

import (
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestBackoffGrowsUpToLimit(t *testing.T) {
	r := Backoff{Jitter: rand.N[time.Duration], Min: 5 * time.Second, Max: time.Minute}
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	atLeast := []time.Duration{5, 10, 20, 40, 60, 60}
	for n, want := range atLeast {
		want *= time.Second
		if wait := r.Fail(types.NamespacedName{Name: "a"}, now); wait < want || wait > want+want/5 {
			t.Errorf("failure %d waits %s, want %s and up to a fifth more", n+1, wait, want)
		}
	}
	if until := r.Until(types.NamespacedName{Name: "b"}); !until.IsZero() {
		t.Errorf("an instance that did not fail waits until %s", until)
	}
	r.Reset(types.NamespacedName{Name: "a"})
	if wait := r.Fail(types.NamespacedName{Name: "a"}, now); wait > 6*time.Second {
		t.Errorf("after a success the first failure waits %s", wait)
	}
}

func TestSlotsLimitConcurrentJoins(t *testing.T) {
	var s Slots
	first, ok := s.Take(2)
	if !ok {
		t.Fatal("the first place is taken")
	}
	if _, ok := s.Take(2); !ok || s.Free(2) {
		t.Fatal("the second place is taken, or still free")
	}
	if _, ok := s.Take(2); ok {
		t.Error("a third place of two was granted")
	}
	if _, ok := s.Take(3); !ok {
		t.Error("a raised limit frees no slot")
	}
	_, _ = first.Close(), first.Close()
	if s.taken != 2 {
		t.Errorf("giving one place back twice leaves %d of 3 taken", s.taken)
	}
}

func TestSooner(t *testing.T) {
	for _, test := range []struct {
		times []time.Duration
		want  time.Duration
	}{
		{nil, 0},
		{[]time.Duration{0, -time.Second}, 0},
		{[]time.Duration{0, time.Minute, time.Second, 0}, time.Second},
	} {
		if got := Soonest(test.times...); got != test.want {
			t.Errorf("of %v, Soonest returns %s, want %s", test.times, got, test.want)
		}
	}
}
