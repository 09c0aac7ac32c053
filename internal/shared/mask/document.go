package mask

import "strings"

// document processes a text line by line and keeps state between lines: private keys of several lines, and YAML.
type document struct {
	lines []string
	out   []string
	end   string // of the last line
	// inKey is the maximum number of further lines of a private key.
	inKey int
	// secrets holds the indentations at which an object of kind Secret has its fields.
	secrets map[int]bool
	// block is the content below a YAML field with a secret name.
	block block
	tag   string // the open XML element
}

// block is the content of a YAML field, in lines with deeper indentation.
type block struct {
	kind   blockKind
	indent int
	marked bool
}

type blockKind int

const (
	noBlock blockKind = iota
	scalar            // a text of several lines
	items             // a list of values
	fields            // values of a Secret, by name
)

// maxKeyLines limits the lines that are removed if a private key has no end marker.
const maxKeyLines = 200

func newDocument(text string) *document {
	d := &document{secrets: map[int]bool{}}
	text, found := strings.CutSuffix(text, "\n")
	if found {
		d.end = "\n"
	}
	d.lines = strings.Split(text, "\n")
	for i, l := range d.lines {
		d.lines[i] = strings.TrimRight(l, "\r")
		if at, key, value, isField := yamlField(d.lines[i]); isField && key == "kind" && strings.Trim(value, `"', `) == "Secret" {
			d.secrets[at] = true
		}
	}
	return d
}

// String implements fmt.Stringer.
func (d *document) String() string {
	text := strings.Join(d.out, "\n")
	if len(d.out) == 0 {
		return text
	}
	return text + d.end
}

// write adds a line, masked.
func (d *document) write(i int, m *Masker, depth int) {
	line := d.lines[i]
	if d.key(line) {
		return
	}
	if masked, known := d.inBlock(line); known {
		d.out = append(d.out, masked...)
		return
	}
	if masked, known := d.inElement(line); known {
		d.out = append(d.out, masked)
		return
	}
	if d.inKey == maxKeyLines {
		d.out = append(d.out, strings.TrimSuffix(m.line(line, depth), Mark)+Mark)
		return
	}
	d.openBlock(line)
	if masked, known := d.besideName(i); known {
		d.out = append(d.out, masked)
		return
	}
	d.out = append(d.out, m.line(line, depth))
}

// key reports whether a line is within a private key. If only the end of a key is present, it removes the key's lines before it.
func (d *document) key(line string) bool {
	trimmed := strings.TrimSpace(line)
	begin, end := strings.LastIndex(line, "-----BEGIN "), strings.LastIndex(line, "-----END ")
	if d.inKey > 0 && begin < 0 {
		d.inKey--
		if end >= 0 || trimmed != "" && !isKeyText(trimmed) {
			d.inKey = 0
			return end >= 0
		}
		return true
	}
	if begin >= 0 && strings.Contains(line[begin:], "PRIVATE KEY") && end < begin || strings.HasPrefix(trimmed, "Private-Lines:") {
		d.inKey = maxKeyLines
		return false
	}
	if end >= 0 && begin < 0 && strings.Contains(line[end:], "PRIVATE KEY") {
		for n := len(d.out); n > 0 && isKeyText(strings.TrimSpace(d.out[n-1])); n-- {
			d.out = d.out[:n-1]
		}
		d.out = append(d.out, Mark)
		return true
	}
	return false
}

// isKeyText reports whether a line can belong to a private key: base64 without spaces, or a key header.
func isKeyText(line string) bool {
	for _, header := range []string{"Proc-Type:", "DEK-Info:", "Version:", "Comment:"} {
		if strings.HasPrefix(line, header) {
			return true
		}
	}
	line = strings.Trim(line, `"',|>`)
	for i := range len(line) {
		if !isAlphanumeric(line[i]) && strings.IndexByte("+/=-_", line[i]) < 0 {
			return false
		}
	}
	return line != ""
}

// inBlock masks a line below a secret field.
func (d *document) inBlock(line string) (masked []string, known bool) {
	if d.block.kind == noBlock {
		return nil, false
	}
	trimmed := strings.TrimLeft(line, " \t")
	indent := len(line) - len(trimmed)
	if trimmed == "" {
		return []string{line}, true
	}
	isItem := strings.HasPrefix(trimmed, "- ")
	isSibling := d.block.kind == items && isItem && indent == d.block.indent // a list may have the indentation of its name
	if indent <= d.block.indent && !isSibling {
		d.block = block{}
		return nil, false
	}
	switch d.block.kind {
	case scalar:
		if d.block.marked {
			return nil, true
		}
		d.block.marked = true
		return []string{line[:indent] + Mark}, true
	case fields:
		_, key, value, isField := yamlField(line)
		switch {
		case isField && value == "":
			return []string{line}, true
		case isField:
			return []string{line[:strings.Index(line, key)+len(key)] + strings.Repeat(`"`, strings.Count(line[:indent+1], `"`)) + ": " + Mark}, true
		}
		return []string{line[:indent] + Mark}, true
	}
	if _, _, _, isField := yamlField(line); isField || !isItem && !strings.HasPrefix(trimmed, `"`) {
		d.block = block{}
		return nil, false
	}
	if isItem {
		return []string{line[:indent] + "- " + Mark}, true
	}
	return []string{line[:indent] + Mark}, true
}

