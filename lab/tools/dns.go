package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/miekg/dns"
)

// query is a DNS query.
type query struct {
	server, port, name string
	kind               uint16
	tcp, short         bool
}

// dig implements "dig [@server] [-p port] [+short] [+tcp] [-x] name [A|PTR|CNAME|...]". It ignores other options. The output is that of
// "+noall +answer".
func dig(ctx context.Context, c call) error {
	q, err := parseQuery(c.args[1:])
	if err != nil {
		return err
	}
	response, err := q.send(ctx)
	if err != nil {
		return err
	}
	for _, record := range response.Answer {
		line := record.String()
		if q.short {
			line = strings.TrimPrefix(line, record.Header().String())
		}
		fmt.Fprintln(c.out, line)
	}
	return nil // like dig, also for a name that does not exist
}

// nslookup implements "nslookup [-port=53] name [server]". Like Windows' own, it says on its error output that a name does not exist, and succeeds.
func nslookup(ctx context.Context, c call) error {
	q := query{kind: dns.TypeA, port: "53"}
	for _, arg := range c.args[1:] {
		port, isPort := strings.CutPrefix(arg, "-port=")
		switch {
		case isPort:
			q.port = port
		case q.name == "":
			q.name = arg
		default:
			q.server = arg
		}
	}
	if q.name == "" {
		return errors.New("the name is missing")
	}
	name := q.name
	q.name = dns.Fqdn(name)
	response, err := q.send(ctx)
	if err != nil {
		return err
	}
	for _, record := range response.Answer {
		if address, ok := record.(*dns.A); ok {
			fmt.Fprintf(c.out, "Name:    %s\nAddress:  %s\n", name, address.A)
			return nil
		}
	}
	fmt.Fprintf(c.err, "*** the server can't find %s: %s\n", name, dns.RcodeToString[response.Rcode])
	return nil
}

func parseQuery(args []string) (query, error) {
	q := query{kind: dns.TypeA, port: "53"}
	for n := 0; n < len(args); n++ {
		arg := args[n]
		kind, isKind := dns.StringToType[arg]
		switch {
		case strings.HasPrefix(arg, "@"):
			q.server = arg[1:]
		case arg == "-p" && n+1 < len(args):
			n++
			q.port = args[n]
		case arg == "-x" && n+1 < len(args):
			n++
			reverse, err := dns.ReverseAddr(args[n])
			if err != nil {
				return q, err
			}
			q.name, q.kind = reverse, dns.TypePTR
		case isKind:
			q.kind = kind
		case strings.HasPrefix(arg, "+"):
			q.short = q.short || arg == "+short"
			q.tcp = q.tcp || arg == "+tcp"
		case q.name != "":
			return q, fmt.Errorf("got a second name %q, want one", arg)
		default:
			q.name = dns.Fqdn(arg)
		}
	}
	if q.name == "" {
		return q, errors.New("the name is missing")
	}
	return q, nil
}

func (q query) send(ctx context.Context) (*dns.Msg, error) {
	server := net.JoinHostPort(q.server, q.port)
	if q.server == "" {
		var err error
		if server, err = systemServer(ctx); err != nil {
			return nil, err
		}
	}
	client := &dns.Client{}
	if q.tcp {
		client.Net = "tcp"
	}
	response, _, err := client.ExchangeContext(ctx, new(dns.Msg).SetQuestion(q.name, q.kind), server)
	return response, err
}

// systemServer returns the first name server of the system. It uses a lookup of Go's resolver, and fails its first connection.
func systemServer(ctx context.Context) (string, error) {
	server := ""
	resolver := &net.Resolver{PreferGo: true, Dial: func(_ context.Context, _, address string) (net.Conn, error) {
		server = cmp.Or(server, address)
		return nil, errors.New("only the address is needed")
	}}
	_, err := resolver.LookupHost(ctx, "server.invalid.")
	if server == "" {
		return "", fmt.Errorf("finding a name server: %w", err)
	}
	return server, nil
}
