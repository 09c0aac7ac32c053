// Package lies derives random false answers from true ones. It knows no field of any answer, so that it lies about every field: values are absurd,
// huge, duplicated, of another type, from another host or missing, and lines are cut, duplicated, out of order or malformed.
package lies

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
)

// Liar lies at random. A seed determines the sequence of lies. It must not be used concurrently.
type Liar struct {
	rand *rand.Rand
	// Words are texts that it may use in lies: names, addresses and keys of others, and texts sent to it.
	Words []string
	// fields are the names of all fields that an answer can have, including those that the true answer omits.
	fields []string
}

// New returns a liar. It also lies about fields of the answers' types, such as &agent.Facts{}, that the true answer omits.
func New(seed uint64, answers ...any) *Liar {
	names, seen := map[string]bool{}, map[reflect.Type]bool{}
	for _, answer := range answers {
		collect(reflect.TypeOf(answer), names, seen)
	}
	return &Liar{rand: rand.New(rand.NewPCG(seed, 0x11e5)), fields: slices.Sorted(maps.Keys(names))}
}

// collect collects the JSON names of the fields of a type and of the types in it.
func collect(kind reflect.Type, names map[string]bool, seen map[reflect.Type]bool) {
	switch kind.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Array:
		collect(kind.Elem(), names, seen)
	case reflect.Struct:
		if seen[kind] {
			return
		}
		seen[kind] = true
		for field := range kind.Fields() {
			if !field.IsExported() {
				continue
			}
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" && name != "-" {
				names[name] = true
			}
			collect(field.Type, names, seen)
		}
	}
}

// Chance returns true with probability p.
func (l *Liar) Chance(p float64) bool { return l.rand.Float64() < p }

// IntN returns a number below n.
func (l *Liar) IntN(n int) int { return l.rand.IntN(n) }

// Line returns the lines to send instead of one: the same line, or malformed ones. A few exceed the maximum length.
func (l *Liar) Line(line []byte) [][]byte {
	if l.Chance(0.8) {
		line = l.JSON(line)
	}
	switch l.IntN(20) {
	case 0: // cut
		return [][]byte{line[:l.IntN(len(line)+1)]}
	case 1: // duplicated
		return [][]byte{line, line}
	case 2: // after another one
		return [][]byte{[]byte(l.Text("")), line}
	case 3: // missing
		return nil
	case 4: // broken
		at := l.IntN(len(line) + 1)
		return [][]byte{slices.Concat(line[:at], []byte(l.Text("")), line[at:])}
	}
	return [][]byte{line}
}

// JSON lies about one to three values of a JSON value. Other text is not changed.
func (l *Liar) JSON(text []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // keep large numbers exact
	var value any
	if d.Decode(&value) != nil {
		return text
	}
	for range 1 + l.IntN(3) {
		at := l.IntN(count(value))
		value = l.lie(value, &at)
	}
	b, err := json.Marshal(value)
	if err != nil {
		return text
	}
	if l.Chance(0.05) && len(b) > 1 && b[0] == '{' { // a duplicate field
		b = slices.Concat([]byte("{"), fmt.Appendf(nil, "%q:%q,", l.field(), l.Text("")), b[1:])
	}
	return b
}

// Object lies about the JSON of an object and decodes the result into another one. It reports whether that is possible.
func (l *Liar) Object(from, into any) bool {
	b, err := json.Marshal(from)
	return err == nil && json.Unmarshal(l.JSON(b), into) == nil
}

// count returns the number of values in a value, including itself.
func count(value any) int {
	n := 1
	switch v := value.(type) {
	case map[string]any:
		for _, item := range v {
			n += count(item)
		}
	case []any:
		for _, item := range v {
			n += count(item)
		}
	}
	return n
}

// lie replaces the value at position at.
func (l *Liar) lie(value any, at *int) any {
	if *at == 0 {
		*at--
		return l.instead(value)
	}
	*at--
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if *at >= 0 {
				v[key] = l.lie(v[key], at)
			}
		}
	case []any:
		for i := range v {
			if *at >= 0 {
				v[i] = l.lie(v[i], at)
			}
		}
	}
	return value
}

