package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/regpath/diagnose/reference/load"
	"github.com/regpath/diagnose/reference/local"
)

// bench measures the reference path against bare peers: the same wire, the same
// driver, nothing else. Peer and path take turns within one run on one machine,
// so that ratios mean something where the figures do not.
type bench struct {
	rounds   int
	duration time.Duration
	names    int
	profile  string
	only     string
}

func newBench() *cobra.Command {
	b := bench{}
	cmd := suite("bench", "Measure the reference path against bare peers, as ratios", b.run)
	fs := cmd.Flags()
	fs.IntVar(&b.rounds, "rounds", 9, "turns of each side")
	fs.DurationVar(&b.duration, "duration", 2*time.Second, "length of a turn")
	fs.IntVar(&b.names, "names", 20_000, "names that are taken")
	fs.StringVar(&b.profile, "cpuprofile", "", "file for a CPU profile of both sides")
	fs.StringVar(&b.only, "only", "", "run only the comparisons that contain this")
	return cmd
}

// duel is one comparison. Scripts are for wrk, in Lua; an empty one asks for
// the URL as it is.
type duel struct {
	what             string
	goal             float64
	path, peer       string // the former begins behind the checker's URL
	localCache       int    // see local.Options
	warm             bool   // Redis knows every name before the first turn
	pathLua, peerLua string
}

func (b *bench) run(ctx context.Context, out io.Writer) error {
	dir, err := os.MkdirTemp("", "diagnose-bench-")
	if err != nil {
		return fmt.Errorf("make a folder for the scripts: %w", err)
	}
	err = b.inFolder(ctx, dir, out)
	return errors.Join(err, os.RemoveAll(dir))
}

func (b *bench) inFolder(ctx context.Context, dir string, out io.Writer) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Commits wait for the disk, on both sides.
	back, err := startBackEnds(ctx, local.PostgresOptions{Shards: 4, Durable: true}, b.names)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, back.close()) }()
	options := back.options(uint64(b.names) * 100)
	peers, err := startPeers(ctx, back.redis.Addr(), back.postgres.DSN(0), b.names)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, peers.close()) }()

	check := "/v1/check?name="
	duels := []duel{
		{what: "check answered by the Bloom filter / bare net/http", goal: 0.75, path: check + "nobodyhasthis", peer: peers.url + "/hello"},
		{what: "check answered by the local cache / bare net/http", goal: 0.75, path: check + load.Name(0), peer: peers.url + "/hello"},
		{
			what: "check answered by Redis / bare GET behind net/http", goal: 0.8, warm: true, localCache: 1, // holds next to nothing
			pathLua: b.namesLua(check), peer: peers.url, peerLua: b.namesLua("/get?name="),
		},
		{
			what: "registration / bare upsert behind net/http", goal: 0.6,
			pathLua: postLua("/v1/register", "p"), peer: peers.url, peerLua: postLua("/upsert", "b"),
		},
	}
	if _, err := fmt.Fprintf(out, "wrk -t2 -c64 over loopback, %d turns of %s for each side, one after the other, after one to warm up; "+
		"ratio: median of neighbouring turns.\nBoth sides are in one process and have one Redis and one PostgreSQL, commits that wait "+
		"for the disk, %d connections to it each. What follows registrations runs beside them, and is over before the peer's turn.\n", b.rounds, b.duration, peerPool); err != nil {
		return err
	}
	if b.profile != "" {
		stop, err := startProfile(b.profile)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	for i, d := range duels {
		if !strings.Contains(d.what, b.only) {
			continue
		}
		options.LocalCache = d.localCache
		if err := b.arrange(ctx, filepath.Join(dir, strconv.Itoa(i)), options, d, out); err != nil {
			return fmt.Errorf("%s: %w", d.what, err)
		}
	}
	return nil
}

