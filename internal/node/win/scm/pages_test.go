package scm

import (
	"errors"
	"slices"
	"testing"
)

func TestAllPagesOfAListAreRead(t *testing.T) {
	broken := errors.New("broken")
	type page struct {
		entries []int
		next    uint32
		more    bool
		err     error
	}
	for name, test := range map[string]struct {
		pages map[uint32]page
		want  []int
		err   error
	}{
		"one":                  {map[uint32]page{0: {entries: []int{1, 2}}}, []int{1, 2}, nil},
		"none":                 {map[uint32]page{0: {}}, nil, nil},
		"three":                {map[uint32]page{0: {[]int{1}, 7, true, nil}, 7: {[]int{2}, 9, true, nil}, 9: {[]int{3}, 0, false, nil}}, []int{1, 2, 3}, nil},
		"one that fails":       {map[uint32]page{0: {[]int{1}, 7, true, nil}, 7: {err: broken}}, nil, broken},
		"the same page again":  {map[uint32]page{0: {[]int{1}, 0, true, nil}}, nil, errStuck},
		"a page with no entry": {map[uint32]page{0: {nil, 7, true, nil}, 7: {}}, nil, errStuck},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := pages(func(resume *uint32) ([]int, bool, error) {
				p := test.pages[*resume]
				*resume = p.next
				return p.entries, p.more, p.err
			})
			if !slices.Equal(got, test.want) || !errors.Is(err, test.err) {
				t.Errorf("%v, %v, want %v, %v", got, err, test.want, test.err)
			}
		})
	}
}
