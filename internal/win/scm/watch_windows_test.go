package scm

import "testing"

func TestWatchTakesNoMoreThanItCanWaitFor(t *testing.T) {
	if _, err := NewChanges().Watch(t.Context(), make([]string, maxWatched+1)); err == nil {
		t.Error("no error")
	}
}
