package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// stub is a checker that keeps what it was asked.
type stub struct {
	mu       sync.Mutex
	asked    map[string]int // by name
	checks   int
	registry int
	conns    map[string]bool // remote addresses
	answer   func(n int, w http.ResponseWriter, r *http.Request)
}

func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	s.mu.Lock()
	switch r.Method + " " + r.URL.Path {
	case "GET /v1/check":
		s.checks++
	case "POST /v1/register":
		s.registry++
		var body struct{ Name string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			panic(err)
		}
		name = body.Name
	default:
		panic(r.Method + " " + r.URL.Path)
	}
	s.asked[name]++
	s.conns[r.RemoteAddr] = true
	n := s.checks + s.registry
	s.mu.Unlock()
	if s.answer != nil {
		s.answer(n, w, r)
		return
	}
	_, _ = io.WriteString(w, `{"available":true}`)
}

func startStub(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) (*stub, string) {
	t.Helper()
	s := &stub{asked: map[string]int{}, conns: map[string]bool{}, answer: answer}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, server.URL
}

func mustRun(t *testing.T, url string, p Profile) Result {
	t.Helper()
	result, err := Run(t.Context(), url, p)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func total(counts map[int]uint64) (n uint64) {
	for _, c := range counts {
		n += c
	}
	return n
}

func TestRun(t *testing.T) {
	t.Parallel()
	s, url := startStub(t, nil)
	p := Profile{
		Rate: 500, Duration: 2 * time.Second, Workers: 8, Names: 100, ZipfS: 1.1,
		TakenShare: 0.5, RegisterShare: 0.1, HotName: `lo"ve & é`, HotShare: 0.2, Seed: 7,
	}
	r := mustRun(t, url+"/", p)
	if r.Sent+r.Dropped != 1000 || len(r.Errors) != 0 || total(r.Check)+total(r.Register) != r.Sent {
		t.Fatalf("of 1000 requests: %+v", r)
	}
	if r.Check[200] != uint64(s.checks) || r.Register[200] != uint64(s.registry) {
		t.Errorf("counted %v and %v, the checker saw %d and %d", r.Check, r.Register, s.checks, s.registry)
	}
	if s.asked[p.HotName] == 0 {
		t.Errorf("the hot name %q never arrived: %v", p.HotName, s.asked)
	}
	if r.Elapsed < 1990*time.Millisecond {
		t.Errorf("1000 requests at 500 per second took %v", r.Elapsed)
	}
	if len(s.conns) > p.Workers {
		t.Errorf("%d connections for %d workers: they are not kept open", len(s.conns), p.Workers)
	}
	l := r.Latency
	if l.P50 <= 0 || l.P50 > l.P90 || l.P90 > l.P99 || l.P99 > l.P999 || l.P999 > l.Max {
		t.Errorf("percentiles are not in order: %+v", l)
	}
}

// TestLatencyCountsFromWhenARequestWasDue stalls the first answer for the only worker. The second request is answered at
// once when it is sent, but it was due long before.
func TestLatencyCountsFromWhenARequestWasDue(t *testing.T) {
	t.Parallel()
	const stall = 600 * time.Millisecond
	_, url := startStub(t, func(n int, _ http.ResponseWriter, r *http.Request) {
		if n == 1 {
			select {
			case <-time.After(stall):
			case <-r.Context().Done():
			}
		}
	})
	r := mustRun(t, url, Profile{Rate: 4, Duration: 500 * time.Millisecond, Workers: 1})
	if r.Sent != 2 || r.Latency.P50 < stall-250*time.Millisecond {
		t.Errorf("the request that was due 350 ms before the stall ended took %v: %+v", r.Latency.P50, r)
	}

	// One worker and a queue of a quarter of a second: of the 60 requests that are due in the stall, 26 wait, the others are
	// dropped.
	_, url = startStub(t, func(n int, _ http.ResponseWriter, r *http.Request) {
		if n == 1 {
			select {
			case <-time.After(stall):
			case <-r.Context().Done():
			}
		}
	})
	r = mustRun(t, url, Profile{Rate: 100, Duration: time.Second, Workers: 1})
	if r.Dropped < 25 || r.Sent+r.Dropped != 100 {
		t.Errorf("a stall of 600 ms dropped %d of %d, want about 33 of 100", r.Dropped, r.Sent+r.Dropped)
	}
	if r.Latency.Max < stall-20*time.Millisecond {
		t.Errorf("the longest latency is %v, the stall took %v", r.Latency.Max, stall)
	}
}

func TestBadAnswers(t *testing.T) {
	t.Parallel()
	f := func(want string, timeout time.Duration, answer http.HandlerFunc) {
		t.Helper()
		_, url := startStub(t, func(_ int, w http.ResponseWriter, r *http.Request) { answer(w, r) })
		r := mustRun(t, url, Profile{Rate: 100, Duration: 100 * time.Millisecond, Timeout: timeout})
		if got := fmt.Sprint(r.Sent, r.Check, r.Errors); got != want {
			t.Errorf("10 requests came to %s, want %s", got, want)
		}
	}
	f("10 map[503:10] map[]", time.Minute, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	f("10 map[302:10] map[]", time.Minute, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound) // must not be followed
	})
	f("10 map[] map[reset:10]", time.Minute, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	f("10 map[] map[reset:10]", time.Minute, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "cut short")
	})
	f("10 map[] map[timeout:10]", 100*time.Millisecond, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })

	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	started := time.Now()
	r, err := Run(t.Context(), server.URL, Profile{Rate: 100, Duration: time.Minute})
	if !errors.Is(err, ErrNobody) || !strings.Contains(err.Error(), strings.TrimPrefix(server.URL, "http://")) || r.Sent > 0 {
		t.Errorf("nobody listens: got %v and %+v, want ErrNobody with the address", err, r)
	}
	if took := time.Since(started); took > 10*time.Second {
		t.Errorf("nobody listens: it took %v to say so", took)
	}
}

