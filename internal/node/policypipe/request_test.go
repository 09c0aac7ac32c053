package policypipe

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"
)

// web is a pod.
func web() Request {
	return Request{
		Namespace: "shop", Name: "web-7d9f4c8b5-x2x4z", UID: "0b0f9f0e-4d5b-4c3e-8a3a-0d9f6d0b8a11",
		ContainerID: strings.Repeat("0a", 32), Addresses: []netip.Addr{netip.MustParseAddr("10.132.1.7")},
	}
}

func TestLargestRequestFitsMessage(t *testing.T) {
	r := Request{
		Namespace: strings.Repeat("n", 63), Name: strings.Repeat("p", 253), UID: strings.Repeat("u", 128), ContainerID: strings.Repeat("c", 128),
	}
	for i := range byte(maxAddresses) {
		r.Addresses = append(r.Addresses, netip.AddrFrom16([16]byte{0xfd, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xf0 + i}))
	}
	line, err := encode(r)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decode[Request](line); err != nil || !reflect.DeepEqual(got, r) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestRequestsOfNoPodAreRejected(t *testing.T) {
	for want, change := range map[string]func(*Request){
		`namespace is ""`:                      func(r *Request) { r.Namespace = "" },
		`namespace is "shop\nx"`:               func(r *Request) { r.Namespace = "shop\nx" },
		`namespace is "Shop"`:                  func(r *Request) { r.Namespace = "Shop" },
		`name is "../web"`:                     func(r *Request) { r.Name = "../web" },
		`uid is ""`:                            func(r *Request) { r.UID = "" },
		`containerID is "a\\b"`:                func(r *Request) { r.ContainerID = `a\b` },
		`addresses has 0 entries`:              func(r *Request) { r.Addresses = nil },
		`addresses has 17 entries`:             func(r *Request) { r.Addresses = make([]netip.Addr, 17) },
		`addresses contains "invalid IP"`:      func(r *Request) { r.Addresses = []netip.Addr{{}} },
		`addresses contains "0.0.0.0"`:         func(r *Request) { r.Addresses = []netip.Addr{netip.IPv4Unspecified()} },
		`addresses contains "127.0.0.1"`:       func(r *Request) { r.Addresses = []netip.Addr{netip.MustParseAddr("127.0.0.1")} },
		`addresses contains "fe80::1%1"`:       func(r *Request) { r.Addresses = []netip.Addr{netip.MustParseAddr("fe80::1%1")} },
		`addresses contains "::ffff:10.0.0.1"`: func(r *Request) { r.Addresses = []netip.Addr{netip.MustParseAddr("::ffff:10.0.0.1")} },
	} {
		r := web()
		change(&r)
		if err := r.check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestOnlyWrittenFormIsDecoded(t *testing.T) {
	written, err := encode(web())
	if err != nil {
		t.Fatal(err)
	}
	line := string(written)
	if _, err := decode[Request](written); err != nil {
		t.Error(err)
	}
	for what, changed := range map[string]string{
		"an unknown field":     strings.Replace(line, `{"namespace"`, `{"mode":"Off","namespace"`, 1),
		"a duplicate field":    strings.Replace(line, `{"namespace"`, `{"namespace":"other","namespace"`, 1),
		"another spelling":     strings.Replace(line, `"namespace"`, `"Namespace"`, 1),
		"another order":        strings.Replace(line, `"namespace":"shop",`, "", 1),
		"white space":          strings.Replace(line, `,`, `, `, 1),
		"data after it":        strings.TrimSpace(line) + "{}\n",
		"no line end":          strings.TrimSpace(line),
		"no object":            "null\n",
		"nothing":              "\n",
		"invalid UTF-8":        strings.Replace(line, "shop", "sh\xffp", 1),
		"a mapped address":     strings.Replace(line, "10.132.1.7", "::ffff:10.132.1.7", 1),
		"a number of a string": strings.Replace(line, `"shop"`, `7`, 1),
	} {
		if got, err := decode[Request]([]byte(changed)); err == nil {
			t.Errorf("%s is accepted: %+v", what, got)
		}
	}
}

func TestResponseDecidesOneWay(t *testing.T) {
	for line, isAccepted := range map[string]bool{
		`{"inForce":true}`: true, `{"refused":"no set"}`: true,
		`{}`: false, `{"inForce":false}`: false, `{"inForce":true,"refused":"no set"}`: false, `{"refused":""}`: false, `true`: false,
	} {
		if _, err := decode[response]([]byte(line + "\n")); (err == nil) != isAccepted {
			t.Errorf("%s: got %v", line, err)
		}
	}
}

func FuzzRequest(f *testing.F) {
	line, err := encode(web())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(line)
	f.Add([]byte(`{"namespace":"a","name":"a","uid":"a","containerID":"a","addresses":["fd00::1"]}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decode[Request](data)
		if err != nil {
			return
		}
		if err := r.check(); err != nil {
			t.Errorf("decoded a request of no pod: %v", err)
		}
		again, err := encode(r)
		if err != nil || string(again) != string(data) || len(data) > maxMessage {
			t.Errorf("%q is decoded from %q, %v", again, data, err)
		}
	})
}

func FuzzResponse(f *testing.F) {
	f.Add([]byte(`{"inForce":true}` + "\n"))
	f.Add([]byte(`{"refused":"no set"}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := decode[response](data)
		if err == nil && a.InForce && string(data) != `{"inForce":true}`+"\n" {
			t.Errorf("%q counts as rules in force", data)
		}
	})
}
