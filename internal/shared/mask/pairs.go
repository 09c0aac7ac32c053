package mask

import (
	"slices"
	"strings"
)

// pairs finds values with secret names: name=value, name: value, "name":"value", name => value, HTTP headers, XML elements, and name and value
// in adjacent fields.
func pairs(line string) (found spans) {
	p := pairing{line: line}
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '=', ':':
			p.separator(i)
		case ',':
			p.flagInList(i)
		case '>':
			p.element(i)
		case ' ', '\t':
			p.registryValue(i)
		case '}', '{':
			p.name, p.value = "", span{}
		}
	}
	return p.found
}

type pairing struct {
	line  string
	found spans
	// name and value are the last fields with these names in the same braces.
	name  string
	value span
	until int // end of the last value
}

// isLiteralOfSecret distinguishes the flag of kubectl create secret from that of kubectl create configmap.
func (p *pairing) isLiteralOfSecret(name string) bool {
	return strings.HasSuffix(name, "from-literal") && !strings.Contains(p.line, " configmap ")
}

// separator evaluates the text before and after a separator.
func (p *pairing) separator(i int) {
	name, at := nameBefore(p.line, i)
	if name == "" || i < p.until {
		return
	}
	lower, header, secret := strings.ToLower(name), isHeader(name), classOf(name) != open || p.isLiteralOfSecret(name)
	isName, isValue := lower == "name" || lower == "key", lower == "value" || lower == "connectionstring"
	isAuth := lower == "auth" || lower == "_auth"
	if !isName && !isValue && !isAuth && !header && !secret {
		return
	}
	near := p.line
	if isName { // names are short
		near = near[:min(len(near), i+2*maxName)]
	}
	value, quoted := valueAfter(near, i, at)
	switch {
	case isName:
		p.name = p.line[value.from:min(value.to, value.from+maxName)]
		if classOf(p.name) != open && p.value.to > 0 {
			p.add(p.name, p.value)
		}
		return
	case isValue:
		p.value = value
		if classOf(p.name) != open {
			p.add(p.name, value)
		}
		return
	case isAuth:
		if isEncodedLogin(name, p.line[value.from:value.to]) {
			p.found = append(p.found, value)
		}
		return
	case header && !quoted:
		value = headerValue(p.line, value.from, at)
	}
	if !quoted && p.line[i] == ':' && p.isSentence(name, value) {
		return
	}
	p.add(name, value)
}

// isSentence reports whether a message continues after a colon: "making a token: creating it failed".
func (p *pairing) isSentence(name string, value span) bool {
	word := firstWord(p.line[value.from:value.to])
	inSentence := classOf(name) == opaque && strings.HasPrefix(p.line[value.from+len(word):], " ")
	return isProse(word) || inSentence && strings.Trim(word, "abcdefghijklmnopqrstuvwxyz") == ""
}

func (p *pairing) add(name string, value span) {
	if text := p.line[value.from:value.to]; !isHarmless(name, text) {
		p.found = append(p.found, value)
		p.until = max(p.until, value.to)
	}
}

// flagInList finds the value in "--password","x".
func (p *pairing) flagInList(i int) {
	if i == 0 || p.line[i-1] != '"' && p.line[i-1] != '\'' {
		return
	}
	name, at := nameBefore(p.line, i)
	if name == "" || at == 0 || p.line[at-1] != '-' && p.line[at] != '-' || classOf(name) == open {
		return
	}
	if value, quoted := valueAfter(p.line, i, at); quoted {
		p.add(name, value)
	}
}

// element finds the content of <password>x</password>, including nested elements.
func (p *pairing) element(i int) {
	begin := strings.LastIndexByte(p.line[max(0, i-maxName):i], '<')
	if begin < 0 {
		return
	}
	tag := p.line[max(0, i-maxName)+begin+1 : i]
	name, _, _ := strings.Cut(tag, " ")
	if _, local, found := strings.Cut(name, ":"); found {
		name = local
	}
	if name == "" || name[0] == '/' || strings.HasSuffix(tag, "/") || classOf(name) == open {
		return
	}
	end := strings.Index(p.line[i:], "</"+name)
	if end < 0 {
		end = len(p.line) - i
	}
	p.add(name, span{i + 1, i + end})
}

// registryValue finds the value in "DefaultPassword    REG_SZ    x".
func (p *pairing) registryValue(i int) {
	rest := strings.TrimLeft(p.line[i:min(len(p.line), i+40)], " \t")
	if !strings.HasPrefix(rest, "REG_") {
		return
	}
	name, _ := nameBefore(p.line, i)
	kind := len(p.line[i:]) - len(strings.TrimLeft(p.line[i:], " \t"))
	_, value, found := strings.Cut(strings.ReplaceAll(p.line[i+kind:], "\t", " "), " ")
	if name != "" && classOf(name) != open && found {
		value = strings.TrimLeft(value, " ")
		p.add(name, span{len(p.line) - len(value), len(p.line)})
	}
}

// nameBefore returns the name that ends before a separator, and its start.
func nameBefore(line string, end int) (name string, from int) {
	for n := 0; n < 4 && end > 0 && (line[end-1] == ' ' || line[end-1] == '\t'); n++ {
		end--
	}
	if end > 0 && line[end-1] == ']' { // env["NAME"] = value
		end--
	}
	if end > 0 && strings.IndexByte("\"'`", line[end-1]) >= 0 {
		end--
		for end > 0 && line[end-1] == '\\' {
			end--
		}
	}
	from = end
	for from > 0 && end-from < maxName && isNameByte(line[from-1]) {
		from--
	}
	name = strings.TrimLeft(line[from:end], "-.$")
	return name, end - len(name)
}

