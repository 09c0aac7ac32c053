package mirrors

import (
	"maps"
	"slices"
	"strings"
)

// builder builds a Table.
type builder struct {
	sources      map[string]*gathered
	cas          []string
	allowed      []string
	restrictedBy string
	// blockedBy is the object and field that block each scope.
	blockedBy map[string]string
	// flags are the blocked, rejected and insecure scopes.
	flags map[Rule][]string
	// release is the repository of OpenShift's release if it is an exception within a rejected scope.
	release string
}

// gathered is what was collected for one source.
type gathered struct {
	// isSource is true if an entry names the source. Otherwise it is a scope of a rule, and inherits mirrors.
	isSource bool
	blocked  bool
	by       string
	// lists are the mirrors of each entry, by the kind of reference that they serve.
	lists map[Kind][][]string
	// known are all mirrors by location.
	known map[string]location
}

func newBuilder() *builder {
	return &builder{sources: map[string]*gathered{}, flags: map[Rule][]string{}, blockedBy: map[string]string{}}
}

func (b *builder) source(prefix string) *gathered {
	g, found := b.sources[prefix]
	if !found {
		g = &gathered{lists: map[Kind][][]string{}, known: map[string]location{}}
		b.sources[prefix] = g
	}
	return g
}

// add adds an entry. Entries of one source are merged: a mirror in several of them gets the settings of all.
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

// restrict adds scopes to which a rule applies.
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

// table builds the table. Blocked and insecure scopes apply to everything within them, even if a longer prefix is chosen
// (EditRegistriesConfig of openshift/runtime-utils).
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

// named returns the sources that entries name.
func (b *builder) named() scopes {
	s := scopes{}
	for prefix, g := range b.sources {
		s[prefix] = g.isSource
	}
	return s
}

// setMirrors sets the mirrors of a source. A scope that no entry names inherits those of the source that contains it, with the rest of its
// path: a rule for a scope must not remove its mirrors.
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

// bundle returns the number of a bundle of certificates, counted from 1; 0 is none.
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

// inOrder merges lists of mirrors and keeps the order of each where possible, as documented for ImageDigestMirrorSet: (a, b) and (b, c)
// become (a, b, c). Mirrors without a defined order are sorted. If lists contradict each other, the order is deterministic. The source is in
// the result only if a list has mirrors after it.
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

// sorted sorts topologically; before counts the predecessors of each name.
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
