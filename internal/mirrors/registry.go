package mirrors

import (
	"cmp"
	"slices"
)

// registry is what one hosts.toml says.
type registry struct {
	host    string
	sources []repository
	never   bool
	mirrors []mirror
}

// source is what all entries say of the same source.
type source struct {
	repository
	at      []place
	mirrors []mirror
}

// merge makes one registry of all entries for it. It is false when nothing is to be said of the registry to containerd,
// so that images are pulled as if there were no mirrors.
func (r *report) merge(entries []entry) (registry, bool) {
	g := registry{host: entries[0].source.host}
	g.never = slices.ContainsFunc(entries, func(e entry) bool { return e.never })
	if g.never {
		r.reportPolicies(entries)
		r.dropSelf(entries)
	}
	sources := bySource(entries)
	for _, s := range sources {
		g.sources = append(g.sources, s.repository)
	}
	if r.reportConflict(sources, g.never) {
		return g, g.never
	}
	for _, s := range sources {
		for _, m := range s.mirrors {
			g.mirrors = join(g.mirrors, m)
		}
	}
	r.reportTags(sources, g.mirrors)
	if g.never && len(g.mirrors) == 0 {
		r.reportClosed(entries)
	}
	return g, g.never || len(g.mirrors) > 0
}

// bySource merges the entries that have the same source, in their order.
func bySource(entries []entry) []source {
	var all []source
	for _, e := range entries {
		i := slices.IndexFunc(all, func(s source) bool { return s.repository == e.source })
		if i < 0 {
			all, i = append(all, source{repository: e.source}), len(all)
		}
		all[i].at = append(all[i].at, e.at)
		for _, m := range e.mirrors {
			all[i].mirrors = join(all[i].mirrors, m)
		}
	}
	return all
}

// dropSelf takes the source out of its own mirrors: an entry says that it must not be contacted.
func (r *report) dropSelf(entries []entry) {
	for i, e := range entries {
		entries[i].mirrors = slices.DeleteFunc(e.mirrors, func(m mirror) bool {
			if m.self {
				r.add(m.at, SourceIsMirror, "the mirror is source %s itself, which %s forbids to contact. On Windows nodes this mirror is left out; remove it.",
					e.source, NeverContactSource)
			}
			return m.self
		})
	}
}

// reportPolicies says where NeverContactSource of one entry reaches further than the entry.
func (r *report) reportPolicies(entries []entry) {
	never := slices.DeleteFunc(slices.Clone(entries), func(e entry) bool { return !e.never })
	all := slices.ContainsFunc(never, func(e entry) bool { return e.source.path == "" })
	for _, e := range entries {
		host := e.source.host
		switch {
		case !e.never:
			r.add(e.at.in(".mirrorSourcePolicy"), PolicyConflict, "source %s is not contacted by Windows nodes when its mirrors fail: %s says %s for %s, "+
				"and containerd has one policy for all of %s. Give both the same policy.", e.source, never[0].at, NeverContactSource, never[0].source, host)
		case !all:
			r.add(e.at.in(".mirrorSourcePolicy"), WiderThanAsked, "on Windows nodes %s holds for all of %s, not only for %s: containerd has one policy for a registry. "+
				"Images of %s that no mirror has cannot be pulled.", NeverContactSource, host, e.source, host)
		}
	}
}

// reportConflict says whether sources of one registry have different mirrors, and names each with one that differs.
func (r *report) reportConflict(sources []source, never bool) bool {
	follows := "None of them is used on Windows nodes."
	if never {
		follows = "Because of " + string(NeverContactSource) + " Windows nodes cannot pull any image of it."
	}
	found := false
	for _, s := range sources {
		i := slices.IndexFunc(sources, func(other source) bool { return s.differs(other) })
		if i < 0 {
			continue
		}
		found = true
		for _, at := range s.at {
			r.add(at.in(".mirrors"), SourcesConflict, "source %s has other mirrors, or another order of them, than source %s in %s, %s. containerd has one list of mirrors "+
				"for all of %s. %s Give both the same mirrors, with the same path before the path of the source.",
				s, sources[i], sources[i].at[0], sources[i].at[0].field, s.host, follows)
		}
	}
	return found
}

// differs says whether one hosts.toml cannot serve both. A source without mirrors that can be used is served by any.
func (s source) differs(other source) bool {
	if s.host != other.host {
		return true // two addresses that containerd looks for in the same folder
	}
	if len(s.mirrors) == 0 || len(other.mirrors) == 0 {
		return false
	}
	return slices.CompareFunc(s.mirrors, other.mirrors, func(a, b mirror) int { return cmp.Compare(a.url, b.url) }) != 0
}

// reportTags names the sources that asked for digests only and share their mirrors with one that asked for tags.
func (r *report) reportTags(sources []source, merged []mirror) {
	for _, s := range sources {
		for i, m := range s.mirrors {
			if m.tags == merged[i].tags {
				continue
			}
			for _, at := range s.at {
				r.add(at.in(".mirrors"), WiderThanAsked, "Windows nodes ask the mirrors of source %s for tags too, not only for digests: another source of %s does, "+
					"and containerd has one list of mirrors for all of it.", s, s.host)
			}
			break
		}
	}
}

// reportClosed says that a registry cannot be pulled from at all, unless that is what the entries ask for.
func (r *report) reportClosed(entries []entry) {
	for _, e := range entries {
		if e.named {
			r.add(e.at.in(".mirrors"), RegistryClosed, "no mirror of source %s can be used on Windows nodes, and %s holds for it: no image of %s can be pulled. "+
				"Correct the mirrors.", e.source, NeverContactSource, e.source.host)
		}
	}
}
