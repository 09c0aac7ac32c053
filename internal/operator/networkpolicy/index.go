package networkpolicy

import (
	"iter"
	"math/bits"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// bitset is a set of small numbers: indexes of pods or namespaces. All bitsets of one inventory's pods have the same length.
type bitset []uint64

func newBitset(size int) bitset { return make(bitset, (size+63)/64) }

func (b bitset) add(i int)      { b[i/64] |= 1 << (i % 64) }
func (b bitset) remove(i int)   { b[i/64] &^= 1 << (i % 64) }
func (b bitset) has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }

// addRange adds the numbers from first up to, but not including, end.
func (b bitset) addRange(first, end int) {
	for i := first; i < end; {
		if i%64 == 0 && end-i >= 64 {
			b[i/64] = ^uint64(0)
			i += 64
			continue
		}
		b.add(i)
		i++
	}
}

func (b bitset) and(other bitset) {
	for i := range b {
		b[i] &= other[i]
	}
}

func (b bitset) or(other bitset) {
	for i := range b {
		b[i] |= other[i]
	}
}

// all yields the numbers in order.
func (b bitset) all() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, word := range b {
			for ; word != 0; word &= word - 1 {
				if !yield(i*64 + bits.TrailingZeros64(word)) {
					return
				}
			}
		}
	}
}

// index finds objects by their labels. Matching a selector takes as long for one object as for a thousand, so that policies with
// thousands of peers do not need a comparison for each pair of peer and pod.
type index struct {
	size   int
	keys   map[string][]int
	labels map[label][]int
}

type label struct{ key, value string }

func newIndex(objects []map[string]string) index {
	x := index{len(objects), map[string][]int{}, map[label][]int{}}
	for i, object := range objects {
		for key, value := range object {
			x.keys[key] = append(x.keys[key], i)
			x.labels[label{key, value}] = append(x.labels[label{key, value}], i)
		}
	}
	return x
}

// match returns the objects that a selector selects.
func (x index) match(selector labels.Selector) bitset {
	matched := newBitset(x.size)
	requirements, selectable := selector.Requirements()
	if !selectable {
		return matched
	}
	matched.addRange(0, x.size)
	for _, r := range requirements {
		switch r.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
			matched.and(x.withValues(r))
		case selection.Exists:
			matched.and(x.of(x.keys[r.Key()]))
		case selection.NotIn, selection.NotEquals:
			for _, value := range r.ValuesUnsorted() {
				for _, i := range x.labels[label{r.Key(), value}] {
					matched.remove(i)
				}
			}
		case selection.DoesNotExist:
			for _, i := range x.keys[r.Key()] {
				matched.remove(i)
			}
		default: // a later operator: nothing is known to match
			return newBitset(x.size)
		}
	}
	return matched
}

func (x index) withValues(r labels.Requirement) bitset {
	found := newBitset(x.size)
	for _, value := range r.ValuesUnsorted() {
		for _, i := range x.labels[label{r.Key(), value}] {
			found.add(i)
		}
	}
	return found
}

func (x index) of(objects []int) bitset {
	found := newBitset(x.size)
	for _, i := range objects {
		found.add(i)
	}
	return found
}
