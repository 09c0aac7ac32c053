package strictjson_test

import (
	"testing"

	"github.com/windows-machine-config/wmco/internal/shared/strictjson"
)

func TestOnlyOneKnownValueIsRead(t *testing.T) {
	for text, want := range map[string]string{
		`{"a": 1}`: "", " {\"a\": 1}\n": "", `{}`: "",
		``: "EOF", `{"a": 1`: "unexpected EOF", `{"a": "x"}`: "json: cannot unmarshal string into Go struct field .a of type int",
		`{"a": 1, "b": 2}`: `json: unknown field "b"`, `{"a": 1}{"a": 1}`: "text follows the JSON value", `{"a": 1} panic:`: "text follows the JSON value",
		`{"a": 1}]`: "text follows the JSON value",
	} {
		var v struct {
			A int `json:"a"`
		}
		got := ""
		if err := strictjson.Unmarshal([]byte(text), &v); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: error %q, want %q", text, got, want)
		}
	}
}
