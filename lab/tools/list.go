package main

import "context"

// find returns one of the programs that neither the shell nor its core utilities have; nil if there is no such program.
func find(name string) func(context.Context, call) error {
	switch name {
	case "sh":
		return shell
	case "awk":
		return awk
	case "curl":
		return curl
	case "date":
		return date
	case "dig":
		return dig
	case "env", "printenv":
		return env
	case "expr":
		return expr
	case "grep":
		return grep
	case "head":
		return head
	case "hexdump":
		return hexdump
	case "hostname":
		return hostname
	case "id":
		return id
	case "mv":
		return mv
	case "nc":
		return nc
	case "nslookup":
		return nslookup
	case "seq":
		return seq
	case "sleep":
		return sleep
	case "sort":
		return sorted
	case "stat":
		return stat
	case "sync":
		return func(context.Context, call) error { return nil }
	case "tail":
		return tail
	case "tee":
		return tee
	case "timeout":
		return timeout
	case "uname":
		return uname
	case "wc":
		return wc
	case "wget":
		return wget
	case "whoami":
		return whoami
	}
	return nil
}
