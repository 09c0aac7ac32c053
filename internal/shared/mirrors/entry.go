package mirrors

import (
	"errors"
	"fmt"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/trust"
)

// entry is a parsed Entry.
type entry struct {
	source  string
	never   bool
	by      string
	kind    Kind
	mirrors []location
}

// location is a parsed mirror.
type location struct {
	at       string
	insecure bool
	ca       string
}

// readEntry parses an entry; ok is false if it has no effect.
func (r *report) readEntry(at place, e Entry) (read entry, ok bool) {
	read = entry{never: r.readPolicy(at, e.Policy), kind: e.For, by: at.in(".mirrorSourcePolicy").String()}
	source, err := parseScope(e.Source)
	if err == nil && !source.wild && !canNameHost(source.host) {
		err = errors.New("no image name can contain this registry: a host without a dot or a port is read as a path on docker.io; add its domain or its port")
		source.host = ""
	}
	if err != nil {
		effect := "no mirror is used for it"
		switch {
		case read.never && source.host != "":
			effect += fmt.Sprintf(", and %s is never contacted, because of %s", source.host, NeverContactSource)
		case read.never:
			effect += ", and it is contacted despite " + string(NeverContactSource)
		}
		r.add(at.in(".source"), InvalidSource, "%s: %v. On Windows nodes %s.", quoted(e.Source), err, effect)
		read.source = source.host
		return read, read.never && source.host != ""
	}
	read.source = source.String()
	isMirrored := false // by another place than the source itself; otherwise Linux nodes ignore the entry
	for i, m := range e.Mirrors {
		isMirrored = isMirrored || m.Location != e.Source
		if m, ok := r.readMirror(at.in(fmt.Sprintf(".mirrors[%d]", i)), m); ok {
			read.mirrors = append(read.mirrors, m)
		}
	}
	switch {
	case !isMirrored && read.never:
		r.add(at.in(".mirrors"), NoMirrors, "source %s has no mirror other than itself. Nodes ignore the entry and its %s, as Linux nodes do. "+
			"Add a mirror, or block the source.", read.source, NeverContactSource)
	case isMirrored && read.never && len(read.mirrors) == 0:
		r.add(at.in(".mirrors"), RegistryClosed, "no mirror of source %s can be used on Windows nodes, and %s applies to it: unless another entry has mirrors for it, "+
			"no image of %s can be pulled. Correct the mirrors.", read.source, NeverContactSource, read.source)
	}
	return read, isMirrored && (read.never || len(read.mirrors) > 0)
}

func (r *report) readPolicy(at place, p Policy) (never bool) {
	switch p {
	case "", AllowContactingSource:
		return false
	case NeverContactSource:
		return true
	}
	r.add(at.in(".mirrorSourcePolicy"), InvalidPolicy, "%s is not a policy; allowed: %s and %s. Windows nodes treat it as %s.",
		quoted(string(p)), AllowContactingSource, NeverContactSource, NeverContactSource)
	return true
}

func (r *report) readMirror(at place, m Mirror) (location, bool) {
	const effect = "Windows nodes ignore this mirror."
	to, err := parseRepository(m.Location)
	if err != nil {
		r.add(at, InvalidMirror, "%s: %v. %s", quoted(m.Location), err, effect)
		return location{}, false
	}
	if m.Insecure && m.CA != "" {
		r.add(at, InvalidMirror, "%s is insecure and has a CA, which would have no effect; remove one of them. %s", quoted(m.Location), effect)
		return location{}, false
	}
	read := location{at: to.String(), insecure: m.Insecure}
	if m.CA != "" {
		if read.ca, err = readCA(m.CA); err != nil {
			r.add(at, InvalidMirror, "the CA of %s cannot be used: %v. %s", quoted(m.Location), err, effect)
			return location{}, false
		}
	}
	return read, true
}

// readScopes parses the registries that a field names.
func (r *report) readScopes(a Access) []string {
	var scopes []string
	for i, text := range a.Scopes {
		s, err := parseScope(text)
		if err == nil {
			scopes = append(scopes, s.String())
			continue
		}
		effect := "It is ignored."
		if (a.Rule == Blocked || a.Rule == Rejected) && s.host != "" {
			effect = fmt.Sprintf("All of %s is blocked.", s.host)
			scopes = append(scopes, s.host)
		}
		at := place{kind: a.Kind, name: a.Name, field: fmt.Sprintf("%s[%d]", a.Field, i)}
		r.add(at, InvalidScope, "%s: %v. %s", quoted(text), err, effect)
	}
	return scopes
}

// readCA accepts only certificates, whenever they are valid. Text between them is dropped, so that a comment does not make a different bundle.
func readCA(text string) (string, error) {
	list := trust.Collect(time.Time{}, trust.Bundle{PEM: text})
	if len(list.Problems) > 0 {
		p := list.Problems[0]
		return "", fmt.Errorf("line %d: %s", p.Line, p.Message)
	}
	return trust.Encode(list.Certificates), nil
}
