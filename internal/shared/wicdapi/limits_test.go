package wicdapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// TestEveryListInResultsHasLimit fills each list of an answer up to its limit, and with one more item.
func TestEveryListInResultsHasLimit(t *testing.T) {
	for _, answer := range Answers() {
		kind := reflect.TypeOf(answer).Elem()
		for _, path := range listsOf(kind, nil) {
			field := kind
			var last reflect.StructField
			for _, i := range path {
				last = within(field).Field(i)
				field = last.Type
			}
			t.Run(kind.Name()+" "+last.Name, func(t *testing.T) {
				if maxItems(last) == 0 {
					t.Fatal("the list has no tag max")
				}
				for more, isOK := range map[int]bool{0: true, 1: false} {
					full := reflect.New(kind)
					fill(full.Elem(), path, maxItems(last)+more)
					text, err := json.Marshal(full.Interface())
					if err != nil {
						t.Fatal(err)
					}
					if err := decode(text, reflect.New(kind).Interface()); (err == nil) != isOK {
						t.Errorf("%d items more than are allowed: %v", more, err)
					}
				}
			})
		}
	}
	if err := decode(json.RawMessage(`{}`), &JoinRequest{}); err == nil {
		t.Error("a response beyond the limits was read")
	}
}

// listsOf returns the paths of all lists of a struct, including nested ones.
func listsOf(kind reflect.Type, path []int) (all [][]int) {
	if kind = within(kind); kind.Kind() != reflect.Struct {
		return nil
	}
	for i := range kind.NumField() {
		if !kind.Field(i).IsExported() {
			return nil
		}
		at := append(append([]int(nil), path...), i)
		if k := kind.Field(i).Type.Kind(); k == reflect.Slice || k == reflect.Map {
			all = append(all, at)
		}
		all = append(all, listsOf(kind.Field(i).Type, at)...)
	}
	return all
}

// within returns the element type of pointers and lists.
func within(kind reflect.Type) reflect.Type {
	for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice || kind.Kind() == reflect.Map {
		kind = kind.Elem()
	}
	return kind
}

// fill gives the list at a path n items; lists on the way to it get one.
func fill(v reflect.Value, path []int, n int) {
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if v.Kind() == reflect.Slice && len(path) > 0 {
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		v = v.Index(0)
	}
	switch {
	case len(path) > 0:
		fill(v.Field(path[0]), path[1:], n)
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), n, n))
	default:
		v.Set(reflect.MakeMap(v.Type()))
		for i := range n {
			v.SetMapIndex(reflect.ValueOf(fmt.Sprint(i)).Convert(v.Type().Key()), reflect.Zero(v.Type().Elem()))
		}
	}
}

// oneLine is a host that responds with one line.
type oneLine []byte

func (h oneLine) Run(_ context.Context, _ string, _ io.Reader, stdout io.Writer) error {
	_, err := stdout.Write(h)
	return err
}

// TestLineMemoryIsBounded has hosts respond with the lines that cost most memory: a line must allocate so little that many hosts can
// respond at once.
func TestLineMemoryIsBounded(t *testing.T) {
	const most = 2 << 20
	repeated := func(size int, item, around string) string {
		before, after, _ := strings.Cut(around, "*")
		return before + strings.TrimSuffix(strings.Repeat(item+",", (size-len(around))/(len(item)+1)), ",") + after + "\n"
	}
	for _, size := range []int{maxLine - 1, 1 << 20} {
		for name, entry := range map[string]string{
			"objects in unknown fields": repeated(size, `{"":0}`, `{"result":{"x":[*]}}`),
			"empty objects":             repeated(size, `{}`, `{"result":{"x":[*]}}`),
			"lists of lists":            repeated(size, `[[]]`, `{"result":{"x":[*]}}`),
			"interfaces":                repeated(size, `{}`, `{"result":{"host":{"interfaces":[*]}}}`),
			"addresses":                 repeated(size, `"10.0.0.1/8"`, `{"result":{"host":{"interfaces":[{"addresses":[*]}]}}}`),
			"features":                  repeated(size, `"":""`, `{"result":{"host":{"features":{*}}}}`),
			"services":                  repeated(size, `{}`, `{"result":{"services":[*]}}`),
			"missing content":           repeated(size, `{}`, `{"missing":[*]}`),
			"depth":                     `{"result":` + strings.Repeat("[", size/2) + strings.Repeat("]", size/2-20) + "}\n",
			"a text":                    `{"result":{"host":{"hostname":"` + strings.Repeat(`\u00e4`, size/6-10) + `"}}}` + "\n",
			"escapes":                   `{"result":{"x":"` + strings.Repeat(`\"`, size/2-20) + `"}}` + "\n",
		} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var facts Facts
			_ = Call(t.Context(), oneLine(entry), "x facts", nil, &facts, nil)
			runtime.ReadMemStats(&after)
			if spent := after.TotalAlloc - before.TotalAlloc; spent > most {
				t.Errorf("%s: a line of %d bytes costs %d KiB", name, len(entry), spent>>10)
			}
			if n := len(facts.Host.Hostname); n > truncate.Reported {
				t.Errorf("%s: %d bytes of a text are kept", name, n)
			}
		}
	}
}

// TestLongWICDOutputIsTruncated has WICD report more than the limits, which it must shorten.
func TestLongWICDOutputIsTruncated(t *testing.T) {
	many := make([]string, 5000)
	for i := range many {
		many[i] = strings.Repeat("removing a file. ", 100)
	}
	var out strings.Builder
	NewSession(strings.NewReader(""), &out).End(LeaveResult{Removed: Brief(many)}, nil)
	var got LeaveResult
	if err := Call(t.Context(), oneLine(out.String()), "x leave", nil, &got, nil); err != nil || len(got.Removed) != briefItems+1 || got.Removed[briefItems] != "and 4872 more" {
		t.Errorf("read %d items, %v", len(got.Removed), err)
	}
	out.Reset()
	NewSession(strings.NewReader(""), &out).End(nil, &Error{Code: CodeServiceFailed, Message: strings.Repeat("log ", 1<<20)})
	if failed := Failed(Call(t.Context(), oneLine(out.String()), "x join", nil, &got, nil)); failed == nil || failed.Code != CodeServiceFailed {
		t.Errorf("a failure with a long message is read as %v", failed)
	}
	var all []Missing
	for range 512 { // as many files as a payload may have
		all = append(all, Missing{SHA256: strings.Repeat("a", 64), Offset: 1 << 30})
	}
	out.Reset()
	if _ = NewSession(strings.NewReader(""), &out).Missing(all); out.Len() > maxLine || hasTooManyValues([]byte(out.String())) {
		t.Errorf("the list of missing content has %d bytes", out.Len())
	}
}
