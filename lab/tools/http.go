package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"mvdan.cc/sh/v3/interp"
)

// Exit codes of curl that tests distinguish.
const (
	curlResolve = 6
	curlConnect = 7
	curlStatus  = 22
	curlTimeout = 28
)

// request is an HTTP request of curl or wget.
type request struct {
	url, method, body       string
	headers                 []string
	connectTimeout, timeout time.Duration // no limit if 0
	insecure, follow        bool
}

// send sends a request. The caller closes the body of the response.
func (r request) send(ctx context.Context) (*http.Response, error) {
	if !strings.Contains(r.url, "://") {
		r.url = "http://" + r.url
	}
	if r.method == "" {
		r.method = http.MethodGet
		if r.body != "" {
			r.method = http.MethodPost
		}
	}
	req, err := http.NewRequestWithContext(ctx, r.method, r.url, strings.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	if r.body != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, h := range r.headers {
		name, value, _ := strings.Cut(h, ":")
		value = strings.TrimSpace(value)
		req.Header.Set(name, value)
		if strings.EqualFold(name, "Host") {
			req.Host = value
		}
	}
	client := &http.Client{Timeout: r.timeout, Transport: &http.Transport{
		DialContext: (&net.Dialer{Timeout: r.connectTimeout}).DialContext, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: r.insecure},
	}}
	if !r.follow {
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	return client.Do(req)
}

// seconds defines an option of curl or wget in seconds.
func seconds(set *pflag.FlagSet, name, letter string) *float64 {
	return set.Float64P(name, letter, 0, "")
}

func toDuration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// curl implements the options of curl that tests use.
func curl(ctx context.Context, c call) error {
	set := c.flags()
	set.BoolP("disable", "q", false, "")
	set.BoolP("globoff", "g", false, "")
	set.BoolP("verbose", "v", false, "")
	set.BoolP("ipv4", "4", false, "")
	set.String("interface", "", "")
	silent := set.BoolP("silent", "s", false, "")
	showError := set.BoolP("show-error", "S", false, "")
	fail := set.BoolP("fail", "f", false, "")
	head := set.BoolP("head", "I", false, "")
	include := set.BoolP("include", "i", false, "")
	format := set.StringP("write-out", "w", "", "")
	output := set.StringP("output", "o", "", "")
	connectTimeout, timeout := seconds(set, "connect-timeout", ""), seconds(set, "max-time", "m")
	var r request
	set.BoolVarP(&r.insecure, "insecure", "k", false, "")
	set.BoolVarP(&r.follow, "location", "L", false, "")
	set.StringVarP(&r.method, "request", "X", "", "")
	set.StringVarP(&r.body, "data", "d", "", "")
	set.StringArrayVarP(&r.headers, "header", "H", nil, "")
	if err := set.Parse(c.args[1:]); err != nil {
		return err
	}
	r.url, r.connectTimeout, r.timeout = set.Arg(0), toDuration(*connectTimeout), toDuration(*timeout)
	if *head {
		r.method = http.MethodHead
	}
	to, done, err := c.create(*output)
	if err != nil {
		return err
	}
	defer done()
	response, err := r.send(ctx)
	if err != nil {
		if !*silent || *showError {
			fmt.Fprintf(c.err, "curl: %v\n", err)
		}
		c.writeOut(*format, 0)
		return interp.ExitStatus(curlCode(err))
	}
	defer response.Body.Close()
	if *fail && response.StatusCode >= http.StatusBadRequest {
		return interp.ExitStatus(curlStatus)
	}
	if *include || *head {
		fmt.Fprintf(to, "%s %s\r\n", response.Proto, response.Status)
		_ = response.Header.Write(to)
		fmt.Fprint(to, "\r\n")
	}
	_, err = io.Copy(to, response.Body)
	c.writeOut(*format, response.StatusCode)
	return err
}

func (c call) writeOut(format string, status int) {
	fmt.Fprint(c.out, strings.NewReplacer("%{http_code}", fmt.Sprintf("%03d", status), `\n`, "\n").Replace(format))
}

func curlCode(err error) uint8 {
	var unknown *net.DNSError
	switch {
	case errors.As(err, &unknown):
		return curlResolve
	case os.IsTimeout(err):
		return curlTimeout
	}
	return curlConnect
}

// create opens a file for output, or returns the standard output if the name is "" or "-".
func (c call) create(name string) (to io.Writer, done func(), err error) {
	if name == "" || name == "-" {
		return c.out, func() {}, nil
	}
	if name == "/dev/null" {
		return io.Discard, func() {}, nil
	}
	f, err := os.Create(c.path(name))
	if err != nil {
		return nil, nil, err
	}
	return f, func() { _ = f.Close() }, nil
}

// wget implements the options of wget that tests use.
func wget(ctx context.Context, c call) error {
	set := c.flags()
	set.BoolP("quiet", "q", false, "")
	set.StringP("tries", "t", "", "")
	spider := set.Bool("spider", false, "")
	output := set.StringP("output-document", "O", "index.html", "")
	limit := seconds(set, "timeout", "T")
	r := request{follow: true}
	set.BoolVar(&r.insecure, "no-check-certificate", false, "")
	set.StringVar(&r.body, "post-data", "", "")
	set.StringArrayVar(&r.headers, "header", nil, "")
	if err := set.Parse(c.args[1:]); err != nil {
		return err
	}
	r.url, r.timeout = set.Arg(0), toDuration(*limit)
	response, err := r.send(ctx)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("server returned error: %s %s", response.Proto, response.Status)
	}
	if *spider {
		return nil
	}
	to, done, err := c.create(*output)
	if err != nil {
		return err
	}
	defer done()
	_, err = io.Copy(to, response.Body)
	return err
}

