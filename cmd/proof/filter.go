package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/regpath/diagnose/reference/bloom"
)

// filter makes a filter for very many names and reads its fill while names are
// asked for.
type filter struct {
	params   bloom.Params
	touch    int
	readings int
}

// Goals: 1.2 GB give or take the formula's fractions, and 150 ms of CPU.
const fillGoal = 150 * time.Millisecond

func newFilter() *cobra.Command {
	f := filter{}
	cmd := suite("filter", "Make a filter for 1,000,000,000 names (1.2 GB) and read its fill under load", f.run)
	fs := cmd.Flags()
	fs.Uint64Var(&f.params.Capacity, "capacity", 1_000_000_000, "names to size the filter for")
	fs.Float64Var(&f.params.Rate, "rate", 0.01, "false-positive rate to size the filter for")
	fs.IntVar(&f.touch, "names", 3_000_000, "names to add first, so that every page of memory is in use")
	fs.IntVar(&f.readings, "readings", 10, "readings of the fill")
	return cmd
}

func (p *filter) run(ctx context.Context, out io.Writer) error {
	if p.readings < 1 {
		return errors.New("at least one reading is needed")
	}
	for _, bad := range []bloom.Params{{Capacity: 0, Rate: 0.01}, {Capacity: 10, Rate: 0}, {Capacity: 10, Rate: 1}, {Capacity: 10, Rate: math.NaN()}, {Capacity: math.MaxUint64, Rate: 0.01}} {
		_, err := bloom.New(bad)
		if err == nil {
			return fmt.Errorf("a filter for %d names at %g was made", bad.Capacity, bad.Rate)
		}
		if _, err := fmt.Fprintf(out, "refused: %v\n", err); err != nil {
			return err
		}
	}
	before := heapInUse()
	f, err := bloom.New(p.params)
	if err != nil {
		return err
	}
	bytes := heapInUse() - before
	s := f.Stats()
	m := math.Ceil(-float64(p.params.Capacity) * math.Log(p.params.Rate) / (math.Ln2 * math.Ln2))
	k := math.Ceil(math.Ln2 * m / float64(p.params.Capacity))
	if math.Abs(float64(s.Bits)-m) > 1 || float64(s.Hashes) != k {
		return fmt.Errorf("the filter has m=%d k=%d, the formula says m=%.0f k=%.0f", s.Bits, s.Hashes, m, k)
	}
	fill(f, p.touch)
	if err := ctx.Err(); err != nil {
		return err
	}
	start := ownCPU()
	for range p.readings {
		s = f.Stats()
	}
	reading := (ownCPU() - start) / time.Duration(p.readings)
	checks, worst := askWhile(f, func() {
		for range p.readings {
			f.Stats()
		}
	})
	_, err = fmt.Fprintf(out, "capacity=%d rate=%g m=%d k=%d bytes=%d set_bits=%d fill_cpu_ms=%.1f checks_meanwhile=%d worst_check_ms=%.2f\n",
		p.params.Capacity, p.params.Rate, s.Bits, s.Hashes, bytes, s.SetBits, milliseconds(reading), checks, milliseconds(worst))
	if err == nil && reading > fillGoal {
		err = fmt.Errorf("reading the fill took %s of CPU, the goal is %s", reading, fillGoal)
	}
	return err
}

// fill adds names from all cores.
func fill(f *bloom.Filter, names int) {
	var adding sync.WaitGroup
	cores := runtime.GOMAXPROCS(0)
	for c := range cores {
		adding.Go(func() {
			for i := c; i < names; i += cores {
				f.Add("user"+strconv.Itoa(i), bloom.Build)
			}
		})
	}
	adding.Wait()
}

// askWhile asks for names without a pause while do runs, and returns how many
// it asked for and the longest time that one took.
func askWhile(f *bloom.Filter, do func()) (checks int, worst time.Duration) {
	var quit atomic.Bool
	var asking sync.WaitGroup
	asking.Go(func() {
		for ; !quit.Load(); checks++ {
			at := time.Now()
			f.Test("free" + strconv.Itoa(checks&1023))
			worst = max(worst, time.Since(at))
		}
	})
	do()
	quit.Store(true)
	asking.Wait()
	return checks, worst
}

func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