// instead returns a replacement of a value.
func (l *Liar) instead(value any) any {
	if l.Chance(0.1) {
		return l.value()
	}
	switch v := value.(type) {
	case string:
		return l.Text(v)
	case bool:
		return !v
	case json.Number:
		return l.number()
	case []any:
		return l.list(v)
	case map[string]any:
		return l.fieldsOf(v)
	}
	return l.value()
}

// value returns a value of a random type.
func (l *Liar) value() any {
	return []any{nil, true, l.number(), l.Text(""), []any{}, map[string]any{}, []any{l.Text("")}, map[string]any{l.field(): l.Text("")}, l.deep()}[l.IntN(9)]
}

// deep returns nested lists.
func (l *Liar) deep() (value any) {
	for range 1 + l.IntN(200) {
		value = []any{value}
	}
	return value
}

func (l *Liar) number() any {
	return []any{0, -1, 1, 65536, 20348, math.MaxInt32, math.MinInt64, math.MaxInt64, json.Number("18446744073709551616"), json.Number("1e308"), 0.5, "7"}[l.IntN(12)]
}

func (l *Liar) list(v []any) []any {
	switch l.IntN(4) {
	case 0:
		return nil
	case 1: // out of order
		l.rand.Shuffle(len(v), func(i, j int) { v[i], v[j] = v[j], v[i] })
		return v
	case 2: // duplicated, or repeated many times
		if len(v) == 0 {
			return []any{l.value()}
		}
		return slices.Repeat(v, []int{2, 3, 65, 300}[l.IntN(4)])
	}
	return append(v, l.value())
}

// fieldsOf omits a field, adds one, or swaps two.
func (l *Liar) fieldsOf(v map[string]any) map[string]any {
	keys := slices.Sorted(maps.Keys(v))
	if len(keys) == 0 || l.Chance(0.5) {
		v[l.field()] = l.value()
		return v
	}
	a, b := keys[l.IntN(len(keys))], keys[l.IntN(len(keys))]
	if l.Chance(0.5) {
		delete(v, a)
		return v
	}
	v[a], v[b] = v[b], v[a]
	return v
}

// field returns the name of a field of an answer, or a random name.
func (l *Liar) field() string {
	if len(l.fields) == 0 || l.Chance(0.1) {
		return l.Text("")
	}
	return l.fields[l.IntN(len(l.fields))]
}

// Text returns a replacement of a text.
func (l *Liar) Text(text string) string {
	if len(l.Words) > 0 && l.Chance(0.4) {
		return l.Words[l.IntN(len(l.Words))]
	}
	switch l.IntN(12) {
	case 0:
		return ""
	case 1:
		return strings.Repeat("long ", []int{10, 100, 2_000, 20_000}[l.IntN(4)])
	case 2:
		return "\x1b]0;title\x07\x1b[2J\r\n\x00\u202e" + text
	case 3:
		return text + text
	case 4:
		return text[:l.IntN(len(text)+1)]
	case 5:
		return strings.ToUpper(text)
	case 6:
		return "\xff\xfe" + text
	case 7:
		return []string{"*", ".", "..", "/", `C:\..\..`, "%s%n", "$(id)", "{{.}}", "a/b", "-", "true", "null", "\u212aelvin", "\u0130"}[l.IntN(14)]
	case 8:
		return []string{"0.0.0.0", "127.0.0.1", "169.254.169.254", "255.255.255.255", "::1", "10.0.0.1/0", "010.0.0.1", "fe80::1%eth0"}[l.IntN(8)]
	case 9:
		return []string{"0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "1969-12-31T23:59:59Z", "2100-01-01T00:00:00.5+14:00"}[l.IntN(4)]
	case 10:
		return []string{"v0.0.0", "v1.999.0", "999999999999.0.0-ffffffff", "1.1.0-", "10.0.99999.1"}[l.IntN(5)]
	}
	return fmt.Sprintf("x%d", l.IntN(1000))
}
