package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
)

func TestWatchFollowsRequestedKind(t *testing.T) {
	var log []string
	f := follower{watch: func(_ context.Context, k OptionalKind) error {
		if k.Namespace == "closed" {
			return errors.New("forbidden")
		}
		log = append(log, "watch "+k.Namespace+k.ID)
		return nil
	}}
	kind := func(namespace, id string) OptionalKind {
		return OptionalKind{Namespace: namespace, ID: id, Lost: func() { log = append(log, "lost "+namespace+id) }}
	}
	for i, step := range []struct {
		kind  OptionalKind
		err   error
		fails bool
		want  []string
	}{
		{kind("a", ""), nil, false, []string{"watch a"}},
		{kind("a", ""), nil, false, nil},
		{OptionalKind{}, errors.New("the API server is away"), true, nil},
		{kind("a", "2"), nil, false, []string{"lost a", "watch a2"}},
		{kind("b", ""), nil, false, []string{"lost a2", "watch b"}},
		{OptionalKind{}, fmt.Errorf("wrapped: %w", &Unwanted{Message: "not configured"}), true, []string{"lost b"}},
		{OptionalKind{}, &Unwanted{}, true, nil},
		{kind("closed", ""), nil, true, nil},
		{kind("b", ""), nil, false, []string{"watch b"}},
	} {
		log = nil
		err := f.update(t.Context(), func(context.Context) (OptionalKind, error) { return step.kind, step.err })
		if (err != nil) != step.fails || !slices.Equal(log, step.want) {
			t.Errorf("step %d: got %q and %v, want %q, an error: %v", i, log, err, step.want, step.fails)
		}
	}
}
