// Package overlaystatus defines the file in which hybrid-overlay-node reports why the hybrid overlay does not work. WICD copies it to the Node. The
// package does no I/O.
package overlaystatus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/windows-machine-config/wmco/internal/shared/strictjson"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// Limits of the file.
const (
	// MaxSize is the size of the file in bytes.
	MaxSize = 64 << 10
	// MaxProblems is the number of problems.
	MaxProblems = 16
	// MaxMessage is the length of a message in bytes.
	MaxMessage = 1024

	maxReason = 64
)

// Status is the content of the file. The overlay works if there are no problems.
type Status struct {
	Problems []Problem `json:"problems"`
}

// Problem is one problem.
type Problem struct {
	// Reason is one of the reasons of condition WindowsNetworkUnavailable that begin with Overlay (package api).
	Reason string `json:"reason"`
	// Message is one printable line with the problem and what to do about it.
	Message string `json:"message"`
}

// Encode formats a status within the limits, so that Decode accepts it: it cuts long messages, escapes what cannot be printed, and
// omits problems beyond the limit and those without a reason.
func Encode(s Status) []byte {
	short := Status{Problems: []Problem{}}
	for _, p := range s.Problems {
		if len(short.Problems) == MaxProblems || !isReason(p.Reason) {
			continue
		}
		p.Message = strings.ReplaceAll(truncate.Printable(p.Message, MaxMessage), "\n", " ")
		short.Problems = append(short.Problems, p)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // escaping would make a message six times as long
	_ = e.Encode(short)    // encoding strings cannot fail
	return b.Bytes()
}

// Decode parses what Encode has written, and rejects everything else.
func Decode(b []byte) (Status, error) {
	if len(b) > MaxSize {
		return Status{}, fmt.Errorf("the status has %d bytes, and at most %d are allowed", len(b), MaxSize)
	}
	var s Status
	if err := strictjson.Unmarshal(b, &s); err != nil {
		return Status{}, fmt.Errorf("reading the status: %w", err)
	}
	if s.Problems == nil || len(s.Problems) > MaxProblems {
		return Status{}, fmt.Errorf("the status has %d problems, and a list of at most %d is needed", len(s.Problems), MaxProblems)
	}
	for i, p := range s.Problems {
		if !isReason(p.Reason) {
			return Status{}, fmt.Errorf("problem %d has the reason %.80q; a word of letters and digits is needed", i, p.Reason)
		}
		if !isMessage(p.Message) {
			return Status{}, fmt.Errorf("problem %d (%s) has a message of %d bytes; one printable line of at most %d is needed", i, p.Reason, len(p.Message), MaxMessage)
		}
	}
	return s, nil
}

// isReason reports whether a text can be the reason of a condition.
func isReason(text string) bool {
	return text != "" && len(text) <= maxReason && text[0] >= 'A' && text[0] <= 'Z' &&
		strings.IndexFunc(text, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) }) < 0
}

func isMessage(text string) bool {
	return len(text) <= MaxMessage && utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}