// nc implements "nc [-u] [-z] [-w seconds] [-p port] address port": it sends its input, and prints the received data until the
// peer ends or the time of -w passes without data.
func nc(ctx context.Context, c call) error {
	set := c.flags()
	set.BoolP("verbose", "v", false, "")
	set.BoolP("telnet", "t", false, "")
	udp := set.BoolP("udp", "u", false, "")
	onlyConnects := set.BoolP("zero", "z", false, "")
	wait := seconds(set, "wait", "w")
	source := set.IntP("source-port", "p", 0, "")
	if err := set.Parse(c.args[1:]); err != nil {
		return err
	}
	if set.NArg() != 2 {
		return errors.New("want an address and a port")
	}
	dialer := net.Dialer{Timeout: toDuration(*wait)}
	network := "tcp"
	if *udp {
		network, dialer.LocalAddr = "udp", &net.UDPAddr{Port: *source}
	} else if *source != 0 {
		dialer.LocalAddr = &net.TCPAddr{Port: *source}
	}
	conn, err := dialer.DialContext(ctx, network, net.JoinHostPort(set.Arg(0), set.Arg(1)))
	if err != nil {
		return err
	}
	defer conn.Close()
	fmt.Fprintf(c.err, "%s (%s) open\n", set.Arg(0), set.Arg(1))
	if *onlyConnects {
		return nil
	}
	return c.exchange(conn, toDuration(*wait))
}

// exchange sends the input, and prints the received data.
func (c call) exchange(conn net.Conn, wait time.Duration) error {
	if _, err := io.Copy(conn, c.in); err != nil {
		return err
	}
	if half, ok := conn.(*net.TCPConn); ok {
		_ = half.CloseWrite()
	}
	buffer := make([]byte, 64<<10)
	for {
		if wait > 0 {
			_ = conn.SetReadDeadline(time.Now().Add(wait))
		}
		n, err := conn.Read(buffer)
		if _, writeErr := c.out.Write(buffer[:n]); writeErr != nil {
			return writeErr
		}
		if errors.Is(err, io.EOF) || os.IsTimeout(err) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