// arrange starts the path for one duel.
func (b *bench) arrange(ctx context.Context, prefix string, o local.Options, d duel, out io.Writer) (err error) {
	path, err := local.Start(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, path.Close()) }()
	if d.warm {
		if err := path.Service.Redis.MarkAllTaken(ctx, b.taken()); err != nil {
			return err
		}
	}
	d.path = path.URL + d.path
	return b.fight(ctx, prefix, d, path, out)
}

// settle waits until all that follows registrations is done, so that it does
// not burden the peer's turn. It burdens the path's own while that lasts.
func settle(ctx context.Context, path *local.Path) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		left := 0
		for _, s := range path.Service.Relay.Stats() {
			left += s.Unpublished
		}
		if left == 0 {
			return nil
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("%d events are not delivered: %w", left, err)
		}
	}
}

// startProfile profiles this process, which is both sides of every duel, until
// stop is called.
func startProfile(file string) (stop func() error, err error) {
	f, err := os.Create(file)
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(fmt.Errorf("profile: %w", err), f.Close())
	}
	return func() error { pprof.StopCPUProfile(); return f.Close() }, nil
}

// fight lets both sides of a duel take turns. The machine may be shared and
// change its pace, so that only neighbouring turns are compared: the ratio is
// the median of theirs. Beside it stands what does not depend on what else
// runs, the CPU time of this process, which is both servers, for each request.
func (b *bench) fight(ctx context.Context, prefix string, d duel, running *local.Path, out io.Writer) error {
	var path, peer, ratios, pathCPU, peerCPU []float64
	for turn := range b.rounds + 1 {
		rate, cpu := [2]float64{}, [2]float64{}
		for i, side := range []struct{ url, lua, name string }{{d.peer, d.peerLua, "peer"}, {d.path, d.pathLua, "path"}} {
			// Every turn registers names of its own.
			lua := strings.ReplaceAll(side.lua, "TURN", fmt.Sprintf("%s%d", side.name, turn))
			if err := settle(ctx, running); err != nil {
				return err
			}
			before := ownCPU()
			var err error
			if rate[i], err = wrk(ctx, fmt.Sprintf("%s-%s-%d.lua", prefix, side.name, turn), side.url, lua, b.duration); err != nil {
				return err
			}
			cpu[i] = (ownCPU() - before).Seconds() * 1e6 / (rate[i] * b.duration.Seconds())
		}
		if turn > 0 { // the first turn warms up
			peer, path, ratios = append(peer, rate[0]), append(path, rate[1]), append(ratios, rate[1]/rate[0])
			peerCPU, pathCPU = append(peerCPU, cpu[0]), append(pathCPU, cpu[1])
		}
	}
	ratio := median(ratios)
	met := "met"
	if ratio < d.goal {
		met = "MISSED"
	}
	_, err := fmt.Fprintf(out, "%-52s ratio %.2f (goal %.2f, %s)  %7.0f/s against %7.0f/s, cpu %5.1f µs against %5.1f µs\n",
		d.what, ratio, d.goal, met, median(path), median(peer), median(pathCPU), median(peerCPU))
	return err
}

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

// ownCPU is the CPU time that this process has used.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// taken yields the names that are taken.
func (b *bench) taken() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range b.names {
			if !yield(load.Name(i)) {
				return
			}
		}
	}
}

// namesLua asks for taken names at random.
func (b *bench) namesLua(prefix string) string {
	var list strings.Builder
	for n := range b.taken() {
		fmt.Fprintf(&list, "%q,", n)
	}
	return fmt.Sprintf("local names = {%s}\nrequest = function() return wrk.format(\"GET\", %q .. names[math.random(#names)]) end\n", list.String(), prefix)
}

// postLua posts a new name each time; threads draw from different names.
func postLua(path, prefix string) string {
	return fmt.Sprintf(`
local threads = 0
function setup(thread) thread:set("id", threads); threads = threads + 1 end
local n = 0
request = function()
  n = n + 1
  return wrk.format("POST", %q, {["Content-Type"] = "application/json"}, string.format('{"name":"%sTURNx%%dx%%d"}', id, n))
end
`, path, prefix)
}
