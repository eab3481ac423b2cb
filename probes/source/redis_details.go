package source

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/regpath/diagnose/probes"
)

// SlowLogLength is how many entries of the slow log are read.
const SlowLogLength = 32

// Details are what a server tells about single commands, stalls and
// connections. A server may refuse each of them by itself.
type Details struct {
	// Slow are the newest entries of the slow log, SlowLogLength at most.
	Slow    []SlowCommand
	SlowErr error
	// Stalls are what the latency monitor has recorded; none while it is off.
	Stalls    []Stall
	StallsErr error
	// Clients are the normal connections, where asked for.
	Clients    []Client
	ClientsErr error
}

// SlowCommand is an entry of the slow log. Of the command only the name is
// kept: its arguments are names of users.
type SlowCommand struct {
	At      time.Time
	Took    time.Duration
	Command string // lower case; "?" where it is no name of a command
}

// Stall is the latest event of one kind in the latency monitor.
type Stall struct {
	Event string
	At    time.Time
	Took  time.Duration
}

// Client is a connection of the server.
type Client struct {
	Host    string
	Name    string
	Idle    time.Duration // in whole seconds
	Blocked bool          // in a blocking command
}

// Details asks for the slow log, the latency monitor and, if clients is set,
// the connections, in one trip. An error says that there was no answer at all.
func (r *Redis) Details(ctx context.Context, cost *probes.Cost, clients bool) (Details, error) {
	n := 2
	if clients {
		n = 3
	}
	var slow, stalls, list *redis.Cmd
	err := r.do(ctx, cost, call{name: "details", commands: n, run: func(ctx context.Context, conn *redis.Conn) error {
		answers, err := conn.Pipelined(ctx, func(p redis.Pipeliner) error {
			slow = p.Do(ctx, "slowlog", "get", SlowLogLength)
			stalls = p.Do(ctx, "latency", "latest")
			if clients {
				list = p.Do(ctx, "client", "list", "type", "normal")
			}
			return nil
		})
		for _, a := range answers {
			// What one command is refused says nothing of the others.
			if _, refused := errors.AsType[redis.Error](a.Err()); a.Err() != nil && !refused {
				return a.Err()
			}
		}
		if len(answers) < n {
			return err
		}
		return nil
	}})
	if err != nil {
		return Details{}, err
	}
	var d Details
	d.Slow, d.SlowErr = parsed(slow, parseSlowLog)
	d.Stalls, d.StallsErr = parsed(stalls, parseStalls)
	if clients {
		d.Clients, d.ClientsErr = parsed(list, parseClients)
	}
	return d, nil
}

// parsed reads the answer to one command, or says why there is none.
func parsed[T any](c *redis.Cmd, parse func(any) ([]T, error)) ([]T, error) {
	if err := c.Err(); err != nil {
		return nil, refused(commandName(c.Name()), err)
	}
	return parse(c.Val())
}

// refused says why a server does not answer a command. ERR is what it says to one
// that it does not know, or not in this form.
func refused(command string, err error) error {
	switch prefix, _, _ := strings.Cut(err.Error(), " "); prefix {
	case "ERR":
		return fail(ErrNotOffered, command+": this server does not offer it")
	case "NOPERM":
		return fail(ErrNotOffered, command+": the agent's user may not do that")
	default:
		return fail(ErrDenied, command+": the server answers "+prefix)
	}
}

func unlike(what string) error { return fail(ErrAnswered, what+": the answer has another form") }

// parseSlowLog reads entries of id, time in seconds, microseconds, arguments
// and, since Redis 4, more.
func parseSlowLog(answer any) ([]SlowCommand, error) {
	entries, ok := answer.([]any)
	if !ok {
		return nil, unlike("slowlog")
	}
	var out []SlowCommand
	for _, e := range entries[:min(len(entries), SlowLogLength)] {
		fields, ok := e.([]any)
		if !ok || len(fields) < 4 {
			return nil, unlike("slowlog")
		}
		at, ok1 := fields[1].(int64)
		took, ok2 := fields[2].(int64)
		arguments, ok3 := fields[3].([]any)
		if !ok1 || !ok2 || !ok3 || took < 0 {
			return nil, unlike("slowlog")
		}
		name := ""
		if len(arguments) > 0 {
			name, _ = arguments[0].(string)
		}
		out = append(out, SlowCommand{At: time.Unix(at, 0), Took: time.Duration(took) * time.Microsecond, Command: commandName(name)})
	}
	return out, nil
}

// parseStalls reads entries of event, time in seconds, milliseconds of the
// latest and of the longest.
func parseStalls(answer any) ([]Stall, error) {
	entries, ok := answer.([]any)
	if !ok {
		return nil, unlike("latency")
	}
	var out []Stall
	for _, e := range entries {
		fields, ok := e.([]any)
		if !ok || len(fields) < 3 {
			return nil, unlike("latency")
		}
		event, ok1 := fields[0].(string)
		at, ok2 := fields[1].(int64)
		took, ok3 := fields[2].(int64)
		if !ok1 || !ok2 || !ok3 || took < 0 {
			return nil, unlike("latency")
		}
		out = append(out, Stall{Event: commandName(event), At: time.Unix(at, 0), Took: time.Duration(took) * time.Millisecond})
	}
	return out, nil
}

// parseClients reads lines of key=value.
func parseClients(answer any) ([]Client, error) {
	text, ok := answer.(string)
	if !ok {
		return nil, unlike("client list")
	}
	var out []Client
	for line := range strings.Lines(text) {
		var c Client
		for field := range strings.FieldsSeq(line) {
			key, value, _ := strings.Cut(field, "=")
			switch key {
			case "addr":
				c.Host = value
				if i := strings.LastIndexByte(value, ':'); i >= 0 {
					c.Host = value[:i]
				}
			case "name":
				c.Name = value
			case "idle":
				seconds, err := strconv.ParseUint(value, 10, 31)
				if err != nil {
					return nil, unlike("client list")
				}
				c.Idle = time.Duration(seconds) * time.Second
			case "flags":
				c.Blocked = strings.ContainsRune(value, 'b')
			}
		}
		if c.Host != "" {
			out = append(out, c)
		}
	}
	return out, nil
}

// commandName returns the name of a command or an event in lower case, "?" for
// anything that is none.
func commandName(s string) string {
	s = strings.ToLower(s)
	if s == "" || len(s) > 32 || slices.ContainsFunc([]byte(s), func(b byte) bool {
		return (b < 'a' || b > 'z') && (b < '0' || b > '9') && b != '.' && b != '_' && b != '-' && b != '|'
	}) {
		return "?"
	}
	return s
}
