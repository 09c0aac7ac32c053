package mirrors

import (
	"maps"
	"slices"
	"strings"
)

// builder makes a Table of what was read.
type builder struct {
	sources      map[string]*gathered
	cas          []string
	allowed      []string
	restrictedBy string
	// blockedBy is who says it of each scope.
	blockedBy map[string]string
	// flags are the scopes that are blocked, rejected and insecure.
	flags map[Rule][]string
	// release is the repository of OpenShift's release where it is in a rejected scope, of which it is the exception.
	release string
}

// gathered is what was read of one source.
type gathered struct {
	// isSource says that an entry names it. Otherwise it is a scope that a rule names, and inherits mirrors.
	isSource bool
	blocked  bool
	by       string
	// lists are the mirrors of each entry, by the kind of reference that they are for.
	lists map[Kind][][]string
	// known are all mirrors by their place.
	known map[string]location
}

func newBuilder() *builder {
	return &builder{sources: map[string]*gathered{}, flags: map[Rule][]string{}, blockedBy: map[string]string{}}
}

func (b *builder) source(prefix string) *gathered {
	g, there := b.sources[prefix]
	if !there {
		g = &gathered{lists: map[Kind][][]string{}, known: map[string]location{}}
		b.sources[prefix] = g
	}
	return g
}

// add adds an entry. Entries of one source are one: a mirror that several of them name gets what all of them say of it.
func (b *builder) add(e entry) {
	g := b.source(e.source)
	g.isSource = true
	if e.never && !g.blocked {
		g.blocked, g.by = true, e.by
	}
	var names []string
	for _, m := range e.mirrors {
		have := g.known[m.at]
		if !strings.Contains(have.ca, m.ca) {
			m.ca = have.ca + m.ca
		} else {
			m.ca = have.ca
		}
		m.insecure = m.insecure || have.insecure
		g.known[m.at] = m
		if !slices.Contains(names, m.at) {
			names = append(names, m.at)
		}
	}
	for _, kind := range []Kind{Digests, Tags} {
		if len(names) > 0 && (e.kind == "" || e.kind == kind) {
			g.lists[kind] = append(g.lists[kind], names)
		}
	}
}

// restrict adds scopes for which a rule holds.
func (b *builder) restrict(rule Rule, scopes []string, by string) {
	if rule == Allowed {
		b.restrictedBy = by
		b.allowed = append(b.allowed, scopes...)
		return
	}
	b.flags[rule] = append(b.flags[rule], scopes...)
	for _, scope := range scopes {
		b.source(scope)
		if rule != Insecure {
			b.blockedBy[scope] = by
		}
	}
}

// table makes the table. What is blocked or insecure holds for everything in its scope, also where a longer prefix is
// chosen (EditRegistriesConfig of openshift/runtime-utils).
func (b *builder) table() Table {
	t := Table{IsRestricted: b.restrictedBy != "", RestrictedBy: b.restrictedBy, Allowed: slices.Compact(slices.Sorted(slices.Values(b.allowed)))}
	named, rejected, insecure := b.named(), newScopes(b.flags[Rejected]), newScopes(b.flags[Insecure])
	blocked := newScopes(slices.Concat(b.flags[Blocked], b.flags[Rejected]))
	for _, prefix := range slices.Sorted(maps.Keys(b.sources)) {
		g := b.sources[prefix]
		s := Source{Prefix: prefix, Blocked: g.blocked, BlockedBy: g.by, Insecure: insecure.cover(prefix)}
		if scope := blocked.longest(prefix); scope != "" && !s.Blocked {
			s.Blocked, s.BlockedBy = true, b.blockedBy[scope]
		}
		if scope := rejected.longest(prefix); scope != "" && !b.isOfRelease(prefix, scope) {
			s.BlockedBy = b.blockedBy[scope]
		} else {
			b.setMirrors(&s, named, insecure)
		}
		t.Sources = append(t.Sources, s)
	}
	t.CAs = b.cas
	return t
}

// named are the sources that entries name.
func (b *builder) named() scopes {
	s := scopes{}
	for prefix, g := range b.sources {
		s[prefix] = g.isSource
	}
	return s
}

// setMirrors gives a source its mirrors. A scope that no entry names inherits those of the source around it, with the rest of its path: that
// something else is said of it must not take them away.
func (b *builder) setMirrors(s *Source, named, insecure scopes) {
	from := named.longest(s.Prefix)
	rest, ok := restOf(s.Prefix, from)
	if from == "" || !ok {
		return
	}
	g := b.sources[from]
	place := func(names []string) []Location {
		var list []Location
		for _, name := range names {
			m := g.known[name]
			list = append(list, Location{At: name + rest, Insecure: m.insecure || insecure.cover(name), CA: b.bundle(m.ca)})
		}
		return list
	}
	digests, tags := inOrder(from, g.lists[Digests]), inOrder(from, g.lists[Tags])
	if slices.Equal(digests, tags) {
		s.Mirrors = place(digests)
	} else {
		s.Digests, s.Tags = place(digests), place(tags)
	}
}

// bundle is the number of a bundle of certificates, counted from 1; 0 is none.
func (b *builder) bundle(ca string) int {
	if ca == "" {
		return 0
	}
	i := slices.Index(b.cas, ca)
	if i < 0 {
		b.cas, i = append(b.cas, ca), len(b.cas)
	}
	return i + 1
}

// inOrder merges lists of mirrors so that each keeps its order where that is possible, as the documents of
// ImageDigestMirrorSet promise: (a, b) and (b, c) become (a, b, c). What no list orders is sorted. Where lists
// contradict each other, the order is a fixed one. The source stands in it only where a list has something behind it.
func inOrder(source string, lists [][]string) []string {
	if len(lists) == 1 && !slices.Contains(lists[0], source) {
		return lists[0]
	}
	after, before := map[string]map[string]bool{}, map[string]int{}
	edge := func(from, to string) {
		if after[from] == nil {
			after[from] = map[string]bool{}
		}
		if !after[from][to] && from != to {
			after[from][to] = true
			before[to]++
		}
	}
	for _, list := range lists {
		for i, name := range list {
			before[name] += 0
			if i > 0 {
				edge(list[i-1], name)
			}
		}
		if !slices.Contains(list, source) {
			edge(list[len(list)-1], source)
		}
	}
	order := sorted(after, before)
	if n := len(order); n > 0 && order[n-1] == source {
		order = order[:n-1]
	}
	return order
}

// sorted sorts topologically; before counts what must come before each name.
func sorted(after map[string]map[string]bool, before map[string]int) (order []string) {
	names := slices.Sorted(maps.Keys(before))
	done := map[string]bool{}
	var ready []string
	for _, name := range names {
		if before[name] == 0 {
			ready = append(ready, name)
		}
	}
	for next := 0; len(order) < len(names); {
		if len(ready) == 0 { // only contradictions are left
			for done[names[next]] {
				next++
			}
			ready = append(ready, names[next])
		}
		name := ready[0]
		ready = ready[1:]
		if done[name] {
			continue
		}
		done[name] = true
		order = append(order, name)
		for _, to := range slices.Sorted(maps.Keys(after[name])) {
			if before[to]--; before[to] == 0 && !done[to] {
				ready = append(ready, to)
			}
		}
	}
	return order
}
