package win

import (
	"encoding/xml"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// maxMessage limits the message of an event, in bytes. Windows' own limit is 32 KiB for each of its strings.
const maxMessage = 4 << 10

// eventXML is an event as Windows renders it
// (https://learn.microsoft.com/windows/win32/wes/eventschema-elements).
type eventXML struct {
	System struct {
		Provider struct {
			Name       string `xml:"Name,attr"`
			SourceName string `xml:"EventSourceName,attr"`
		}
		EventID     uint32
		Level       uint8
		TimeCreated struct {
			SystemTime string `xml:"SystemTime,attr"`
		}
		EventRecordID uint64
	}
	EventData struct {
		Data []struct {
			Name  string `xml:"Name,attr"`
			Value string `xml:",chardata"`
		}
	}
	UserData struct {
		Inner string `xml:",innerxml"`
	}
}

// parseEvent parses an event that Windows rendered as XML. Its message is the event's data. provider is the name under which the provider can be
// opened, which for older sources differs from the name that people know.
func parseEvent(text string) (e hostapi.Event, provider string, err error) {
	var x eventXML
	if err := xml.Unmarshal([]byte(sanitize(text)), &x); err != nil {
		return hostapi.Event{}, "", fmt.Errorf("reading an event: %w", err)
	}
	if x.System.Provider.Name == "" || x.System.EventRecordID == 0 {
		return hostapi.Event{}, "", errors.New("reading an event: it has no provider or no record")
	}
	at, err := time.Parse(time.RFC3339Nano, x.System.TimeCreated.SystemTime)
	if err != nil {
		return hostapi.Event{}, "", fmt.Errorf("reading the time of event %d: %w", x.System.EventRecordID, err)
	}
	e = hostapi.Event{
		Record: x.System.EventRecordID, Time: at.UTC(), Provider: cutMessage(x.System.Provider.Name), ID: x.System.EventID, Level: eventLevel(x.System.Level),
	}
	if source := cutMessage(x.System.Provider.SourceName); source != "" {
		e.Provider = source
	}
	var data []string
	for _, d := range x.EventData.Data {
		value := strings.TrimSpace(d.Value)
		switch {
		case value == "":
		case d.Name != "":
			data = append(data, d.Name+"="+value)
		default:
			data = append(data, value)
		}
	}
	if len(data) == 0 {
		data = append(data, x.UserData.Inner)
	}
	e.Message = cutMessage(strings.Join(data, "; "))
	return e, x.System.Provider.Name, nil
}

// reference matches a numeric character reference.
var reference = regexp.MustCompile(`&#(?:x([0-9a-fA-F]+)|([0-9]+));`)

// sanitize replaces characters that XML 1.0 forbids, and references to them. Windows does not escape them in event data.
func sanitize(text string) string {
	allowed := func(r rune) bool {
		return r == '\t' || r == '\n' || r == '\r' || r >= 0x20 && r <= 0xd7ff || r >= 0xe000 && r <= 0xfffd || r >= 0x10000 && r <= 0x10ffff
	}
	text = strings.Map(func(r rune) rune {
		if allowed(r) {
			return r
		}
		return utf8.RuneError
	}, text)
	return reference.ReplaceAllStringFunc(text, func(whole string) string {
		m := reference.FindStringSubmatch(whole)
		n, err := strconv.ParseUint(m[1], 16, 32)
		if m[2] != "" {
			n, err = strconv.ParseUint(m[2], 10, 32)
		}
		if err != nil || n > utf8.MaxRune || !allowed(rune(n)) {
			return string(utf8.RuneError)
		}
		return whole
	})
}

// eventLevel returns the name of a level (winmeta.xml). Older providers and audits use 0, which the Event Viewer shows as Information.
func eventLevel(level uint8) hostapi.EventLevel {
	switch level {
	case 1:
		return hostapi.EventCritical
	case 2:
		return hostapi.EventError
	case 3:
		return hostapi.EventWarning
	case 5:
		return hostapi.EventVerbose
	}
	return hostapi.EventInformation
}

// cutMessage converts a text to one line and limits its length.
func cutMessage(text string) string {
	if len(text) > 2*maxMessage {
		text = text[:2*maxMessage]
	}
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0xfffd || r >= 0x80 && r < 0xa0 || r == 0x2028 || r == 0x2029 {
			return ' '
		}
		return r
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "..."
	}
	return text
}
