package main

import (
	"encoding/xml"
	"strings"
	"testing"
)

const demo = `go: downloading something
==> Secret cloud-private-key is made
  0.5 s  <win-1>   Connect    Running
node/win-1 Ready
==> 2 of 2 pods of win-webserver are Running and answer, 2.5 s after they were asked for
==> The Service answers at its ClusterIP and by its name, and a pod shows a ConfigMap
Kubeconfig: /tmp/kubeconfig
`

func TestARecordingHasTheDemoAndNothingElse(t *testing.T) {
	lines, err := record(strings.NewReader(demo))
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) != 5 || !strings.HasPrefix(lines[0].text, "==> Secret") || !strings.Contains(lines[4].text, "ConfigMap") {
		t.Fatalf("recorded %v", lines)
	}
}

func TestADemoThatFailsIsNotDrawn(t *testing.T) {
	if lines, err := record(strings.NewReader("==> Secret is made\ndemo: timeout\n")); err == nil {
		t.Fatalf("recorded %v", lines)
	}
}

func TestThePictureIsXMLWithEveryLine(t *testing.T) {
	lines, err := record(strings.NewReader(demo))
	if err != nil {
		t.Fatal(err)
	}
	var picture struct {
		Text []string `xml:"text"`
	}
	if err := xml.Unmarshal([]byte(draw(lines)), &picture); err != nil {
		t.Fatal(err)
	}
	if len(picture.Text) != len(lines) || picture.Text[1] != lines[1].text {
		t.Fatalf("drawn %q of %v", picture.Text, lines)
	}
}
