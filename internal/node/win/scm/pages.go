package scm

import "errors"

// errStuck is the error of a list that makes no progress.
var errStuck = errors.New("Windows returns no more entries of an incomplete list")

// pages reads a list that is returned in pages. next reads the page at resume, sets resume to the next page, and reports whether there is one.
func pages[E any](next func(resume *uint32) (page []E, more bool, err error)) ([]E, error) {
	var all []E
	for resume := uint32(0); ; {
		at := resume
		page, more, err := next(&resume)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		switch {
		case !more:
			return all, nil
		case len(page) == 0 || resume == at:
			return nil, errStuck
		}
	}
}
