package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
)

// nslookup is "nslookup name [server]".
func nslookup(ctx context.Context, c call) error {
	if len(c.args) < 2 {
		return errors.New("the name is missing")
	}
	found, err := resolver(c.args[2:]).LookupHost(ctx, c.args[1])
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "Name:\t%s\n", c.args[1])
	for _, address := range found {
		fmt.Fprintf(c.out, "Address: %s\n", address)
	}
	return nil
}

// resolver asks a server, or those of the system.
func resolver(server []string) *net.Resolver {
	if len(server) == 0 {
		return net.DefaultResolver
	}
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(server[0], "53"))
	}}
}

// dig is "dig [@server] [+short] [+search] [-x] name [A|PTR|CNAME]", in its short form.
func dig(ctx context.Context, c call) error {
	var server, words []string
	kind := "A"
	for _, arg := range c.args[1:] {
		switch {
		case strings.HasPrefix(arg, "@"):
			server = []string{arg[1:]}
		case arg == "-x":
			kind = "PTR"
		case arg == "A" || arg == "AAAA" || arg == "CNAME" || arg == "PTR" || arg == "SRV":
			kind = arg
		case strings.HasPrefix(arg, "+"):
		default:
			words = append(words, arg)
		}
	}
	if len(words) != 1 {
		return fmt.Errorf("want one name, not %q", words)
	}
	found, err := lookUp(ctx, resolver(server), kind, words[0])
	for _, answer := range found {
		fmt.Fprintln(c.out, answer)
	}
	var unknown *net.DNSError
	if errors.As(err, &unknown) && unknown.IsNotFound {
		return nil // as dig does
	}
	return err
}

func lookUp(ctx context.Context, r *net.Resolver, kind, name string) ([]string, error) {
	switch kind {
	case "PTR":
		return r.LookupAddr(ctx, strings.TrimSuffix(name, "."))
	case "CNAME":
		to, err := r.LookupCNAME(ctx, name)
		return []string{to}, err
	case "SRV":
		_, records, err := r.LookupSRV(ctx, "", "", name)
		var lines []string
		for _, s := range records {
			lines = append(lines, fmt.Sprintf("%d %d %d %s", s.Priority, s.Weight, s.Port, s.Target))
		}
		return lines, err
	}
	network := map[string]string{"A": "ip4", "AAAA": "ip6"}[kind]
	addresses, err := r.LookupIP(ctx, network, name)
	var lines []string
	for _, a := range addresses {
		lines = append(lines, a.String())
	}
	return lines, err
}
