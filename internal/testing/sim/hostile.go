package sim

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim/lies"
	"github.com/windows-machine-config/wmco/internal/testing/sshserver"
)

// Attack is the behavior of a hostile host, such as one that an attacker controls. Whatever the host does, it costs the operator only
// one connection at a time.
type Attack string

// The kinds of attack.
const (
	// Flood answers every command with endless meaningless lines, as fast as they are read.
	Flood Attack = "Flood"
	// Results answers with endless results, each with other content.
	Results Attack = "Results"
	// Steps reports endless progress without making any.
	Steps Attack = "Steps"
	// LongLine answers with one endless line.
	LongLine Attack = "LongLine"
	// Values answers with one line of a mebibyte that takes a hundred times as much memory when it is decoded.
	Values Attack = "Values"
	// Folders has endless files in each folder, and no program, so that one must be sent.
	Folders Attack = "Folders"
	// Trickle answers one byte per second.
	Trickle Attack = "Trickle"
	// Silence accepts every command and never answers.
	Silence Attack = "Silence"
	// Greed requests all content repeatedly instead of storing it.
	Greed Attack = "Greed"
	// Thief behaves like WICD until it gets a token. It keeps the token, and fails.
	Thief Attack = "Thief"
	// Lies behaves like WICD until it is joined, answers with random lies, and fails.
	Lies Attack = "Lies"
)

// Attacks lists all kinds of attack.
func Attacks() []Attack {
	return []Attack{Flood, Results, Steps, LongLine, Values, Folders, Trickle, Silence, Greed, Thief, Lies}
}

// hostile is the behavior of a hostile host.
type hostile struct {
	honest sshserver.Handler
	attack Attack
	lies   func(*wicdapi.HostFacts)

	mu     sync.Mutex
	tokens []string
	calls  uint64
}

// exec implements sshserver.Handler.
func (h *hostile) exec(ctx context.Context, c sshserver.Command, stdin io.Reader, stdout, stderr io.Writer) int {
	_, arguments, _ := strings.Cut(c.Line, " ")
	verb, _, _ := strings.Cut(arguments, " ")
	out := &commandOutput{ctx, stdout}
	switch {
	case h.attack == Flood:
		return out.forever(bytes.Repeat([]byte("0123456789abcdef\n"), 4<<10))
	case h.attack == Results:
		return h.results(out)
	case h.attack == Steps:
		return out.forever(bytes.Repeat([]byte(`{"step":{"name":"starting service kubelet"}}`+"\n"), 1<<10))
	case h.attack == LongLine:
		return out.forever(bytes.Repeat([]byte(`{"result":`), 8<<10))
	case h.attack == Values:
		_, _ = io.WriteString(out, `{"result":{"host":{"interfaces":[`+strings.TrimSuffix(strings.Repeat(`{},`, 1<<20/3), ",")+"]}}}\n")
		return 0
	case h.attack == Folders:
		fmt.Fprintln(stderr, "not recognized")
		return 1
	case h.attack == Trickle:
		return out.trickle()
	case h.attack == Silence:
		<-ctx.Done()
		return 1
	case h.attack == Lies:
		return h.lie(ctx, c, verb, stdin, stdout, stderr)
	case h.attack == Greed && verb == wicdapi.CommandReceive:
		return h.greed(stdin, stdout)
	case verb == wicdapi.CommandFacts:
		return h.facts(ctx, c, stdin, stdout, stderr)
	case verb == wicdapi.CommandJoin && h.attack == Thief:
		return h.keep(stdin, stdout)
	}
	return h.honest(ctx, c, stdin, stdout, stderr)
}

// results answers with facts that have different names each time: the memory of a client that merges them would grow.
func (h *hostile) results(out *commandOutput) int {
	for n := 0; ; n++ {
		var line bytes.Buffer
		line.WriteString(`{"result":{"features":{`)
		for i := range 10_000 {
			fmt.Fprintf(&line, `"feature-%d-%d":"Enabled",`, n, i)
		}
		line.WriteString(`"last":"Enabled"}}}` + "\n")
		if _, err := out.Write(line.Bytes()); err != nil {
			return 1
		}
	}
}

