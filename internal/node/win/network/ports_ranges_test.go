package network

import (
	"slices"
	"strings"
	"testing"
)

const (
	dynamicText = "\r\nProtocol tcp Dynamic Port Range\r\n---------------------------------\r\nStart Port      : 49152\r\nNumber of Ports : 16384\r\n\r\n"
	dynamicDE   = "\r\nProtokoll tcp Dynamischer Portbereich\r\n-----\r\nStartport      : 1024\r\nAnzahl von Ports : 64511\r\n"
	excluded    = "\r\nProtocol tcp Port Exclusion Ranges\r\n\r\nStart Port    End Port      \r\n----------    --------      \r\n      5357        5357      \r\n" +
		"     10250       10349      \r\n     10280       10280     *\r\n     50000       50059     *\r\n\r\n* - Administered port exclusions.\r\n\r\n"
)

func TestPortRangesAreRead(t *testing.T) {
	for text, want := range map[string]PortRange{dynamicText: {49152, 65535}, dynamicDE: {1024, 65534}} {
		if got, ok := parseDynamic(text); !ok || got != want {
			t.Errorf("%q: %v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "x: 1", "a: 0\nb: 10", "a: 65000\nb: 1000", "a: 1\nb: 2\nc: 3", "a: -1\nb: 2", "a: 99999999\nb: 1"} {
		if got, ok := parseDynamic(text); ok {
			t.Errorf("%q: %v", text, got)
		}
	}
	if got := parseExcluded(excluded); !slices.Equal(got, []PortRange{{5357, 5357}, {10250, 10349}}) {
		t.Errorf("excluded: %v", got)
	}
}

// FuzzPortRanges checks that the ranges are valid and their number is limited.
func FuzzPortRanges(f *testing.F) {
	f.Add(dynamicText)
	f.Add(excluded)
	f.Add(strings.Repeat("1 2\n", 1000))
	f.Fuzz(func(t *testing.T, text string) {
		ranges := parseExcluded(text)
		if r, ok := parseDynamic(text); ok {
			ranges = append(ranges, r)
		}
		if len(ranges) > maxPortRanges+1 {
			t.Errorf("%d ranges", len(ranges))
		}
		for _, r := range ranges {
			if r.First == 0 || r.Last < r.First {
				t.Errorf("%q has %v", text, r)
			}
		}
	})
}