// TestRunEndsWithTheContext cuts a run off in the middle. What was under way is not held against the checker.
func TestRunEndsWithTheContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, url := startStub(t, func(n int, _ http.ResponseWriter, r *http.Request) {
		if n > 20 {
			cancel()
			<-r.Context().Done()
		}
	})
	r, err := Run(ctx, url, Profile{Rate: 200, Duration: time.Hour})
	if err != nil || r.Sent == 0 || r.Sent > 20 || len(r.Errors) != 0 || r.Dropped == 0 || r.Elapsed > time.Minute {
		t.Errorf("a run that was cut off after 20 requests: %+v, %v", r, err)
	}
}

func TestRunRefusesOtherMachines(t *testing.T) {
	t.Parallel()
	f := func(url, want string) {
		t.Helper()
		_, err := Run(t.Context(), url, Profile{Rate: 1, Duration: time.Millisecond})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Run(%q) = %v, want an error with %q", url, err, want)
		}
	}
	f("http://192.0.2.1:8080", "is not this machine")
	f("http://[2001:db8::1]/", "is not this machine")
	f("http://0.0.0.0:8080", "is not this machine")
	f("http://127.0.0.1.invalid:80", "load target")
	f("https://127.0.0.1", "not a URL")
	f("127.0.0.1:8080", "not a URL")
	f("http://", "not a URL")
	f("://", "not a URL")
	f("http://user:hunter2@192.0.2.1", "192.0.2.1 is not this machine")

	// A name that pointed here when it was checked and points elsewhere now.
	response, err := newClient(1, nil).Do(mustRequest(t, "http://192.0.2.1/"))
	if err == nil {
		_ = response.Body.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "not a loopback address") {
		t.Errorf("the client connects elsewhere: %v", err)
	}
	_, url := startStub(t, nil)
	url = strings.Replace(url, "127.0.0.1", "localhost", 1)
	if r := mustRun(t, url, Profile{Rate: 10, Duration: 100 * time.Millisecond}); r.Check[200] != 1 {
		t.Errorf("Run(%s) = %+v", url, r)
	}
}

