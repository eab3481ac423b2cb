package local_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/regpath/diagnose/reference/fault"
	"github.com/regpath/diagnose/reference/local"
)

// wire is the part of the diagnostic contract that the faults show in, as a client reads it.
type wire struct {
	Bloom struct {
		M, K, Capacity, Generation, Registrations uint64
		SetBits                                   uint64            `json:"set_bits"`
		AddsBySource                              map[string]uint64 `json:"adds_by_source"`
	}
	Redis struct {
		Address  string
		Pool     wirePool
		Commands uint64
		Errors   uint64
		Misses   uint64
		Hits     map[string]uint64
	}
	Shards struct {
		Shards []struct {
			Requests, Errors uint64
			Pool             wirePool
			TopKeys          struct {
				Keys []struct {
					Key          string
					Count, Error uint64
				}
			} `json:"top_keys"`
		}
	}
	Errors struct {
		Recorded uint64
		Errors   []wireError
	}
	Changes struct {
		Changes []struct{ Kind, What, From, To string }
	}
}

type wireError struct{ Message, Layer, Target, Code string }

type wirePool struct {
	Size, Idle, Pending uint64
	InUse               uint64 `json:"in_use"`
	Acquires, Timeouts  uint64
}

// patient is a path under load with its numbers.
type patient struct {
	*testing.T
	*local.Path

	client http.Client
}

// call sends a request, wants the status, and decodes the answer into v.
func (p *patient) call(method, path, body string, want int, v any) {
	p.Helper()
	b := p.send(method, path, body, want)
	if v != nil {
		if err := json.Unmarshal(b, v); err != nil {
			p.Fatal(err)
		}
	}
}

// text gets what is not JSON.
func (p *patient) text(path string) string {
	p.Helper()
	return string(p.send(http.MethodGet, path, "", http.StatusOK))
}

func (p *patient) send(method, path, body string, want int) []byte {
	p.Helper()
	req, err := http.NewRequestWithContext(p.Context(), method, p.URL+path, strings.NewReader(body))
	if err != nil {
		p.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := p.client.Do(req)
	if err != nil {
		p.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // it was only read
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != want {
		p.Fatalf("%s %s = %d %s, %v, want %d", method, path, res.StatusCode, b, err, want)
	}
	return b
}

func (p *patient) read() wire {
	p.Helper()
	var w wire
	for path, into := range map[string]any{"bloom": &w.Bloom, "redis": &w.Redis, "shards": &w.Shards, "errors": &w.Errors, "changes": &w.Changes} {
		p.call(http.MethodGet, "/debug/diagnose/"+path, "", http.StatusOK, into)
	}
	return w
}

// fault switches a fault over HTTP, twice, for it is idempotent.
func (p *patient) fault(method, name string) {
	p.Helper()
	for range 2 {
		var s fault.State
		p.call(method, "/debug/fault/"+name, "", http.StatusOK, &s)
		if s.Name != name || s.On != (method == http.MethodPost) || s.Help == "" {
			p.Errorf("%s %s = %+v", method, name, s)
		}
	}
}

// eventually polls the numbers until they show what is expected.
func (p *patient) eventually(what string, shows func(wire) bool) wire {
	p.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(time.Minute)
	for {
		w := p.read()
		if shows(w) {
			return w
		}
		if time.Now().After(deadline) {
			w.Errors.Errors = w.Errors.Errors[max(0, len(w.Errors.Errors)-5):]
			p.Fatalf("never seen: %s; last, with the latest errors: %+v", what, w)
		}
		<-tick.C
	}
}

// falsePositives is the share of fresh canaries that the filter may hold.
func (p *patient) falsePositives() float64 {
	p.Helper()
	const n = 2000
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("zz0canary%d", i)
	}
	body, err := json.Marshal(map[string][]string{"names": names})
	if err != nil {
		p.Fatal(err)
	}
	var doc struct{ Maybe []int }
	p.call(http.MethodPost, "/debug/diagnose/bloom/test", string(body), http.StatusOK, &doc)
	return float64(len(doc.Maybe)) / n
}

// tells says whether such an error was recorded. Others may be among them: a machine that stalls for a second times out.
func (w wire) tells(such func(wireError) bool) bool {
	return slices.ContainsFunc(w.Errors.Errors, such)
}

// count counts such errors.
func (w wire) count(such func(wireError) bool) (n int) {
	for _, e := range w.Errors.Errors {
		if such(e) {
			n++
		}
	}
	return n
}

// registers registers the name until the answer is the one wanted. An attempt whose outcome stayed open may have won: the
// next one is told "taken".
func (p *patient) registers(name string, want int) {
	p.Helper()
	open := false
	p.eventually(fmt.Sprintf("registration of %s answered with %d", name, want), func(wire) bool {
		got := p.register(name)
		won := want == http.StatusCreated && open && got == http.StatusConflict
		open = open || got == http.StatusServiceUnavailable
		return got == want || won
	})
}

// register tries to register a name and returns the status.
func (p *patient) register(name string) int {
	p.Helper()
	req, err := http.NewRequestWithContext(p.Context(), http.MethodPost, p.URL+"/v1/register", strings.NewReader(`{"name":"`+name+`"}`))
	if err != nil {
		p.Fatal(err)
	}
	res, err := p.client.Do(req)
	if err != nil {
		p.Fatal(err)
	}
	if err := res.Body.Close(); err != nil {
		p.Fatal(err)
	}
	return res.StatusCode
}

// changed returns the last recorded change of what, from and to.
func (w wire) changed(what string) string {
	for _, c := range slices.Backward(w.Changes.Changes) {
		if c.What == what {
			return c.Kind + " " + c.From + " to " + c.To
		}
	}
	return "unchanged"
}