// greed reads the offer and requests all of it, repeatedly.
func (h *hostile) greed(stdin io.Reader, stdout io.Writer) int {
	first, err := bufio.NewReader(stdin).ReadBytes('\n')
	var request wicdapi.ReceiveRequest
	if err != nil || json.Unmarshal(first, &request) != nil {
		return 1
	}
	go func() { _, _ = io.Copy(io.Discard, stdin) }()
	var missing []wicdapi.Missing
	for range 100 {
		for _, c := range request.Content {
			missing = append(missing, wicdapi.Missing{SHA256: c.SHA256})
		}
	}
	line, err := json.Marshal(map[string]any{"missing": missing})
	if err != nil {
		return 1
	}
	for {
		if _, err := stdout.Write(append(line, '\n')); err != nil {
			return 1
		}
	}
}

// facts returns WICD's facts with lies.
func (h *hostile) facts(ctx context.Context, c sshserver.Command, stdin io.Reader, stdout, stderr io.Writer) int {
	var answer bytes.Buffer
	code := h.honest(ctx, c, stdin, &answer, stderr)
	var last struct {
		Result *wicdapi.Facts `json:"result"`
	}
	lines := bytes.Split(bytes.TrimSpace(answer.Bytes()), []byte("\n"))
	if json.Unmarshal(lines[len(lines)-1], &last) != nil || last.Result == nil || h.lies == nil {
		_, _ = stdout.Write(answer.Bytes())
		return code
	}
	h.lies(&last.Result.Host)
	return wicdapi.NewSession(strings.NewReader(""), stdout).End(last.Result, nil)
}

// lieChance is the share of lines that are lies: if all were, a host would fail too early.
const lieChance = 0.2

// lie answers what WICD answers, with lies that differ from one command to the next.
func (h *hostile) lie(ctx context.Context, c sshserver.Command, verb string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	h.mu.Lock()
	h.calls++
	liar := lies.New(h.calls, wicdapi.Answers()...)
	h.mu.Unlock()
	out := liar.Writer(stdout, lieChance)
	if verb == wicdapi.CommandJoin {
		code = h.fail(stdin, out)
	} else {
		code = h.honest(ctx, c, stdin, out, stderr)
	}
	_ = out.Close() // the client may have stopped reading
	return code
}

// fail reads the data of a join, and fails.
func (h *hostile) fail(stdin io.Reader, stdout io.Writer) int {
	s := wicdapi.NewSession(stdin, stdout)
	if err := s.Request(&wicdapi.JoinRequest{}); err != nil {
		return s.End(nil, err)
	}
	return s.End(nil, &wicdapi.Error{Code: wicdapi.CodeServiceFailed, Message: "service kubelet does not start"})
}

// keep stores the data of a join, and fails.
func (h *hostile) keep(stdin io.Reader, stdout io.Writer) int {
	s := wicdapi.NewSession(stdin, stdout)
	var request wicdapi.JoinRequest
	if err := s.Request(&request); err != nil {
		return s.End(nil, err)
	}
	h.mu.Lock()
	h.tokens = append(h.tokens, request.Bootstrap.Token)
	h.mu.Unlock()
	return s.End(nil, &wicdapi.Error{Code: wicdapi.CodeServiceFailed, Message: strings.Repeat("service kubelet does not start. ", 1<<15)})
}

// commandOutput is the output of a command while the command runs.
type commandOutput struct {
	ctx context.Context
	io.Writer
}

// Write implements io.Writer.
func (o *commandOutput) Write(p []byte) (int, error) {
	if o.ctx.Err() != nil {
		return 0, o.ctx.Err()
	}
	return o.Writer.Write(p)
}

func (o *commandOutput) forever(what []byte) int {
	for {
		if _, err := o.Write(what); err != nil {
			return 1
		}
	}
}

func (o *commandOutput) trickle() int {
	for {
		_, err := o.Write([]byte("{"))
		if err != nil || backoff.Sleep(o.ctx, time.Second) != nil {
			return 1
		}
	}
}

// Tokens are the bootstrap tokens that a Thief got.
func (h *Host) Tokens() []string {
	if h.hostile == nil {
		return nil
	}
	h.hostile.mu.Lock()
	defer h.hostile.mu.Unlock()
	return append([]string(nil), h.hostile.tokens...)
}