func mustRequest(t *testing.T, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestProfileIsChecked(t *testing.T) {
	t.Parallel()
	f := func(want string, change func(*Profile)) {
		t.Helper()
		p := Profile{Rate: 100, Duration: time.Second}
		change(&p)
		_, err := Run(t.Context(), "http://127.0.0.1:1", p)
		if got := fmt.Sprint(err); !strings.Contains(got, want) || !strings.HasPrefix(got, "load profile: ") {
			t.Errorf("Run(%+v) = %s, want %q", p, got, want)
		}
	}
	f("rate 0", func(p *Profile) { p.Rate = 0 })
	f("rate -1", func(p *Profile) { p.Rate = -1 })
	f("rate NaN", func(p *Profile) { p.Rate = math.NaN() })
	f("rate +Inf", func(p *Profile) { p.Rate = math.Inf(1) })
	f("rate 100001", func(p *Profile) { p.Rate = 100_001 })
	f("duration 0s", func(p *Profile) { p.Duration = 0 })
	f("duration 2h", func(p *Profile) { p.Duration = 2 * time.Hour })
	f("workers 5000", func(p *Profile) { p.Workers = 5000 })
	f("timeout -1s", func(p *Profile) { p.Timeout = -time.Second })
	f("names -1", func(p *Profile) { p.Names = -1 })
	f("skew NaN", func(p *Profile) { p.ZipfS = math.NaN() })
	f("hot share 1.1", func(p *Profile) { p.HotShare = 1.1 })
	f("hot share 0.5 needs a hot name", func(p *Profile) { p.HotShare = 0.5 })
	f("taken share 0.5 needs existing names", func(p *Profile) { p.TakenShare = 0.5 })
	f("register share NaN", func(p *Profile) { p.RegisterShare = math.NaN() })
	f("register share -1 is not within 0 to 1\nhot share 2", func(p *Profile) { p.RegisterShare, p.HotShare, p.HotName = -1, 2, "x" })
}

// requests are the first n requests of a profile.
func requests(p Profile, n int) []request {
	m := newMix(p)
	all := make([]request, n)
	for i := range all {
		all[i] = m.next()
	}
	return all
}

func TestMixIsTheSameForASeed(t *testing.T) {
	t.Parallel()
	p := Profile{Names: 50, ZipfS: 1, TakenShare: 0.5, RegisterShare: 0.2, HotName: "love", HotShare: 0.1, Seed: 1}
	first := requests(p, 1000)
	if !slices.Equal(first, requests(p, 1000)) {
		t.Error("the same seed asks for other things")
	}
	p.Seed = 2
	if slices.Equal(first, requests(p, 1000)) {
		t.Error("another seed asks for the same things")
	}
}

func TestMixShares(t *testing.T) {
	t.Parallel()
	const n = 100_000
	near := func(what string, got int, of int, want float64) {
		t.Helper()
		share := float64(got) / float64(of)
		if math.Abs(share-want) > 5*math.Sqrt(want*(1-want)/float64(of)) { // five standard errors
			t.Errorf("%s: share %.4f of %d, want %.4f", what, share, of, want)
		}
	}
	p := Profile{Names: 1000, ZipfS: 1.2, TakenShare: 0.6, RegisterShare: 0.05, HotName: "love", HotShare: 0.3}
	taken := map[string]int{}
	for i := range p.Names {
		taken[Name(i)] = 0
	}
	hot, registrations, checks, takenChecks, free := 0, 0, 0, 0, map[string]bool{}
	for _, r := range requests(p, n) {
		_, exists := taken[r.name]
		switch {
		case r.name == "love":
			hot++
			if r.register {
				t.Fatal("the hot name is registered without HotRegister")
			}
			continue
		case r.register:
			registrations++
		default:
			checks++
		}
		switch {
		case exists && r.register:
			t.Fatalf("%s exists and is registered", r.name)
		case exists:
			takenChecks++
			taken[r.name]++
		case free[r.name]:
			t.Fatalf("the free name %s is used twice", r.name)
		default:
			free[r.name] = true
		}
	}
	near("hot", hot, n, 0.3)
	near("registrations", registrations, n-hot, 0.05)
	near("taken", takenChecks, checks, 0.6)
	weights := 0.0
	for i := range p.Names {
		weights += math.Pow(float64(i+1), -p.ZipfS)
	}
	for _, i := range []int{0, 1, 9} {
		near(Name(i), taken[Name(i)], takenChecks, math.Pow(float64(i+1), -p.ZipfS)/weights)
	}

	evenly := map[string]int{}
	for _, r := range requests(Profile{Names: 3, TakenShare: 1}, n) {
		evenly[r.name]++
	}
	for i := range 3 {
		near("without skew", evenly[Name(i)], n, 1.0/3)
	}

	for _, r := range requests(Profile{HotName: "love", HotShare: 1, HotRegister: true}, 100) {
		if r.name != "love" || !r.register {
			t.Fatalf("with HotRegister and all the load on it: %+v", r)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	check := func(name string) {
		if seen[name] {
			t.Fatalf("%s comes twice", name)
		}
		seen[name] = true
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" || len(name) < 3 || len(name) > 16 {
			t.Fatalf("%q is not canonical, or too short or long", name)
		}
	}
	for i := range 100_000 {
		check(Name(i))
	}
	for seed := range int64(3) {
		m := newMix(Profile{Seed: seed})
		punctuated := 0
		for range 50_000 {
			name := m.freeName()
			check(name)
			if strings.Contains(name, "_") {
				punctuated++
			}
		}
		if punctuated != 12_500 {
			t.Errorf("seed %d: %d of 50,000 free names have punctuation, want one in four", seed, punctuated)
		}
	}
}

func TestHistogram(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	var h, a, b histogram
	var exact []time.Duration
	for i := range 20_000 {
		d := time.Duration(math.Exp(random.Float64() * 30)) // 1 ns to 3 h
		exact = append(exact, d)
		h.record(d)
		[]*histogram{&a, &b}[i%2].record(d)
	}
	slices.Sort(exact)
	for _, q := range []float64{0.0001, 0.5, 0.9, 0.99, 0.999, 1} {
		want := exact[max(0, int(math.Ceil(q*float64(len(exact))))-1)]
		if got := h.quantile(q); got < want || float64(got) > float64(want)*(1+1.0/32) {
			t.Errorf("quantile %v is %v, want %v or at most 1/32 more", q, got, want)
		}
	}
	a.merge(&b)
	if a != h {
		t.Error("two halves merged differ from the whole")
	}
	if got := (&histogram{}).quantile(0.5); got != 0 {
		t.Errorf("the median of nothing is %v", got)
	}
	h = histogram{}
	h.record(-time.Second)
	h.record(math.MaxInt64)
	if h.quantile(0.5) != 0 || h.quantile(1) != math.MaxInt64 {
		t.Errorf("the extremes come out as %v and %v", h.quantile(0.5), h.quantile(1))
	}
}

func FuzzHistogramBucket(f *testing.F) {
	for _, n := range []uint64{0, 1, 63, 64, 65, 127, 128, 1 << 20, math.MaxInt64} {
		f.Add(n)
	}
	f.Fuzz(func(t *testing.T, n uint64) {
		n &= math.MaxInt64
		i := bucket(n)
		if up := upper(i); up < n || up-n > n/32 {
			t.Errorf("%d falls into bucket %d, whose upper end is %d", n, i, up)
		}
		if i > 0 && upper(i-1) >= n {
			t.Errorf("%d falls into bucket %d, but the one before ends at %d", n, i, upper(i-1))
		}
	})
}

func TestReason(t *testing.T) {
	t.Parallel()
	if got := reason(errors.New("anything")); got != "other" {
		t.Errorf("reason of an unknown error is %q, want other", got)
	}
	if got := reason(fmt.Errorf("wrapped: %w", context.DeadlineExceeded)); got != "timeout" {
		t.Errorf("reason of a deadline is %q, want timeout", got)
	}
	if got := reason(fmt.Errorf("wrapped: %w", syscall.ECONNREFUSED)); got != "refused" {
		t.Errorf("reason of a refused connection is %q, want refused", got)
	}
}

func BenchmarkMix(b *testing.B) {
	m := newMix(Profile{Names: 100_000, ZipfS: 1.1, TakenShare: 0.5, RegisterShare: 0.01, HotName: "love", HotShare: 0.1})
	for b.Loop() {
		m.next()
	}
}