func isNameByte(c byte) bool {
	return isAlphanumeric(c) || c == '_' || c == '-' || c == '.' || c == '$' || c >= 0x80
}

// valueAfter returns the value after a separator, without quotation marks.
func valueAfter(line string, separator, name int) (value span, quoted bool) {
	from := separator + 1
	for from < len(line) && (line[from] == '=' || line[from] == '>' && line[separator] == '=') {
		from++
	}
	blank := false
	for from < len(line) && (line[from] == ' ' || line[from] == '\t') {
		blank = true
		from++
	}
	if from < len(line) && (line[from] == '@' || line[from] == '$') && from+1 < len(line) && line[from+1] == '"' {
		from++
	}
	if mark, first := quotation(line, from); mark != 0 {
		return span{first, endOfQuotation(line, first, mark, first-from-1)}, true
	}
	if from < len(line) && line[from] == '[' {
		if end := strings.IndexByte(line[from:], ']'); end >= 0 && !strings.HasPrefix(line[from:], "[{") {
			return span{from + 1, from + end}, true
		}
	}
	if from < len(line) && (strings.IndexByte("{[&|>", line[from]) >= 0 && line[separator] == ':' || strings.HasPrefix(line[from:], "map[")) {
		return span{from, from}, false
	}
	if line[separator] == ':' && blank && strings.Trim(line[:name], " \t-\"'") == "" { // YAML: up to the end of the line
		return span{from, max(from, len(strings.TrimRight(line, " \t,")))}, false
	}
	return span{from, endOfWord(line, from)}, false
}

// quotation returns the quotation mark at an offset and the start of the quoted text. Backslashes may precede it, depending on the escaping.
func quotation(line string, at int) (mark byte, first int) {
	i := at
	for i < len(line) && line[i] == '\\' {
		i++
	}
	if i < len(line) && strings.IndexByte("\"'`", line[i]) >= 0 {
		return line[i], i + 1
	}
	return 0, at
}

// endOfQuotation returns the end of quoted text. A quotation mark with more backslashes than the opening one is part of the text.
func endOfQuotation(line string, from int, mark byte, escaped int) int {
	slashes := 0
	for i := from; i < len(line); i++ {
		switch {
		case line[i] == '\\':
			slashes++
			continue
		case line[i] == mark && escaped == 0 && slashes%2 == 0 && i+1 < len(line) && line[i+1] == mark && i > from:
			i++ // a doubled mark is part of the text
		case line[i] == mark && escaped == 0 && (slashes%2 == 0 || mark != '"'), line[i] == mark && escaped > 0 && slashes <= escaped:
			if escaped > 0 {
				return i - slashes
			}
			return i
		}
		slashes = 0
	}
	return len(line)
}

// endOfWord returns the end of an unquoted value: a space that is not within a connection string, or a separator that is followed by the next
// item.
func endOfWord(line string, from int) int {
	for i := from; i < len(line); i++ {
		c := line[i]
		switch {
		case c == ' ' || c == '\t':
			semicolon := strings.IndexByte(line[i:], ';')
			if semicolon < 0 || strings.ContainsAny(line[i:i+semicolon], "=\"'<>:,") {
				return i
			}
			i += semicolon - 1
		case strings.IndexByte("\"'`", c) >= 0 || c == '\\' && i+1 < len(line) && strings.IndexByte("\"'`", line[i+1]) >= 0:
			if i == from || i+1 >= len(line) || !isAlphanumeric(line[i+1]) {
				return i
			}
		case strings.IndexByte(",;&)]}|", c) >= 0:
			if endsAt(line, i+1) {
				return i
			}
		case c == '<':
			return i
		}
	}
	return len(line)
}

// endsAt reports whether the next item begins at an offset: a space, another separator, a quotation mark, or a name with a value.
func endsAt(line string, at int) bool {
	if at >= len(line) || strings.IndexByte(" \t,;&)]}|\"'`\\", line[at]) >= 0 {
		return true
	}
	i := at
	for i < len(line) && i-at < maxName && (isNameByte(line[i]) || line[i] == ' ') {
		i++
	}
	return i > at && i < len(line) && (line[i] == '=' || line[i] == ':')
}

// headerValue returns the secret part of a header: for known schemes the word after the scheme, otherwise everything up to the enclosing end.
func headerValue(line string, from, name int) span {
	if from >= len(line) || line[from] == '{' {
		return span{from, from}
	}
	end := len(line)
	if name > 0 { // within quotation marks
		if at := strings.LastIndexAny(line[:name], "\"'`"); at == name-1 {
			slashes := 0
			for at > slashes && line[at-slashes-1] == '\\' {
				slashes++
			}
			end = endOfQuotation(line, from, line[at], slashes)
		}
	}
	scheme, rest, found := strings.Cut(line[from:end], " ")
	if found && slices.Contains([]string{"bearer", "basic", "negotiate", "ntlm", "token", "apikey"}, strings.ToLower(scheme)) {
		begin := from + len(scheme) + 1 + len(rest) - len(strings.TrimLeft(rest, " "))
		return span{begin, min(end, endOfWord(line, begin))}
	}
	return span{from, end}
}

func firstWord(s string) string {
	word, _, _ := strings.Cut(s, " ")
	return word
}