// openBlock checks whether the following deeper lines are the value of a line's field.
func (d *document) openBlock(line string) {
	at, key, value, isField := yamlField(line)
	if !isField {
		return
	}
	isText := value != "" && strings.IndexByte("|>", value[0]) >= 0 && len(value) < 8
	data := (key == "data" || key == "stringData") && d.secrets[at]
	switch {
	case data && (value == "" || value == "{"):
		d.block = block{kind: fields, indent: at}
	case classOf(key) == open:
	case isText:
		d.block = block{kind: scalar, indent: at}
	case value == "" || value == "[":
		d.block = block{kind: items, indent: at}
	}
}

// inElement masks lines within an XML element that has a secret name.
func (d *document) inElement(line string) (masked string, known bool) {
	trimmed := strings.TrimSpace(line)
	if d.tag == "" {
		if name, found := strings.CutPrefix(trimmed, "<"); found && strings.HasSuffix(name, ">") && classOf(strings.TrimSuffix(name, ">")) != open &&
			!strings.ContainsAny(name, " /") {
			d.tag = strings.TrimSuffix(name, ">")
		}
		return "", false
	}
	if strings.Contains(line, "</"+d.tag) {
		d.tag = ""
		return "", false
	}
	if !strings.HasPrefix(trimmed, "<") {
		return Mark, true
	}
	from, to := strings.Index(line, ">"), strings.LastIndex(line, "</")
	if from >= 0 && to > from {
		return line[:from+1] + Mark + line[to:], true
	}
	return line, true
}

// besideName masks a field "value" next to a field "name" with a secret name, and an argument after its flag.
func (d *document) besideName(i int) (masked string, known bool) {
	line := d.lines[i]
	at, key, value, isField := yamlField(line)
	if isField && (strings.EqualFold(key, "value") || strings.EqualFold(key, "values")) && value != "" {
		for _, neighbor := range []int{i - 1, i + 1, i - 2, i + 2} {
			if neighbor < 0 || neighbor >= len(d.lines) {
				continue
			}
			column, other, name, found := yamlField(d.lines[neighbor])
			name = strings.Trim(name, `"', `)
			isName := found && column == at && (strings.EqualFold(other, "name") || strings.EqualFold(other, "key"))
			if isName && classOf(name) != open && !isHarmless(name, strings.Trim(value, `"', `)) {
				if strings.IndexByte("|>", value[0]) >= 0 {
					d.block = block{kind: scalar, indent: at}
				}
				return strings.TrimSuffix(line, value) + quotedMark(value), true
			}
		}
	}
	if i == 0 || isField {
		return "", false
	}
	flag, text := strings.Trim(strings.TrimSpace(d.lines[i-1]), `-"', `), strings.TrimSpace(line)
	before := strings.TrimLeft(strings.TrimSpace(d.lines[i-1]), `- "'`)
	isArgument := strings.HasPrefix(strings.TrimSpace(d.lines[i-1]), `- `) && strings.HasPrefix(text, "- ") || strings.HasPrefix(text, `"`)
	dashes := len(strings.TrimSpace(d.lines[i-1])) - len(before)
	if !isArgument || strings.ContainsAny(flag, " =:") || classOf(flag) == open || !strings.Contains(strings.TrimPrefix(strings.TrimSpace(d.lines[i-1])[:dashes], "- "), "-") {
		return "", false
	}
	item := strings.TrimPrefix(text, "- ")
	if isFlag(strings.Trim(item, `"',`)) {
		return "", false
	}
	return strings.TrimSuffix(line, item) + quotedMark(item), true
}

// quotedMark returns the mark, quoted like the value.
func quotedMark(value string) string {
	comma := ""
	if strings.HasSuffix(value, ",") {
		comma = ","
	}
	if strings.HasPrefix(value, `"`) {
		return `"` + Mark + `"` + comma
	}
	return Mark + comma
}

// yamlField parses a line of YAML or of multi-line JSON: the column of the field's name, the name and the value.
func yamlField(line string) (column int, key, value string, isField bool) {
	rest := strings.TrimLeft(line, " ")
	for strings.HasPrefix(rest, "- ") {
		rest = strings.TrimLeft(rest[2:], " ")
	}
	column = len(line) - len(rest)
	quoted := strings.HasPrefix(rest, `"`)
	rest = strings.TrimPrefix(rest, `"`)
	end := 0
	for end < len(rest) && end < maxName && (isNameByte(rest[end]) || rest[end] == '/') {
		end++
	}
	key, rest = rest[:end], rest[end:]
	if quoted {
		rest = strings.TrimPrefix(rest, `"`)
	}
	value, found := strings.CutPrefix(rest, ":")
	if key == "" || !found || value != "" && value[0] != ' ' {
		return column, "", "", false
	}
	return column, key, strings.TrimSpace(value), true
}
