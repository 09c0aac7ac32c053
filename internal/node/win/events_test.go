package win

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// crashed is event 7031 as Windows Server 2022 renders it.
const crashed = `<Event xmlns='http://schemas.microsoft.com/win/2004/08/events/event'><System>` +
	`<Provider Name='Service Control Manager' Guid='{555908d1-a6d7-4695-8e1e-26931d2012f4}' EventSourceName='Service Control Manager'/>` +
	`<EventID Qualifiers='49152'>7031</EventID><Version>0</Version><Level>2</Level><Task>0</Task><Opcode>0</Opcode>` +
	`<Keywords>0x8080000000000000</Keywords><TimeCreated SystemTime='2026-11-23T16:45:20.1234567Z'/><EventRecordID>4711</EventRecordID>` +
	`<Correlation/><Execution ProcessID='716' ThreadID='5100'/><Channel>System</Channel><Computer>WIN-1</Computer><Security/></System>` +
	`<EventData><Data Name='param1'>kubelet</Data><Data Name='param2'>3</Data><Binary>6B00</Binary></EventData></Event>`

func TestEventsAreRead(t *testing.T) {
	at := time.Date(2026, 11, 23, 16, 45, 20, 123456700, time.UTC)
	for name, test := range map[string]struct {
		text, provider string
		want           hostapi.Event
	}{
		"of the service control manager": {
			text: crashed, provider: "Service Control Manager",
			want: hostapi.Event{Record: 4711, Time: at, Provider: "Service Control Manager", ID: 7031, Level: hostapi.EventError, Message: "param1=kubelet; param2=3"},
		},
		"with data without names": {
			text:     strings.Replace(crashed, "<Data Name='param1'>kubelet</Data><Data Name='param2'>3</Data>", "<Data>a\r\n b</Data><Data> </Data><Data>c</Data>", 1),
			provider: "Service Control Manager",
			want:     hostapi.Event{Record: 4711, Time: at, Provider: "Service Control Manager", ID: 7031, Level: hostapi.EventError, Message: "a b; c"},
		},
		"with characters that XML forbids": {
			text:     strings.Replace(crashed, "<Data Name='param1'>kubelet</Data>", "<Data Name='param1'>a\x00b\x1b[1m&#0;c&#xFFFE;\ufffe&#x9;&#65;&#99999999999;&amp;</Data>", 1),
			provider: "Service Control Manager",
			want:     hostapi.Event{Record: 4711, Time: at, Provider: "Service Control Manager", ID: 7031, Level: hostapi.EventError, Message: "param1=a b [1m c A &; param2=3"},
		},
		"a source with another name": {
			text:     strings.Replace(strings.Replace(crashed, "Name='Service Control Manager' G", "Name='Microsoft-Windows-X' G", 1), "<Level>2<", "<Level>0<", 1),
			provider: "Microsoft-Windows-X",
			want:     hostapi.Event{Record: 4711, Time: at, Provider: "Service Control Manager", ID: 7031, Level: hostapi.EventInformation, Message: "param1=kubelet; param2=3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, provider, err := parseEvent(test.text)
			if err != nil || provider != test.provider {
				t.Fatalf("provider %q, %v", provider, err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("event (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInvalidEventIsRejected(t *testing.T) {
	for _, text := range []string{"", "<Event/>", strings.Replace(crashed, "4711", "-1", 1), strings.Replace(crashed, "2026-", "", 1), crashed[:300]} {
		if e, _, err := parseEvent(text); err == nil {
			t.Errorf("%q is read as %+v", text, e)
		}
	}
}

func FuzzEvents(f *testing.F) {
	f.Add(crashed)
	f.Add("<Event><System><Provider Name='a&#10;b'/><EventRecordID>1</EventRecordID></System></Event>")
	f.Fuzz(func(t *testing.T, text string) {
		e, _, err := parseEvent(text)
		if err != nil {
			return
		}
		for _, s := range []string{e.Message, e.Provider} {
			if len(s) > maxMessage+3 || strings.ContainsAny(s, "\r\n\t") || !utf8.ValidString(s) {
				t.Errorf("the text is not a bounded line: %q", s)
			}
		}
		if e.Record == 0 {
			t.Error("the record is 0")
		}
	})
}
