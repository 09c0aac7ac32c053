package main

import "context"

// find returns a program that neither the shell nor its core utilities have, or nil if it does not exist. id shows names,
// because users have no numbers on Windows.
func find(name string) func(context.Context, call) error {
	return map[string]func(context.Context, call) error{
		"awk":      awk,
		"curl":     curl,
		"date":     date,
		"dig":      dig,
		"env":      env,
		"expr":     expr,
		"grep":     grep,
		"head":     head,
		"hexdump":  hexdump,
		"hostname": hostname,
		"id":       whoami,
		"mv":       mv,
		"nc":       nc,
		"nslookup": nslookup,
		"printenv": env,
		"seq":      seq,
		"sh":       shell,
		"sleep":    sleep,
		"sort":     sorted,
		"stat":     stat,
		"sync":     func(context.Context, call) error { return nil },
		"tail":     tail,
		"timeout":  timeout,
		"wc":       wc,
		"wget":     wget,
		"whoami":   whoami,
	}[name]
}
