// Package load sends an even stream of username checks and registrations to a checker, for demonstrations, tests and
// benchmarks. The stream is open-loop: requests fall due by the clock, whether or not the earlier ones have been answered,
// as the users of a real service do not wait for each other. It is bounded in rate, concurrency and time, the same for the
// same seed, and goes to this machine only.
package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Profile describes a load. Shares are between 0 and 1.
type Profile struct {
	// Rate is the number of requests that fall due per second, evenly spaced; at most 100,000.
	Rate float64
	// Duration is how long requests fall due; at most an hour.
	Duration time.Duration
	// Workers is the most requests under way at once; 0 means 64, at most 4,096.
	Workers int
	// Timeout bounds a single request; 0 means 5 s.
	Timeout time.Duration

	// Names is how many existing names there are: Name(0) to Name(Names-1), which whoever prepares the checker registers;
	// at most 10 million.
	Names int
	// ZipfS is the skew among the existing names: Name(i) is asked for in proportion to 1/(i+1)^ZipfS. 0 is no skew.
	ZipfS float64
	// TakenShare is the share of checks about existing names. The others are about free names, each asked for once.
	TakenShare float64
	// RegisterShare is the share of requests that register a free name, each a new one.
	RegisterShare float64

	// HotName is the name that HotShare of all requests are about: checks, or registrations with HotRegister. The other
	// shares divide what is left.
	HotName     string
	HotShare    float64
	HotRegister bool

	// Addresses is from how many addresses of this machine the requests come, each from one of them at random; 0 means one,
	// at most 200. A system that has only one loopback address sends from that.
	Addresses int

	// Seed decides what is asked for and in which order. Different seeds use different free names.
	Seed int64
}

const (
	maxRate        = 100_000
	maxDuration    = time.Hour
	maxWorkers     = 4096
	maxNames       = 10_000_000
	maxAddresses   = 200
	defaultWorkers = 64
	defaultTimeout = 5 * time.Second
	// queueTime is for how long requests that are due may pile up before they are dropped.
	queueTime = 250 * time.Millisecond
)

// validate names everything that is wrong with the profile.
func (p Profile) validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(p.Rate > 0 && p.Rate <= maxRate, "rate %v is not within 0 to %d per second", p.Rate, maxRate)
	check(p.Duration > 0 && p.Duration <= maxDuration, "duration %v is not within 0 to %v", p.Duration, maxDuration)
	check(p.Workers >= 0 && p.Workers <= maxWorkers, "workers %d is not within 0 to %d", p.Workers, maxWorkers)
	check(p.Timeout >= 0, "timeout %v is negative", p.Timeout)
	check(p.Addresses >= 0 && p.Addresses <= maxAddresses, "addresses %d are not within 0 to %d", p.Addresses, maxAddresses)
	check(p.Names >= 0 && p.Names <= maxNames, "names %d is not within 0 to %d", p.Names, maxNames)
	check(p.ZipfS >= 0 && p.ZipfS <= 10, "skew %v is not within 0 to 10", p.ZipfS)
	for _, s := range []struct {
		what  string
		share float64
	}{{"taken", p.TakenShare}, {"register", p.RegisterShare}, {"hot", p.HotShare}} {
		check(s.share >= 0 && s.share <= 1, "%s share %v is not within 0 to 1", s.what, s.share)
	}
	check(p.TakenShare == 0 || p.Names > 0, "taken share %v needs existing names", p.TakenShare)
	check(p.HotShare == 0 || p.HotName != "", "hot share %v needs a hot name", p.HotShare)
	return errors.Join(errs...)
}

// ErrNobody says that nobody listens where a load was to go.
var ErrNobody = errors.New("nobody listens")

// Run sends the load to the checker at baseURL, such as http://127.0.0.1:8080, and returns when all of it is answered,
// timed out or dropped. When ctx ends first, Run stops at once and answers with what there is; that is not an error.
// Requests that the checker answers badly are not errors either, they are in the result. It is an error when the profile
// makes no sense, when baseURL is not on this machine, and, before anything is sent, when nobody listens there.
func Run(ctx context.Context, baseURL string, p Profile) (Result, error) {
	if err := p.validate(); err != nil {
		return Result{}, fmt.Errorf("load profile: %w", err)
	}
	base, err := loopback(ctx, baseURL)
	if err != nil {
		return Result{}, err
	}
	if err := knock(ctx, base); err != nil {
		return Result{}, err
	}
	p.Workers = cmp.Or(p.Workers, defaultWorkers)
	p.Timeout = cmp.Or(p.Timeout, defaultTimeout)
	clients := newClients(p)
	defer func() {
		for _, c := range clients {
			c.CloseIdleConnections()
		}
	}()

	// The queue lets a hiccup pass, be it the checker's or this process's own. It hides nothing: latency counts from when a
	// request was due.
	queue := make(chan request, p.Workers+int(p.Rate*queueTime.Seconds()))
	tallies := make([]tally, p.Workers)
	var workers sync.WaitGroup
	for i := range tallies {
		tallies[i] = newTally()
		s := sender{clients: clients, base: base, timeout: p.Timeout, tally: &tallies[i]}
		workers.Go(func() { s.serve(ctx, queue) })
	}
	start := time.Now()
	dropped := dispatch(ctx, start, newMix(p), queue)
	close(queue)
	workers.Wait()

	result := sum(tallies)
	result.Elapsed = time.Since(start)
	result.Dropped += dropped
	return result, nil
}

// dispatch puts each request into the queue when it is due, and counts those for which there is no room.
func dispatch(ctx context.Context, start time.Time, m *mix, queue chan<- request) (dropped uint64) {
	total := int(math.Ceil(m.profile.Rate * m.profile.Duration.Seconds()))
	interval := float64(time.Second) / m.profile.Rate
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i := range total {
		r := m.next()
		r.due = start.Add(time.Duration(float64(i) * interval))
		if wait := time.Until(r.due); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return dropped
			}
		} else if ctx.Err() != nil {
			return dropped
		}
		select {
		case queue <- r:
		default:
			dropped++
		}
	}
	return dropped
}

// loopback checks that the URL is that of a checker on this machine.
func loopback(ctx context.Context, baseURL string) (*url.URL, error) {
	u, err := url.Parse(baseURL)
	if err != nil || u.Scheme != "http" || u.Hostname() == "" {
		return nil, errors.New("load target is not a URL of the form http://host:port")
	}
	addrs, err := net.DefaultResolver.LookupIPAddr(ctx, u.Hostname())
	if err != nil {
		return nil, fmt.Errorf("load target: %w", err)
	}
	if slices.ContainsFunc(addrs, func(a net.IPAddr) bool { return !a.IP.IsLoopback() }) {
		return nil, fmt.Errorf("load target %s is not this machine: load goes to a loopback address only", u.Hostname())
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimSuffix(u.Path, "/")}, nil
}

// knock returns ErrNobody when a connection is refused. Whatever else is wrong there is for the result to say.
func knock(ctx context.Context, base *url.URL) error {
	address := net.JoinHostPort(base.Hostname(), cmp.Or(base.Port(), "80"))
	conn, err := newDialer(nil).DialContext(ctx, "tcp", address)
	switch {
	case err == nil:
		return conn.Close()
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w at %s", ErrNobody, address)
	}
	return nil
}
